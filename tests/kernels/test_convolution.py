"""The compiled convolution against torch's: values, gradients, threads, wrong numbers, torch's own checks."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from highwaynet import ConvHighway, ConvPlain
from highwaynet.kernels.convolution import can_convolve, convolution, in_torch, is_faster
from highwaynet.kernels.native import native_module

native = native_module()
pytestmark = pytest.mark.skipif(native is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")

SIZES = [(1, 1), (1, 9), (4, 4), (5, 3), (6, 7), (8, 8), (13, 17), (32, 32)]
ROUNDING = 3e-5
"""Largest error of float32 in parts of the largest number."""


def drawn(samples: int, inputs: int, outputs: int, height: int, width: int, *, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """x, weight, bias and an upstream gradient."""
    generator = torch.Generator().manual_seed(samples + 7 * inputs + 11 * outputs + 13 * height + 17 * width)
    shapes = [(samples, inputs, height, width), (outputs, inputs, 3, 3), (outputs,), (samples, outputs, height, width)]
    x, weight, bias, gy = (torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes)
    return [x.contiguous(memory_format=torch.channels_last), weight / 3, bias, gy.contiguous(memory_format=torch.channels_last)]


def results(function: object, x: Tensor, weight: Tensor, bias: Tensor | None, gy: Tensor) -> list[Tensor]:
    """The convolution and the gradients of its arguments."""
    leaves = [
        tensor.detach().clone(memory_format=torch.preserve_format).requires_grad_() for tensor in (x, weight, bias) if tensor is not None
    ]
    y = function(leaves[0], leaves[1], leaves[2] if len(leaves) > 2 else None)  # type: ignore[operator]
    return [y.detach(), *torch.autograd.grad(y, leaves, gy)]


def assert_near(found: list[Tensor], exact: list[Tensor]) -> None:
    for mine, right in zip(found, exact, strict=True):
        assert mine.shape == right.shape
        assert (mine.double() - right).abs().max() <= ROUNDING * right.abs().max()


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("inputs", "outputs"), [(16, 16), (16, 48), (48, 32), (32, 96), (80, 16), (17, 31), (24, 50), (66, 136)])
def test_values_and_gradients_are_right(inputs: int, outputs: int, size: tuple[int, int]) -> None:
    for samples in (1, 3):
        x, weight, bias, gy = drawn(samples, inputs, outputs, *size)
        for given in (bias, None):
            exact = results(in_torch, *(None if tensor is None else tensor.double() for tensor in (x, weight, given, gy)))  # type: ignore[arg-type]
            found = results(convolution, x, weight, given, gy)
            assert_near(found, exact)
            assert found[0].is_contiguous(memory_format=torch.channels_last)
            assert found[1].stride() == x.stride()


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("channels", [16, 128])
def test_rounding_errors_are_a_few_times_those_of_torch(channels: int) -> None:
    x, weight, _, _ = drawn(4, channels, channels, 24, 24)
    exact = in_torch(x.double(), weight.double(), None)
    mine, torchs = ((function(x, weight, None).double() - exact).std() / exact.std() for function in (convolution, in_torch))
    assert mine < 3e-6
    assert mine < 12 * torchs


@pytest.mark.usefixtures("_each_instruction_set")
def test_whole_numbers_give_nearly_whole_results() -> None:
    x, weight, bias, gy = (tensor.mul(3).round() for tensor in drawn(2, 16, 32, 10, 11))
    for mine, right in zip(results(convolution, x, weight, bias, gy), results(in_torch, x, weight, bias, gy), strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-4, atol=2e-2)
        assert torch.equal(mine.round(), right.round())


@pytest.mark.parametrize(
    "needed", [(True, False, False), (False, True, False), (False, False, True), (True, False, True), (False, True, True)]
)
def test_only_the_gradients_that_are_wanted_are_computed(needed: tuple[bool, bool, bool]) -> None:
    *given, gy = drawn(2, 16, 32, 9, 8)
    all_gradients = results(convolution, *given, gy)[1:]
    leaves = [
        tensor.clone(memory_format=torch.preserve_format).requires_grad_(wanted) for tensor, wanted in zip(given, needed, strict=True)
    ]
    convolution(*leaves).backward(gy)
    for leaf, wanted, right in zip(leaves, needed, all_gradients, strict=True):
        assert leaf.grad is None if not wanted else torch.equal(leaf.grad, right)  # type: ignore[arg-type]
    found = torch.ops.highwaynet.convolution_backward(gy, given[0], given[1], *needed)
    for gradient, wanted, right in zip(found, needed, all_gradients, strict=True):
        assert torch.equal(gradient, right) if wanted else not gradient.numel()


def test_no_samples_and_no_pixels() -> None:
    for shape in [(0, 16, 5, 5), (2, 16, 0, 5), (2, 16, 4, 0)]:
        x = torch.empty(shape).contiguous(memory_format=torch.channels_last)
        weight, bias = torch.ones(32, 16, 3, 3), torch.ones(32)
        y, *gradients = results(convolution, x, weight, bias, torch.empty(shape[0], 32, *shape[2:]))
        assert y.shape == (shape[0], 32, *shape[2:])
        assert gradients[0].shape == shape
        assert not any(gradient.any() for gradient in gradients[1:])


@pytest.mark.usefixtures("_each_instruction_set")
def test_the_number_of_threads_changes_no_bit() -> None:
    arguments = drawn(12, 36, 75, 18, 17)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(results(convolution, *arguments))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_a_sample_does_not_depend_on_the_others() -> None:
    x, weight, bias, gy = drawn(7, 17, 33, 9, 10)
    y, gx, *_ = results(convolution, x, weight, bias, gy)
    for sample in range(len(x)):
        one = slice(sample, sample + 1)
        alone = results(convolution, x[one].contiguous(memory_format=torch.channels_last), weight, bias, gy[one])
        assert torch.equal(alone[0], y[one])
        assert torch.equal(alone[1], gx[one])


def test_a_number_that_is_not_finite_stays_near() -> None:
    x, weight, bias, _ = drawn(2, 16, 16, 16, 16)
    right = convolution(x, weight, bias)
    x[0, 3, 6, 6] = float("nan")
    y = convolution(x, weight, bias)
    assert y[0, :, 5:8, 5:8].isnan().all(), "also by torch's operator"
    assert torch.equal(y[1], right[1])
    assert torch.equal(y[0, :, 12:], right[0, :, 12:])


def test_gradients_and_weights_in_any_memory_are_read_right() -> None:
    x, weight, bias, gy = drawn(3, 16, 32, 6, 7)
    expected = results(convolution, x, weight, bias, gy)
    for strange in (gy.contiguous(), gy.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)):
        assert all(torch.equal(a, b) for a, b in zip(results(convolution, x, weight, bias, strange), expected, strict=True))
    for strange in (weight.contiguous(memory_format=torch.channels_last), torch.cat((weight, weight))[:32]):
        assert all(torch.equal(a, b) for a, b in zip(results(convolution, x, strange, bias, gy), expected, strict=True))
    spread = results(convolution, x, weight, bias, torch.ones(()).expand(gy.shape))
    assert all(torch.equal(a, b) for a, b in zip(spread, results(convolution, x, weight, bias, torch.ones_like(gy)), strict=True))


@pytest.mark.parametrize("with_bias", [True, False])
def test_torch_finds_the_operators_well_registered(with_bias: bool) -> None:
    x, weight, bias, gy = drawn(2, 16, 32, 5, 6)
    given = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    torch.library.opcheck(torch.ops.highwaynet.convolution.default, (*given[:2], given[2] if with_bias else None))
    for needed in ((True, True, True), (True, False, False), (False, True, False)):
        torch.library.opcheck(torch.ops.highwaynet.convolution_backward.default, (gy, x.detach(), weight.detach(), *needed))
    strange = gy.transpose(0, 1).contiguous().transpose(0, 1)
    torch.library.opcheck(torch.ops.highwaynet.convolution_backward.default, (strange, x.detach(), weight.detach(), True, True, True))


def test_gradients_of_gradients_and_by_the_batch_are_right() -> None:
    x, weight, bias, gy = drawn(2, 16, 16, 5, 4)
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]

    def penalty(function: object) -> tuple[Tensor, ...]:
        first = torch.autograd.grad((function(*leaves) ** 2).sum(), leaves, create_graph=True)  # type: ignore[operator]
        return torch.autograd.grad(sum((gradient**2).sum() for gradient in first), leaves)

    for mine, right in zip(penalty(convolution), penalty(in_torch), strict=True):
        assert (mine - right).abs().max() <= 1e-4 * right.abs().max()
    many = torch.stack((gy, 2 * gy))
    found, expected = (torch.autograd.grad(f(*leaves), leaves, many, is_grads_batched=True) for f in (convolution, in_torch))
    for mine, right in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-5, atol=1e-5)


def test_gradients_of_gradients_under_autocast_have_the_precision_of_the_forward_pass() -> None:
    x, weight, bias, _ = drawn(2, 16, 16, 8, 8)
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]

    def first(function: object) -> Tensor:
        y = function(*leaves)  # type: ignore[operator]
        with torch.autocast("cpu", torch.bfloat16):
            return torch.autograd.grad((y**2).sum(), x, create_graph=True)[0]

    mine, right = first(convolution), first(in_torch)
    assert (mine - right).abs().max() <= 1e-4 * right.abs().max()


def test_torch_counts_its_operations_as_those_of_a_convolution() -> None:
    x, weight, bias, gy = drawn(2, 16, 32, 8, 8)
    counts = []
    for function in (convolution, in_torch):
        with FlopCounterMode(display=False) as counter:
            results(function, x, weight, bias, gy)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


def test_what_does_not_fit_is_left_to_torch() -> None:
    x, weight, bias, _ = drawn(2, 16, 32, 8, 8)
    assert can_convolve(x, weight, bias)
    wrong = [
        (x.contiguous(), weight, bias),
        (x.double(), weight.double(), bias.double()),
        (x, weight[..., :1, :1], bias),
        (x, weight[:15], bias[:15]),
        (x[:, :15].contiguous(memory_format=torch.channels_last), weight[:, :15], bias),
        (x, weight, bias[:16]),
        (x[0], weight, bias),
        (x, weight.to("meta"), bias),
    ]
    for given in wrong:
        assert not can_convolve(*given)
        with pytest.raises(ValueError, match="call can_convolve first"):
            convolution(*given)
    with torch.autocast("cpu", torch.bfloat16):
        assert not can_convolve(x, weight, bias)


def test_it_is_used_where_tiles_are_many_and_full() -> None:
    weight, wide = torch.empty(16, 16, 3, 3), torch.empty(2048, 1024, 3, 3, device="meta")
    assert is_faster(torch.empty(100, 16, 32, 32), weight)
    assert is_faster(torch.empty(1, 16, 32, 32), weight)
    assert not is_faster(torch.empty(1, 16, 8, 8), weight), "few tiles"
    assert not is_faster(torch.empty(1000, 16, 2, 2), weight), "a quarter of each tile"
    assert not is_faster(torch.empty(0, 16, 32, 32), weight)
    assert not is_faster(torch.empty(100, 1024, 8, 8, device="meta"), wide), "much memory"


@pytest.mark.parametrize("make", [lambda: ConvHighway(16), lambda: ConvPlain(16, 32, kernel_size=3)])
def test_layers_use_it(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    layer: torch.nn.Module = make()  # type: ignore[operator]
    used, x = [], torch.randn(4, 16, 16, 15, requires_grad=True)

    def seen(*arguments: Tensor) -> Tensor:
        used.append(True)
        return convolution(*arguments)

    monkeypatch.setattr("highwaynet.layers.convolution.convolution", seen)
    y = layer(x)
    found = [y.detach(), *torch.autograd.grad((y**2).sum(), (x, *layer.parameters()))]
    assert used
    monkeypatch.setattr("highwaynet.layers.convolution.is_faster", lambda *_: False)
    y = layer(x)
    right = [y.detach(), *torch.autograd.grad((y**2).sum(), (x, *layer.parameters()))]
    assert len(used) == 1
    assert_near(found, right)


def test_compiled_graphs_of_batched_calls_leave_it_to_torch() -> None:
    layer, x = ConvPlain(16, 32, kernel_size=3), torch.randn(3, 4, 16, 8, 8)
    compiled = torch.compile(torch.vmap(layer), backend="aot_eager")
    torch.testing.assert_close(compiled(x), torch.stack([layer(one) for one in x]), rtol=1e-4, atol=1e-4)


def test_compiled_graphs_have_it() -> None:
    x, weight, bias, gy = drawn(3, 16, 16, 16, 16)
    compiled = torch.compile(lambda x, weight, bias: F.relu(convolution(x, weight, bias)), backend="aot_eager", fullgraph=True)
    for mine, right in zip(
        results(compiled, x, weight, bias, gy), results(lambda *t: F.relu(convolution(*t)), x, weight, bias, gy), strict=True
    ):
        torch.testing.assert_close(mine, right, rtol=1e-5, atol=1e-5)
