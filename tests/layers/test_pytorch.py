"""What people do with PyTorch modules, with every layer it applies to. docs/PYTORCH.md lists the same things, in the same order."""

import contextlib
import copy
import io
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import highwaynet
from highwaynet import lesion, matrix_parameters, observe, recompute, unstacked
from highwaynet.layers.lesion import Closable

PAGE = (Path(__file__).parents[2] / "docs" / "PYTORCH.md").read_text()
WIDTH, MAPS = (6,), (3, 5, 4)


class Case(NamedTuple):
    """A layer, and the shape of a sample."""

    name: str
    make: Callable[[], nn.Module]
    sample: tuple[int, ...]

    def start(self, dtype: torch.dtype = torch.float32, batch: int = 4) -> tuple[nn.Module, Tensor]:
        """A layer with random biases, and a batch; the same for equal arguments."""
        torch.manual_seed(0)
        layer = self.make().to(dtype)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        if self.name == "CharacterCNN":
            return layer, torch.randint(1, 9, (batch, *self.sample))
        return layer, torch.randn(batch, *self.sample, dtype=dtype)

    def __repr__(self) -> str:
        return self.name


def wrapped() -> nn.Module:
    return highwaynet.Highway(nn.Sequential(nn.Linear(6, 6), nn.Tanh()), nn.Linear(6, 6))


DENSE = [
    Case("DenseHighway", lambda: highwaynet.DenseHighway(6, layers=3), WIDTH),
    Case("DenseHighway-independent", lambda: highwaynet.DenseHighway(6, layers=2, carry="independent"), WIDTH),
    Case("DensePlain", lambda: highwaynet.DensePlain(6, layers=2), WIDTH),
    Case("DensePlain-wider", lambda: highwaynet.DensePlain(6, 7), WIDTH),
    Case("DenseResidual", lambda: highwaynet.DenseResidual(6, layers=2), WIDTH),
    Case("DepthLSTM", lambda: highwaynet.DepthLSTM(6, layers=2), WIDTH),
    Case("DenseMaxout", lambda: highwaynet.DenseMaxout(6, 5), WIDTH),
    Case("Highway", wrapped, WIDTH),
]
MAPPED = [
    Case("ConvHighway", lambda: highwaynet.ConvHighway(3, activation="tanh"), MAPS),
    Case("ConvPlain", lambda: highwaynet.ConvPlain(3, 4, activation="tanh"), MAPS),
    Case("ConvMaxout", lambda: highwaynet.ConvMaxout(3, 4), MAPS),
    Case("ConvResidual", lambda: highwaynet.ConvResidual(3, 4, norm=False, shortcut="project"), MAPS),
]
SEQUENCES = [Case("ConvHighway1d", lambda: highwaynet.ConvHighway1d(3, dilation=2, activation="tanh", causal=True), (3, 7))]
LAYERS = [*DENSE, *MAPPED, *SEQUENCES]
GATED = [case for case in LAYERS if "Highway" in case.name]
FEATURES = [Case("GatedResidualNetwork", lambda: highwaynet.GatedResidualNetwork(6, 5), WIDTH)]
NORMED = [Case("CBHG", lambda: highwaynet.CBHG(6, bank_size=3, bank_channels=4, highway_features=8, gru_features=5), (7, 6))]
CHARACTERS = [Case("CharacterCNN", lambda: highwaynet.CharacterCNN(9, filters=[(1, 3), (2, 4)]), (5,))]
ALL = [*LAYERS, *FEATURES, *NORMED, *CHARACTERS]
SMOOTH = [case for case in (*LAYERS, *FEATURES) if case.name not in {"ConvResidual", "DenseMaxout", "ConvMaxout"}]  # no kinks

THINGS: list[str] = []


def thing(title: str, cases: list[Case] = ALL) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a thing to the list, and parametrise its test over the layers."""
    if title not in THINGS:
        THINGS.append(title)
    return pytest.mark.parametrize("case", cases, ids=repr)


def close(mine: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(mine, theirs, atol=tolerance, rtol=tolerance)


def gradients(layer: nn.Module, y: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(y.square().sum(), list(layer.parameters())))


def as_function(layer: nn.Module) -> tuple[Callable[..., Tensor], dict[str, Tensor]]:
    """The layer as a function of its parameters and x."""
    parameters = {name: value.detach() for name, value in layer.named_parameters()}
    return lambda parameters, x: torch.func.functional_call(layer, parameters, (x,)), parameters


# --- state and construction


@thing("`state_dict` and `load_state_dict`")
def test_state_dict(case: Case) -> None:
    (layer, x), other = case.start(), case.make()
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.eval()(x), layer.eval()(x))


@thing("Saving with safetensors")
def test_safetensors(case: Case, tmp_path: Path) -> None:
    (layer, x), other = case.start(), case.make()
    safetensors.torch.save_model(layer, str(tmp_path / "layer.safetensors"))
    safetensors.torch.load_model(other, tmp_path / "layer.safetensors")
    assert torch.equal(other.eval()(x), layer.eval()(x))


@thing("`copy.deepcopy`, `pickle`, `torch.save` of a whole module")
def test_copies(case: Case) -> None:
    layer, x = case.start()
    with observe(layer):
        copies = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    for other in copies:
        assert torch.equal(other.eval()(x), layer.eval()(x))
        next(other.parameters()).data.zero_()
        assert next(layer.parameters()).any()


@thing("Building on the meta device, then `to_empty` and `reset_parameters`")
def test_meta(case: Case) -> None:
    _, x = case.start()
    with torch.device("meta"):
        layer = case.make()
    assert all(parameter.is_meta for parameter in layer.parameters())
    assert layer(x.to("meta")).shape == case.make()(x).shape
    layer = layer.to_empty(device="cpu")
    for module in layer.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    assert layer(x).isfinite().all()


@thing("`torch.set_default_dtype` and `torch.set_default_device`", [*LAYERS, *FEATURES, *NORMED])
def test_defaults(case: Case) -> None:
    try:
        torch.set_default_dtype(torch.float64)
        layer, x = case.make(), torch.randn(2, *case.sample)
    finally:
        torch.set_default_dtype(torch.float32)
    assert {parameter.dtype for parameter in layer.parameters()} == {torch.float64}
    assert layer(x).dtype == torch.float64
    with torch.device("cpu"):
        assert next(case.make().parameters()).is_cpu


@thing("`reset_parameters`, and a `generator` for repeatable weights", [case for case in LAYERS if case.name != "Highway"])
def test_reset(case: Case) -> None:
    layer, _ = case.start()
    starts = []
    for seed in (1, 1, 2):
        layer.reset_parameters(torch.Generator().manual_seed(seed))
        starts.append(torch.cat([parameter.detach().flatten() for parameter in layer.parameters()]))
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])


@thing("`apply`, `named_parameters`, `requires_grad_(False)`")
def test_frozen(case: Case) -> None:
    layer, x = case.start()
    names: list[str] = []
    layer.apply(lambda module: names.append(type(module).__name__))
    assert names[-1] == case.name.partition("-")[0]
    assert len(dict(layer.named_parameters())) == len(list(layer.parameters())) > 0
    layer.requires_grad_(False)
    if x.is_floating_point():
        x.requires_grad_()
        layer(x).square().sum().backward()
        assert x.grad is not None and x.grad.abs().sum() > 0  # noqa: PT018
    else:
        assert not layer(x).requires_grad


@thing("`nn.Sequential`, `nn.ModuleList`, `print`")
def test_containers(case: Case) -> None:
    layer, x = case.start()
    layer.eval()
    assert torch.equal(nn.Sequential(layer)(x), layer(x))
    assert next(nn.ModuleList([layer]).parameters()) is next(layer.parameters())
    assert repr(layer).startswith(f"{type(layer).__name__}(")


# --- inputs


@thing("Inputs with any leading axes (dense), or without a batch axis", [*LAYERS, *FEATURES, *CHARACTERS])
def test_leading_axes(case: Case) -> None:
    layer, x = case.start()
    y = layer(x)
    close(layer(x[1]), y[1])
    if case.sample == WIDTH or case in CHARACTERS:
        close(layer(x.reshape(2, 1, 2, *case.sample)), y.reshape(2, 1, 2, *y.shape[1:]))


@thing("An empty batch")
def test_empty(case: Case) -> None:
    layer, x = case.start()
    y = layer(x[:0])
    assert y.shape == (0, *layer(x).shape[1:])
    y.sum().backward()
    assert all(not parameter.grad.any() for parameter in layer.parameters() if parameter.grad is not None)


@thing("Inputs that are not contiguous, or expanded", [*LAYERS, *FEATURES, *NORMED])
def test_strides(case: Case) -> None:
    layer, x = case.start()
    layer.eval()
    spread = torch.randn(4, *case.sample[:-1], 2 * case.sample[-1])[..., ::2]
    close(layer(spread), layer(spread.contiguous()))
    turned = x.transpose(0, -1).contiguous().transpose(0, -1)
    close(layer(turned), layer(x))
    close(layer(x[:1].expand(4, *case.sample)), layer(x[:1]).expand(4, *layer(x).shape[1:]))


@thing("Memory formats: the output has that of the input, `.view(batch, -1)` works", [*MAPPED])
def test_memory_format(case: Case) -> None:
    layer, x = case.start()
    y, last = layer(x), layer(x.to(memory_format=torch.channels_last))
    assert y.is_contiguous()
    assert y.view(4, -1).shape == (4, y[0].numel())
    assert last.is_contiguous(memory_format=torch.channels_last)
    close(last, y)
    moved = copy.deepcopy(layer).to(memory_format=torch.channels_last)
    assert moved(x).is_contiguous(memory_format=torch.channels_last), "as in nn.Conv2d, the weights may decide"
    for module in (layer, moved):
        with lesion(module, [1]) if isinstance(module, Closable) else contextlib.nullcontext():
            assert module(x).is_contiguous(memory_format=torch.contiguous_format if module is layer else torch.channels_last)


@thing("In-place operations on the output, such as `nn.ReLU(inplace=True)` behind it")
def test_in_place(case: Case) -> None:
    layer, x = case.start()
    expected = gradients(layer, layer(x) + 1)
    try:
        mine = gradients(layer, layer(x).add_(1))
    except RuntimeError as error:  # torch refuses it, as behind nn.Tanh: the values are needed for gradients
        assert "modified by an inplace operation" in str(error)  # noqa: PT017
    else:
        for a, b in zip(mine, expected, strict=True):
            close(a, b)


# --- types


def in_lower_precision(case: Case, dtype: torch.dtype) -> None:
    layer, x = case.start()
    low = copy.deepcopy(layer).to(dtype)
    y = low(x.to(dtype) if x.is_floating_point() else x)
    assert y.dtype == dtype
    close(y.float(), layer(x), 0.1)
    y.sum().backward()
    assert all(parameter.grad is not None and parameter.grad.dtype == dtype for parameter in low.parameters())


@thing("Other types: `double`, `half`, `bfloat16`")
def test_double(case: Case) -> None:
    layer, x = case.start()
    double = copy.deepcopy(layer).double()
    y = double(x.double() if x.is_floating_point() else x)
    assert y.dtype == torch.float64
    close(y.float(), layer(x))


@thing("Other types: `double`, `half`, `bfloat16`")
def test_half(case: Case) -> None:
    in_lower_precision(case, torch.float16)


@thing("Other types: `double`, `half`, `bfloat16`")
def test_bfloat16(case: Case) -> None:
    in_lower_precision(case, torch.bfloat16)


@thing("`torch.autocast`: products in low precision, carried values in full")
def test_autocast(case: Case) -> None:
    layer, x = case.start()
    expected = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        seen = [F.linear(torch.ones(1, 1), torch.ones(1, 1)).dtype]
    close(y.float(), expected, 0.1)
    assert not torch.equal(y.float(), expected), "autocast reaches the layer"
    if case in GATED:
        assert y.dtype == torch.float32
    y.float().square().sum().backward()
    assert {parameter.grad.dtype for parameter in layer.parameters()} == {torch.float32}
    assert seen == [torch.bfloat16]


# --- gradients


@thing("`gradcheck`: gradients against finite differences", [*LAYERS, *FEATURES, *NORMED])
def test_gradcheck(case: Case) -> None:
    layer, x = case.start(torch.float64, batch=2)
    function, parameters = as_function(layer)
    names = list(parameters)
    values = [value.requires_grad_() for value in parameters.values()]
    assert torch.autograd.gradcheck(
        lambda x, *given: function(dict(zip(names, given, strict=True)), x), (x.requires_grad_(), *values), fast_mode=True
    )


@thing("Gradients of gradients (`gradgradcheck`, gradient penalties)", SMOOTH)
def test_gradgradcheck(case: Case) -> None:
    layer, x = case.start(torch.float64, batch=2)
    assert torch.autograd.gradgradcheck(layer, (x.requires_grad_(),), fast_mode=True)


def penalty(layer: nn.Module, x: Tensor) -> list[Tensor]:
    """Gradients of a gradient penalty."""
    x = x.clone().requires_grad_()
    (gx,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    return list(torch.autograd.grad(gx.square().sum(), [*layer.parameters()], allow_unused=True, materialize_grads=True))


@thing("Gradients of gradients (`gradgradcheck`, gradient penalties)", [*LAYERS, *FEATURES, *NORMED])
def test_gradient_penalty(case: Case) -> None:
    layer, x = case.start()
    for mine, theirs in zip(penalty(layer, x), penalty(copy.deepcopy(layer).double(), x.double()), strict=True):
        close(mine, theirs.float(), 1e-3)


@thing("Forward-mode gradients (`torch.func.jvp`, dual numbers)", [*LAYERS, *FEATURES])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forward_mode(case: Case) -> None:
    layer, x = case.start()
    direction = torch.randn_like(x)
    _, tangent = torch.func.jvp(layer, (x,), (direction,))
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, direction))).tangent
    close(dual, tangent)
    _, pull = torch.func.vjp(layer, x)
    close((tangent * tangent).sum(), (pull(tangent)[0] * direction).sum(), 1e-3)


@thing("Gradients of each sample (`vmap` of `grad`)", [*LAYERS, *FEATURES])
def test_gradients_of_each_sample(case: Case) -> None:
    layer, x = case.start()
    function, parameters = as_function(layer)
    each = torch.func.vmap(torch.func.grad(lambda p, sample: function(p, sample[None]).square().sum()), in_dims=(None, 0))(parameters, x)
    for mine, theirs in zip(each.values(), gradients(layer, layer(x)), strict=True):
        close(mine.sum(0), theirs, 1e-4)


@thing("Jacobians (`jacrev`, `jacfwd`), batched gradients", [*LAYERS, *FEATURES])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_jacobians(case: Case) -> None:
    layer, x = case.start(batch=1)
    backward, forward = torch.func.jacrev(layer)(x), torch.func.jacfwd(layer)(x)
    close(backward, forward)
    close(backward, torch.autograd.functional.jacobian(layer, x))


@thing("Jacobians (`jacrev`, `jacfwd`), batched gradients", [*LAYERS, *FEATURES])
def test_batched_gradients(case: Case) -> None:
    layer, x = case.start()
    y = layer(x.requires_grad_())
    directions = torch.randn(3, *y.shape)
    (many,) = torch.autograd.grad(y, x, directions, is_grads_batched=True, retain_graph=True)
    for mine, direction in zip(many, directions, strict=True):
        close(mine, torch.autograd.grad(y, x, direction, retain_graph=True)[0])


@thing("`functional_call` with other parameters")
def test_functional_call(case: Case) -> None:
    (layer, x), other = case.start(), case.make()
    found = torch.func.functional_call(other.eval(), {**layer.state_dict()}, (x,))
    close(found, layer.eval()(x))


@thing("Ensembles (`stack_module_state` and `vmap`)", [*LAYERS, *FEATURES])
def test_ensembles(case: Case) -> None:
    _, x = case.start()
    members = [case.make() for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(members)
    empty = copy.deepcopy(members[0]).to("meta")
    together = torch.func.vmap(lambda p, b: torch.func.functional_call(empty, (p, b), (x,)))(parameters, buffers)
    close(together, torch.stack([member(x) for member in members]))


@thing("Accumulated gradients of small batches", [*LAYERS, *FEATURES, *CHARACTERS])
def test_accumulation(case: Case) -> None:
    layer, x = case.start()
    expected = gradients(layer, layer(x))
    for part in x.split(2):
        layer(part).square().sum().backward()
    for parameter, theirs in zip(layer.parameters(), expected, strict=True):
        close(parameter.grad, theirs)


@thing("`torch.utils.checkpoint`, and `recompute` for dense stacks")
def test_checkpoint(case: Case) -> None:
    layer, x = case.start()
    expected = gradients(layer, layer(x))
    for mine, theirs in zip(gradients(layer, checkpoint(layer, x, use_reentrant=False)), expected, strict=True):
        close(mine, theirs)
    if hasattr(layer, "recomputes"):
        for mine, theirs in zip(gradients(layer, recompute(layer)(x)), expected, strict=True):
            assert torch.equal(mine, theirs)


@thing("`no_grad`, `inference_mode`, `eval`")
def test_without_gradients(case: Case) -> None:
    layer, x = case.start()
    expected = layer.eval()(x).detach()
    with torch.no_grad():
        y = layer(x)
    with torch.inference_mode():
        z = layer(x)
    assert not y.requires_grad
    close(y, expected)
    close(z.clone(), expected)


@thing("Hooks on saved tensors (`save_on_cpu`)")
def test_saved_tensors(case: Case) -> None:
    layer, x = case.start()
    expected = gradients(layer, layer(x))
    with torch.autograd.graph.save_on_cpu():
        y = layer(x)
    for mine, theirs in zip(gradients(layer, y), expected, strict=True):
        close(mine, theirs)


@thing("Anomaly detection (`detect_anomaly`)")
@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_anomalies(case: Case) -> None:
    layer, x = case.start()
    expected = gradients(layer, layer(x))
    with torch.autograd.detect_anomaly():
        for mine, theirs in zip(gradients(layer, layer(x)), expected, strict=True):
            close(mine, theirs)


# --- hooks and changed modules


@thing("Forward hooks and full backward hooks")
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_hooks(case: Case) -> None:
    layer, x = case.start()
    expected, seen = layer(x).detach(), []
    handles = [
        layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape)),
        layer.register_forward_hook(lambda module, inputs, output: seen.append(output.shape) or 2 * output),
        layer.register_full_backward_hook(lambda module, into, out: seen.append(out[0].shape)),
    ]
    y = layer(x.requires_grad_() if x.is_floating_point() else x)
    y.sum().backward()
    close(y, 2 * expected)
    assert seen == [x.shape, y.shape, y.shape]
    for handle in handles:
        handle.remove()


@thing("Parametrizations (`weight_norm`)", [case for case in LAYERS if case.name not in {"Highway", "ConvResidual"}])
def test_parametrizations(case: Case) -> None:
    layer, x = case.start()
    expected = layer(x).detach()
    parametrizations.weight_norm(layer, "weight")
    close(layer(x), expected)
    layer(x).square().sum().backward()
    assert layer.parametrizations.weight.original0.grad.abs().sum() > 0
    parametrize.remove_parametrizations(layer, "weight")
    close(layer(x), expected)


@thing("Pruning (`torch.nn.utils.prune`)", [case for case in LAYERS if case.name not in {"Highway", "ConvResidual"}])
def test_pruning(case: Case) -> None:
    layer, x = case.start()
    prune.l1_unstructured(layer, "weight", amount=0.5)
    pruned = layer(x)
    prune.remove(layer, "weight")
    assert (layer.weight == 0).float().mean() == pytest.approx(0.5, abs=0.02)
    close(layer(x), pruned)


@thing("Optimisers of torch: `foreach`, `fused`, LBFGS; `clip_grad_norm_`")
def test_optimisers(case: Case) -> None:
    layer, x = case.start()
    target = torch.randn(layer(x).shape)
    makers = [
        lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, foreach=True),
        lambda p: torch.optim.AdamW(p, lr=0.02, fused=True),
        # Without a line search its loss need not fall, least of all at the kinks of ReLU.
        lambda p: torch.optim.LBFGS(p, max_iter=4, line_search_fn="strong_wolfe"),
    ]
    for make in makers:
        module = copy.deepcopy(layer)
        optimiser, losses = make(module.parameters()), []

        def closure(module: nn.Module = module, optimiser: Any = optimiser, losses: list[float] = losses) -> Tensor:
            optimiser.zero_grad()
            loss = F.mse_loss(module(x), target)
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 10.0)
            losses.append(loss.item())
            return loss

        for _ in range(6):
            optimiser.step(closure)
        assert F.mse_loss(module(x), target).item() < losses[0]


@thing("Optimisers of matrices (Muon), with `matrix_parameters`")
def test_matrices(case: Case) -> None:
    layer, x = case.start()
    matrices, others = matrix_parameters(layer)
    assert all(matrix.dim() == 2 for matrix in matrices)
    assert sum(part.numel() for part in (*matrices, *others)) == sum(parameter.numel() for parameter in layer.parameters())
    expected = torch.cat([gradient.flatten() for gradient in gradients(layer, layer(x))]).sort().values
    layer(x).square().sum().backward()
    close(torch.cat([part.grad.flatten() for part in (*matrices, *others)]).sort().values, expected)
    if hasattr(torch.optim, "Muon"):  # since torch 2.9
        before = copy.deepcopy(layer.state_dict())
        torch.optim.Muon(matrices, lr=0.1).step()
        assert not torch.equal(next(iter(before.values())), next(iter(layer.state_dict().values()))) or case in CHARACTERS


@thing("Moving averages (`AveragedModel`)")
def test_averages(case: Case) -> None:
    layer, _ = case.start()
    averaged = torch.optim.swa_utils.AveragedModel(layer, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    averaged.update_parameters(layer)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    averaged.update_parameters(layer)
    start, _ = case.start()
    for mine, theirs in zip(averaged.module.parameters(), start.parameters(), strict=True):
        close(mine, 0.5 * theirs)


# --- compilers and exporters


@contextlib.contextmanager
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    try:
        yield
    finally:
        torch._dynamo.reset()


TRACEABLE = [*LAYERS, *FEATURES, *CHARACTERS]  # torch.compile does not support the GRU of CBHG


@thing("`torch.compile` with `fullgraph=True`", TRACEABLE)
def test_compile(case: Case) -> None:
    layer, x = case.start()
    with fresh_compiler():
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        close(compiled(x), layer(x))
        for mine, theirs in zip(gradients(layer, compiled(x)), gradients(layer, layer(x)), strict=True):
            close(mine, theirs)


@thing("`torch.compile` with a batch of changing size (`dynamic=True`)")
def test_compile_dynamic(case: Case) -> None:
    layer, x = case.start()
    layer.eval()
    with fresh_compiler():
        compiled = torch.compile(layer, backend="eager", dynamic=True)
        for size in (4, 3, 2):
            close(compiled(x[:size]), layer(x[:size]))


@thing("`torch.export`, also with a dynamic batch")
@pytest.mark.filterwarnings("ignore:The tensor attributes? self.gru")
def test_export(case: Case) -> None:
    layer, x = case.start()
    layer.eval()
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
    assert not any("highwaynet" in str(node.target) for node in program.graph.nodes), "an exported model needs no kernel of ours"
    for size in (4, 2):
        close(program.module()(x[:size]), layer(x[:size]))


@thing("ONNX (`torch.onnx.export`)")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_onnx(case: Case) -> None:
    import onnxruntime as runtime  # torch's exporter also needs onnxscript, which the extra `dev` has

    layer, x = case.start()
    layer.eval()
    stored = io.BytesIO()
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(layer, (x,), stored, dynamo=True)
    session = runtime.InferenceSession(stored.getvalue(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    close(torch.from_numpy(found), layer(x).detach(), 1e-4)


@thing("`torch.jit.trace`")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning", "ignore::FutureWarning")
def test_jit_trace(case: Case) -> None:
    layer, x = case.start()
    layer.eval()
    traced = torch.jit.trace(layer, (x,))
    assert "highwaynet::" not in str(traced.inlined_graph)
    close(traced(x[:3]), layer(x[:3]))


@thing("`torch.jit.script`")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_jit_script(case: Case) -> None:
    layer, _ = case.start()
    with pytest.raises(TypeError, match=f"cannot compile {type(layer).__name__}: use torch.jit.trace, or torch.export"):
        torch.jit.script(nn.Sequential(layer))


@thing("`torch.fx.symbolic_trace`: each layer is one node")
def test_fx(case: Case) -> None:
    layer, x = case.start()
    traced = torch.fx.symbolic_trace(nn.Sequential(layer, nn.Identity()).eval())
    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]
    assert torch.equal(traced(x), layer(x))
    with pytest.raises(TypeError, match=r"trace nn\.Sequential\(layer\)"):
        torch.fx.symbolic_trace(layer)


@thing(
    "Dynamic quantization (`quantize_dynamic`), with `unstacked`",
    [case for case in (*DENSE, *FEATURES, *CHARACTERS) if case.name not in {"DepthLSTM", "DenseMaxout"}],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_quantization(case: Case) -> None:
    layer, x = case.start()
    linear = unstacked(layer)
    close(linear(x), layer(x))
    quantized = torch.ao.quantization.quantize_dynamic(linear, {nn.Linear})
    assert not any(isinstance(module, nn.Linear) for module in quantized.modules())
    close(quantized(x), layer(x), 0.2)


# --- processes and measuring


@thing("`DistributedDataParallel`")
def test_ddp(case: Case, tmp_path: Path) -> None:
    layer, x = case.start()
    expected = gradients(layer, layer(x))
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        nn.parallel.DistributedDataParallel(layer)(x).square().sum().backward()
    finally:
        dist.destroy_process_group()
    for parameter, theirs in zip(layer.parameters(), expected, strict=True):
        close(parameter.grad, theirs)


@thing("`share_memory` between processes")
def test_share_memory(case: Case) -> None:
    layer, x = case.start()
    expected = layer.eval()(x).detach()
    layer.share_memory()
    assert all(parameter.is_shared() for parameter in layer.parameters())
    close(layer(x), expected)


@thing("Fake tensors, and counting of FLOPs")
def test_fake_tensors(case: Case) -> None:
    layer, x = case.start()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert layer(mode.from_tensor(x)).shape == case.make()(x).shape
    with FlopCounterMode(display=False) as counter:
        layer(x)
    assert counter.get_total_flops() > 0


# --- what this package adds


@thing("`return_gates`, `lesion`, `observe`", [*GATED])
def test_gates(case: Case) -> None:
    layer, x = case.start()
    y, t, *c = layer(x, return_gates=True)
    close(y, layer(x))
    assert all(gate.shape[-x.dim() :] == x.shape for gate in (t, *c))
    with lesion(layer, range(1, layer.num_layers + 1)):
        assert torch.equal(layer(x), x)


@thing("`return_gates`, `lesion`, `observe`")
def test_observe(case: Case) -> None:
    layer, x = case.start()
    expected = layer.eval()(x).detach()
    with observe(layer) as seen:
        y = layer(x)
    close(y, expected)
    for observed in seen:
        assert {"state", "output"} <= {*observed}
        assert len(observed["output"].values) == 4
    assert ("transform" in seen.layers[-1]) == (case in [*GATED, *FEATURES, *NORMED, *CHARACTERS] or case.name == "DepthLSTM")


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_recurrent_layers() -> None:
    """They return the outputs and a state, as `nn.GRU` does, so that they do not fit the tests above."""
    torch.manual_seed(0)
    layer, x = highwaynet.RecurrentHighway(4, 6, depth=2, batch_first=True), torch.randn(3, 5, 4)
    model = nn.Sequential(nn.Identity(), layer)
    traced = torch.fx.symbolic_trace(model)
    for mine, theirs in zip(traced(x), layer(x), strict=True):
        assert torch.equal(mine, theirs)
    with pytest.raises(TypeError, match=r"cannot compile RecurrentHighway: use torch\.jit\.trace, or torch\.export"):
        torch.jit.script(model)
    with pytest.raises(TypeError, match="RecurrentHighway takes a tensor, but got list"):
        layer([1.0])
    matrices, others = matrix_parameters(layer)
    assert sorted(tuple(matrix.shape) for matrix in matrices) == [(6, 4)] * 2 + [(6, 6)] * 4
    layer(x)[0].square().sum().backward()
    close(matrices[0].grad, layer.weight.grad[0, :6])
    assert sum(part.numel() for part in (*matrices, *others)) == sum(parameter.numel() for parameter in layer.parameters())
    y, state = highwaynet.Highway(highwaynet.RecurrentHighway(6, 6, batch_first=True), nn.Linear(6, 6))(torch.randn(3, 5, 6))
    assert (y.shape, state.shape) == ((3, 5, 6), (1, 3, 6))


def test_the_page_lists_these_things() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*?) \| (.*?) \|$", PAGE, flags=re.MULTILINE)
    assert [title for _, title, _ in rows] == THINGS
    assert [int(number) for number, _, _ in rows] == list(range(1, 46))
