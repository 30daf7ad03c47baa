"""The compiled stack against the readable one: values, gradients, wrong numbers, threads, torch's own checks."""

import gc
import os
import warnings

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwaynet import DenseHighway, DensePlain, DenseResidual, lesion, recompute
from highwaynet.kernels.dense_stack import KINDS, can_stack, dense_stack, dense_stack_gates, stack_in_torch
from highwaynet.kernels.native import native_module
from stack_twins import ACTIVATIONS, compare, drawn, results

native = native_module()
pytestmark = pytest.mark.skipif(native is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")

INF, NAN = float("inf"), float("nan")


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_ragged_shapes_on_every_instruction_set(kind: str, activation: str) -> None:
    for width in (1, 2, 7, 15, 16, 17, 50, 71, 130):
        for rows in (1, 3, 16, 33, 130):
            compare(kind, activation, 3, rows, width)
    compare(kind, activation, 6, 20, 12, closed=(1, 4, 6))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(KINDS)),
    activation=st.sampled_from(ACTIVATIONS),
    layers=st.integers(1, 200),
    rows=st.integers(1, 1000),
    width=st.integers(1, 300),
    seed=st.integers(0, 1000),
)
def test_any_shape(kind: str, activation: str, layers: int, rows: int, width: int, seed: int) -> None:
    work = 3e8  # so that the float64 reference takes no minutes
    layers = max(1, min(layers, int(work / (rows * width * width))))
    compare(kind, activation, layers, rows, width, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_does_not_show(kind: str) -> None:
    before = torch.get_num_threads()
    try:
        for layers, rows, width in ((50, 128, 50), (3, 1000, 71), (200, 17, 33), (1, 64, 300), (2, 4500, 40), (1, 300, 520)):
            inputs, found = drawn(kind, layers, rows, width), []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                found.append(results(dense_stack, inputs, kind, "tanh"))
            for other in found[1:]:
                assert all(map(torch.equal, found[0], other))
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("kind", KINDS)
def test_wide_layers_and_many_rows(kind: str) -> None:
    compare(kind, "tanh", 1, 70, 520)  # weights are copied, and sums of more than 512 terms are cut
    compare(kind, "relu", 7, 2100, 12, closed=(3,))  # rows go through all layers in two parts
    compare(kind, "sigmoid", 2, 4097, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_its_neighbours(kind: str) -> None:
    x, weight, bias, _ = drawn(kind, 9, 100, 37)
    whole = dense_stack(x, weight, bias, kind, "tanh")
    for start, stop in ((0, 1), (0, 16), (7, 30), (50, 100), (99, 100)):
        assert torch.equal(dense_stack(x[start:stop], weight, bias, kind, "tanh"), whole[start:stop])


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
def test_numbers_that_are_none_pass_asstack_in_torch(kind: str, activation: str, wrong: float) -> None:
    inputs = drawn(kind, 3, 21, 18)
    inputs[0][4, 5] = wrong
    ours, theirs = results(dense_stack, inputs, kind, activation), results(stack_in_torch, inputs, kind, activation)
    assert torch.equal(ours[0].isnan(), theirs[0].isnan())
    assert torch.equal(ours[1].isnan().any(1), theirs[1].isnan().any(1))
    for place in (0, 1):  # other rows are untouched
        rest = torch.arange(21) != 4
        torch.testing.assert_close(ours[place][rest], theirs[place][rest], rtol=1e-4, atol=1e-5)


def test_both_ends_of_the_gate_are_exact() -> None:
    x, weight, bias, _ = drawn("highway", 4, 30, 20)
    bias[:, 20:] = -1e4
    assert torch.equal(dense_stack(x, weight, bias, "highway", "tanh"), x)
    bias[:, 20:] = 1e4
    plain = dense_stack(x, weight[:, :20].contiguous(), bias[:, :20].contiguous(), "plain", "tanh")
    assert torch.equal(dense_stack(x, weight, bias, "highway", "tanh"), plain)


@pytest.mark.parametrize("kind", KINDS)
def test_gates_and_states_come_from_the_same_pass(kind: str) -> None:
    x, weight, bias, _ = drawn(kind, 5, 40, 23)
    y, h, t = dense_stack_gates(x, weight, bias, kind, "sigmoid", [2])
    assert torch.equal(y, dense_stack(x, weight, bias, kind, "sigmoid", [2]))
    state = x
    for layer in range(5):
        z = torch.nn.functional.linear(state, weight[layer], bias[layer])
        if layer == 1:
            assert not h[layer].any()
            continue
        torch.testing.assert_close(h[layer], torch.sigmoid(z[:, :23]), rtol=1e-5, atol=1e-6)
        if kind == "highway":
            torch.testing.assert_close(t[layer], torch.sigmoid(z[:, 23:]), rtol=1e-5, atol=1e-6)
        state = stack_in_torch(state, weight[layer : layer + 1], bias[layer : layer + 1], kind, "sigmoid", ())
    assert len(t) == (5 if kind == "highway" else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_torchs_own_checks_of_operators(kind: str) -> None:
    x, weight, bias, gy = drawn(kind, 3, 10, 6)
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    torch.library.opcheck(torch.ops.highwaynet.dense_stack.default, (*leaves, kind, "tanh", [2], True))
    torch.library.opcheck(torch.ops.highwaynet.dense_stack.default, (x.detach(), weight.detach(), bias.detach(), kind, "relu", [], False))
    kept = torch.ops.highwaynet.dense_stack.default(x.detach(), weight.detach(), bias.detach(), kind, "tanh", [], True)[1]
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(
        torch.ops.highwaynet.dense_stack_backward.default, (gy, weight.detach(), kept, kind, "tanh", []), test_utils=tests
    )


def test_a_compiled_model_has_the_same_output_and_gradients() -> None:
    stack, x = DenseHighway(12, layers=7), torch.randn(20, 12)
    expected = torch.autograd.grad(stack(x).square().sum(), list(stack.parameters()))
    compiled = torch.compile(stack, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of torch's compiler are not ours
        found = torch.autograd.grad(compiled(x).square().sum(), list(stack.parameters()))
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_gradients_of_gradients_and_frozen_parts() -> None:
    x, weight, bias, _ = drawn("highway", 4, 6, 5)
    x.requires_grad_()
    weight.requires_grad_()
    y = dense_stack(x, weight, bias, "highway", "tanh")
    (gx,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gx.square().sum(), weight)
    doubles = [tensor.detach().double().requires_grad_() for tensor in (x, weight)]
    y = stack_in_torch(*doubles, bias.double(), "highway", "tanh", ())
    (gx,) = torch.autograd.grad(y.sum(), doubles[0], create_graph=True)
    (expected,) = torch.autograd.grad(gx.square().sum(), doubles[1])
    torch.testing.assert_close(second.double(), expected, rtol=1e-4, atol=1e-5)
    frozen = DenseHighway(5, layers=3).requires_grad_(False)
    frozen(x).sum().backward()
    assert x.grad is not None
    assert frozen.weight.grad is None


@pytest.mark.parametrize("made", [lambda: DenseHighway(9, layers=6), lambda: DensePlain(9, layers=6), lambda: DenseResidual(9, layers=6)])
def test_the_layers_use_it_and_agree_with_the_readable_version(made: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from highwaynet.layers import stacking

    stack, x = made(), torch.randn(2, 3, 9)  # type: ignore[operator]
    calls = []
    original = stacking.run_stack
    monkeypatch.setattr(stacking, "run_stack", lambda *arguments: calls.append(1) or original(*arguments))
    fast = stack(x)
    assert calls
    assert fast.shape == x.shape
    monkeypatch.setattr(stacking, "can_stack", lambda *arguments: False)
    torch.testing.assert_close(fast, stack(x), rtol=1e-5, atol=1e-6)
    exact = stack.double()(x.double())
    torch.testing.assert_close(fast.double(), exact, rtol=1e-5, atol=1e-6)


def test_closed_layers_and_recomputation_together() -> None:
    stack, x = DenseHighway(8, layers=11), torch.randn(5, 8)
    shorter = stack.without([1, 5, 11])
    recompute(stack)
    with lesion(stack, [1, 5, 11]):
        assert torch.equal(stack(x), shorter(x))
    with torch.no_grad():
        y, gates = stack(x, return_gates=True)
        assert torch.equal(y, stack(x))
        assert gates.shape == (11, 5, 8)


def test_what_it_cannot_take() -> None:
    x, weight, bias, _ = drawn("highway", 2, 3, 4)
    assert can_stack(x, weight, bias, "highway")
    assert not can_stack(x.double(), weight, bias, "highway")
    assert not can_stack(x[None], weight, bias, "highway")
    assert not can_stack(x, weight.mT.contiguous().mT, bias, "highway")
    assert not can_stack(x[:, :3].contiguous(), weight, bias, "highway")
    for arguments in ((x.double(), weight, bias, "highway", "tanh"), (x, weight, bias, "plain", "tanh")):
        with pytest.raises(ValueError, match="no kernel for a"):
            dense_stack(*arguments)
    for names in (("rail", "tanh"), ("highway", "softmax")):
        with pytest.raises(ValueError, match="unknown kind"):
            dense_stack(x, weight, bias, *names)


def test_empty_batches_and_stacks() -> None:
    for kind in KINDS:
        x, weight, bias, gy = drawn(kind, 3, 0, 4)
        found = results(dense_stack, (x, weight, bias, gy), kind, "tanh")
        assert found[0].shape == (0, 4)
        assert not found[2].any()
        x, weight, bias, gy = drawn(kind, 0, 5, 4)
        y, gx, *_ = results(dense_stack, (x, weight, bias, gy), kind, "tanh")
        assert torch.equal(y, x)
        assert torch.equal(gx, gy)


def test_exported_models_need_no_kernel_of_ours() -> None:
    program = torch.export.export(DenseHighway(6, layers=2), (torch.randn(3, 6),))
    assert "highwaynet" not in str(program.graph)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's own count of pages")  # noqa: PTH110
def test_no_memory_is_lost_over_ten_thousand_steps() -> None:
    stack, x = DenseHighway(16, layers=10), torch.randn(16, 16)

    def pages() -> int:
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as stream:  # noqa: PTH123
            return int(stream.read().split()[1])

    def steps(count: int) -> None:
        for _ in range(count):
            stack(x).sum().backward()
            stack.zero_grad()

    steps(500)
    before = pages()
    steps(10_000)
    assert pages() - before < 500  # 2 MB


def test_closed_layers_stay_closed_under_another_default_device() -> None:
    stack, x = DenseHighway(8, layers=3), torch.randn(4, 8)
    torch.set_default_device("meta")
    try:
        with lesion(stack, [1, 2, 3]), torch.no_grad():
            assert torch.equal(stack(x), x)
    finally:
        torch.set_default_device(None)
    with lesion(stack, [1, 2, 3]), torch.no_grad():
        assert torch.equal(stack(x), x)


@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_of_gradients_where_all_layers_are_closed(frozen: bool) -> None:
    stack, x = DenseHighway(4, layers=2), torch.randn(3, 4, requires_grad=not frozen)
    with lesion(stack, [1, 2]):
        y = stack(x)
        wanted = [*stack.parameters(), *([] if frozen else [x])]
        found = torch.autograd.grad(y.sum(), wanted, create_graph=True)
    assert not found[0].any()
    assert not found[1].any()
    assert frozen or torch.equal(found[2], torch.ones(3, 4))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_saved_tensors_of_which_some_were_compressed(dims: int) -> None:
    x, weight, bias, gy = drawn("highway", 3, 21, 18)
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.bfloat16() if tensor.dim() == dims else tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.float() if tensor.dim() == 2 else tensor):
        y = dense_stack(*leaves, "highway", "tanh")
    if dims == 3:  # the saved weight is not float32: the kernel cannot read it, nor can torch mix the types
        with pytest.raises(RuntimeError, match="dtype"):
            torch.autograd.grad(y, leaves, gy)
        return
    right = torch.autograd.grad(stack_in_torch(*leaves, "highway", "tanh", ()), leaves, gy)
    for mine, theirs in zip(torch.autograd.grad(y, leaves, gy), right, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.05, atol=0.05)
