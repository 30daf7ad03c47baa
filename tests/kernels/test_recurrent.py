"""The compiled recurrent highway layer against float64: values, gradients, threads, masks, lengths, torch's own checks."""

import warnings
from typing import NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from highwaynet import RecurrentHighway
from highwaynet.kernels.native import native_module
from highwaynet.kernels.recurrent import can_recur, recurrent_in_torch, recurrent_inside, run_recurrent

native = native_module()
pytestmark = pytest.mark.skipif(native is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")
ACTIVATIONS = ("relu", "tanh", "sigmoid", "identity")
# Steps, rows, inputs, width, depth.
SIZES = [
    (1, 1, 1, 1, 1),
    (3, 2, 3, 5, 2),
    (7, 13, 4, 16, 3),
    (5, 33, 17, 50, 2),
    (9, 26, 9, 70, 3),
    (3, 270, 8, 33, 2),
    (4, 5, 140, 130, 2),
]
NAMES = ("y", "gx", "gstart", "giw", "gw", "gb")


class Case(NamedTuple):
    tensors: tuple[Tensor, ...]
    mask: Tensor | None
    counts: Tensor
    gy: Tensor


def drawn(
    steps: int, rows: int, inputs: int, width: int, depth: int, *, parts: int = 2, ragged: bool = False, masked: bool = False, seed: int = 0
) -> Case:
    """x, start, weights and bias, a mask, the rows of each step, and an upstream gradient."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return torch.randn(*shape, generator=generator) * scale

    lengths = torch.randint(1, steps + 1, (rows,), generator=generator) if ragged else torch.full((rows,), steps)
    lengths[0] = steps
    counts = (lengths > torch.arange(steps)[:, None]).sum(1)
    bias = normal(depth, parts * width, scale=0.1)
    bias[:, width : 2 * width] -= 1.0
    weight = normal(depth, parts * width, width, scale=0.8 / width**0.5)
    tensors = (normal(int(counts.sum()), inputs), normal(rows, width), normal(parts * width, inputs, scale=inputs**-0.5), weight, bias)
    mask = torch.rand(rows, width, generator=generator).gt(0.3).float() / 0.7 if masked else None
    return Case(tensors, mask, counts, normal(int(counts.sum()), width))


def results(
    function: object, case: Case, activation: str, closed: tuple[int, ...] = (), dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Output and gradients; 0 for inputs that do not matter."""
    leaves = [tensor.to(dtype).clone().requires_grad_() for tensor in case.tensors]
    mask = None if case.mask is None else case.mask.to(dtype)
    y = function(*leaves, mask=mask, counts=case.counts, activation=activation, closed=closed)  # type: ignore[operator]
    return [y.detach(), *torch.autograd.grad(y, leaves, case.gy.to(dtype), materialize_grads=True)]


def error(found: Tensor, exact: Tensor) -> float:
    return ((found.double() - exact).norm() / exact.norm().clamp_min(1e-30)).item()


def compare(case: Case, activation: str, closed: tuple[int, ...] = ()) -> None:
    """The error against float64 is at most four times that of torch in float32."""
    exact = results(recurrent_in_torch, case, activation, closed, torch.float64)
    torchs = results(recurrent_in_torch, case, activation, closed)
    ours = results(run_recurrent, case, activation, closed)
    for name, mine, theirs, right in zip(NAMES, ours, torchs, exact, strict=True):
        assert mine.shape == right.shape
        if not right.any():
            assert not mine.any(), name
        elif right.isfinite().all():
            lucky = 1e-7 if right.numel() >= 100 else 1e-5  # a few numbers may be rounded right by chance
            assert error(mine, right) <= 4 * max(error(theirs, right), lucky), (name, error(mine, right), error(theirs, right))


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_ragged_shapes_on_every_instruction_set(parts: int, masked: bool, ragged: bool) -> None:
    sizes = [
        (1, 1, 1, 1, 1),
        (3, 2, 3, 5, 2),
        (7, 13, 4, 16, 3),
        (5, 33, 17, 50, 2),
        (9, 26, 9, 70, 3),
        (3, 270, 8, 33, 2),
        (4, 5, 140, 130, 2),
    ]
    for number, (size, activation) in enumerate(zip(sizes, ACTIVATIONS * 2, strict=False)):
        case = drawn(*size, parts=parts, ragged=ragged, masked=masked, seed=number)
        compare(case, activation, closed=(1,) if number == 3 else (2, 3) if number == 4 else ())


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.tuples(st.integers(1, 30), st.integers(1, 60), st.integers(1, 40), st.integers(1, 150), st.integers(1, 10)),
    parts=st.sampled_from([2, 3]),
    activation=st.sampled_from(ACTIVATIONS[:3]),
    ragged=st.booleans(),
    masked=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_shape(size: tuple[int, ...], parts: int, activation: str, ragged: bool, masked: bool, seed: int) -> None:
    steps, rows, inputs, width, depth = size
    steps = max(1, min(steps, int(3e7 / (rows * width * width * depth))))  # so that the float64 reference takes no minutes
    compare(drawn(steps, rows, inputs, width, depth, parts=parts, ragged=ragged, masked=masked, seed=seed), activation)


def test_neither_threads_nor_the_division_of_work_show() -> None:
    assert native is not None
    before = torch.get_num_threads()
    try:
        for size, ragged in (((12, 32, 20, 64, 3), False), ((9, 45, 8, 130, 2), True), ((5, 3, 4, 300, 2), True)):
            case, found = drawn(*size, ragged=ragged, masked=ragged), []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                for division in (1, 2):  # threads take rows, or features
                    native.divide_recurrent(division)
                    found.append(results(run_recurrent, case, "tanh"))
            assert all(all(map(torch.equal, found[0], other)) for other in found[1:])
    finally:
        torch.set_num_threads(before)
        native.divide_recurrent(0)


def test_a_sequence_does_not_depend_on_its_neighbours() -> None:
    (x, start, *weights), mask, counts, _ = drawn(11, 29, 6, 37, 3, masked=True)
    whole = run_recurrent(x, start, *weights, mask, counts, "tanh").view(11, 29, 37)
    assert mask is not None
    for first, last in ((0, 1), (0, 16), (7, 19), (28, 29)):
        rows = x.view(11, 29, 6)[:, first:last].reshape(-1, 6)
        alone = run_recurrent(rows, start[first:last], *weights, mask[first:last], torch.full((11,), last - first), "tanh")
        assert torch.equal(alone.view(11, last - first, 37), whole[:, first:last])


def test_both_ends_of_the_gate_are_exact() -> None:
    (x, start, iw, weight, bias), _, counts, _ = drawn(4, 5, 3, 20, 2)
    bias[:, 20:] = -1e4
    y = run_recurrent(x, start, iw, weight, bias, None, counts, "tanh")
    assert torch.equal(y.view(4, 5, 20), start.expand(4, 5, 20))
    bias[:, 20:] = 1e4
    _, (_, h, t) = recurrent_inside(x, start, iw, weight, bias, None, counts, "tanh")
    assert (t == 1).all()
    assert torch.equal(run_recurrent(x, start, iw, weight, bias, None, counts, "tanh"), h[-1])


def test_a_number_that_is_none_stays_in_its_sequence() -> None:
    case = drawn(5, 9, 4, 18, 2)
    case.tensors[0].view(5, 9, 4)[2, 3, 1] = float("nan")
    y = run_recurrent(*case.tensors, None, case.counts, "tanh").view(5, 9, 18)
    assert y[2:, 3].isnan().all()
    assert y[:2].isfinite().all()
    assert y[:, torch.arange(9) != 3].isfinite().all()


def test_what_micro_layers_compute_comes_from_the_same_pass() -> None:
    case = drawn(6, 7, 3, 19, 3, parts=3, ragged=True)
    y, (before, h, t, c) = recurrent_inside(*case.tensors, None, case.counts, "tanh", [2])
    assert torch.equal(y, run_recurrent(*case.tensors, None, case.counts, "tanh", [2]))
    assert not h[1].any()
    assert not t[1].any()
    torch.testing.assert_close(h[0] * t[0] + before[0] * c[0], before[1])
    assert torch.equal(before[1], before[2])
    torch.testing.assert_close(h[2] * t[2] + before[2] * c[2], y)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_torchs_own_checks_of_operators(parts: int, masked: bool) -> None:
    tensors, mask, counts, gy = drawn(3, 4, 2, 5, 2, parts=parts, ragged=True, masked=masked)
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    operator = torch.ops.highwaynet.recurrent.default
    torch.library.opcheck(operator, (*leaves, mask, counts, "tanh", [2], True))
    torch.library.opcheck(operator, (*tensors, mask, counts, "relu", [], False))
    kept = operator(*tensors, mask, counts, "tanh", [], True)[1]
    arguments = (gy, *tensors[:4], mask, counts, kept, "tanh", [])
    torch.library.opcheck(torch.ops.highwaynet.recurrent_backward.default, arguments, test_utils=("test_schema", "test_faketensor"))


def test_a_compiled_model_has_the_same_output_and_gradients() -> None:
    layer, x = RecurrentHighway(3, 8, 2), torch.randn(5, 4, 3)
    expected = torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters()))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of torch's compiler are not ours
        found = torch.autograd.grad(compiled(x)[0].square().sum(), list(layer.parameters()))
    assert all(map(torch.equal, found, expected))


def test_gradients_of_gradients() -> None:
    (x, start, iw, weight, bias), mask, counts, _ = drawn(3, 2, 2, 4, 2, masked=True)

    def second(function: object, dtype: torch.dtype) -> Tensor:
        a, w = x.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_()
        others = {"mask": mask.to(dtype), "counts": counts, "activation": "tanh", "closed": ()}  # type: ignore[union-attr]
        y = function(a, start.to(dtype), iw.to(dtype), w, bias.to(dtype), **others)  # type: ignore[operator]
        (gx,) = torch.autograd.grad(y.square().sum(), a, create_graph=True)
        return torch.autograd.grad(gx.square().sum(), w)[0]

    torch.testing.assert_close(
        second(run_recurrent, torch.float32).double(), second(recurrent_in_torch, torch.float64), rtol=1e-4, atol=1e-5
    )


def test_frozen_parts_get_no_gradient() -> None:
    layer, x = RecurrentHighway(3, 8, 2), torch.randn(5, 4, 3, requires_grad=True)
    layer.requires_grad_(False)
    layer(x)[0].sum().backward()
    assert x.grad is not None
    assert layer.weight.grad is None
    layer.requires_grad_(True)
    layer(x.detach())[0].sum().backward()
    assert layer.input_weight.grad is not None


def test_a_second_backward_pass_gives_the_same() -> None:
    case = drawn(4, 3, 2, 17, 2, masked=True)
    leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
    y = run_recurrent(*leaves, case.mask, case.counts, "tanh")
    first = torch.autograd.grad(y, leaves, case.gy, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(y, leaves, case.gy)))


def test_saved_tensors_that_come_back_otherwise_are_read_as_they_are() -> None:
    case = drawn(4, 3, 2, 17, 2)
    leaves = [tensor.clone().requires_grad_() for tensor in case.tensors]
    kept = 3 * 2 * 12 * 17

    def pack(tensor: Tensor) -> Tensor:
        return tensor[:1].clone() if tensor.dim() == 1 and tensor.is_floating_point() and tensor.numel() >= kept else tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = run_recurrent(*leaves, None, case.counts, "tanh")
    exact = results(recurrent_in_torch, case, "tanh", dtype=torch.float64)
    for mine, right in zip(torch.autograd.grad(y, leaves, case.gy), exact[1:], strict=True):
        torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-5)


def test_what_it_cannot_take() -> None:
    (x, start, iw, weight, bias), mask, counts, _ = drawn(3, 4, 2, 5, 2, masked=True)
    assert can_recur(x, start, iw, weight, bias, mask, counts)
    refused = [
        (x.double(), start, iw, weight, bias, mask, counts),
        (x[None], start, iw, weight, bias, mask, counts),
        (x[:, :1], start, iw, weight, bias, mask, counts),
        (x, start[:, :4], iw, weight, bias, mask, counts),
        (x, start, iw, weight.mT.contiguous().mT, bias, mask, counts),
        (x, start, iw, weight, bias[:1], mask, counts),
        (x, start, iw, weight, bias, mask[:3], counts),  # type: ignore[index]
        (x, start, iw, weight, bias, mask, counts.int()),
    ]
    assert not any(can_recur(*arguments) for arguments in refused)
    for wrong in ([4, 4, 5], [4, 4], [3, 4, 5], [4, 4, 4, 0], []):
        with pytest.raises(ValueError, match="rows that do not increase"):
            run_recurrent(x, start, iw, weight, bias, mask, torch.tensor(wrong, dtype=torch.int64), "tanh")
    with pytest.raises(ValueError, match="activation = 'softmax': expected relu, tanh"):
        torch.ops.highwaynet.recurrent.default(x, start, iw, weight, bias, mask, counts, "softmax", [], False)


def test_flops_are_counted() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    case = drawn(3, 4, 2, 5, 2)
    leaves = [tensor.requires_grad_() for tensor in case.tensors]
    with FlopCounterMode(display=False) as counter:
        run_recurrent(*leaves, None, case.counts, "tanh").sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 12 * (10 * 2 + 2 * 10 * 5)
