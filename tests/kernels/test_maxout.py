"""The compiled maxout against torch.maximum: values and gradients to the bit, ties, wrong numbers, threads, torch's own checks."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from highwaynet import ConvMaxout, DenseMaxout
from highwaynet.kernels.maxout import MOST_PIECES, can_maxout, largest_in_torch, maxout
from highwaynet.kernels.native import native_module

native = native_module()
pytestmark = pytest.mark.skipif(native is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")

WIDTHS = [1, 3, 4, 7, 8, 12, 15, 16, 17, 31, 33, 80]
INF, NAN = float("inf"), float("nan")


def gradients(function: Callable[[Tensor, int], Tensor], z: Tensor, gy: Tensor, pieces: int) -> tuple[Tensor, Tensor]:
    z = z.detach().requires_grad_()
    y = function(z, pieces)
    return y.detach(), *torch.autograd.grad(y, z, gy)


def drawn(*shape: int, pieces: int) -> tuple[Tensor, Tensor]:
    """Pieces and an upstream gradient; a third of the numbers are small integers, so that many pieces are equal."""
    generator = torch.Generator().manual_seed(sum(shape) + pieces)
    layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    z = torch.randn(shape[0], pieces * shape[1], *shape[2:], generator=generator)
    z = torch.where(torch.rand(z.shape, generator=generator) < 0.3, z.round(), z)
    return z.contiguous(memory_format=layout), torch.randn(shape, generator=generator).contiguous(memory_format=layout)


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("pieces", [2, 3, 4, 5, MOST_PIECES])
@pytest.mark.parametrize("width", WIDTHS)
def test_values_and_gradients_are_those_of_torch_to_the_bit(width: int, pieces: int) -> None:
    for shape in [(0, width), (1, width), (33, width), (3, width, 5, 7), (0, width, 4, 4), (2, width, 1, 1)]:
        z, gy = drawn(*shape, pieces=pieces)
        assert can_maxout(z, pieces)
        found = gradients(maxout, z, gy, pieces)
        for value, expected in zip(found, gradients(largest_in_torch, z, gy, pieces), strict=True):
            assert value.shape == expected.shape
            assert torch.equal(value, expected)
        assert found[1].stride() == z.stride()


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("pieces", [2, 5])
@pytest.mark.parametrize("width", WIDTHS)
def test_bfloat16_gives_what_torch_gives(width: int, pieces: int) -> None:
    for shape in [(0, width), (33, width), (3, width, 5, 7)]:
        z, gy = (tensor.bfloat16() for tensor in drawn(*shape, pieces=pieces))
        assert can_maxout(z, pieces)
        for value, expected in zip(gradients(maxout, z, gy, pieces), gradients(largest_in_torch, z, gy, pieces), strict=True):
            assert value.dtype is torch.bfloat16
            assert torch.equal(value, expected)


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("width", [1, 6, 36])
def test_equal_infinite_and_wrong_numbers(width: int) -> None:
    numbers = torch.tensor([0.0, -0.0, 1.0, -INF, INF, NAN])
    parts = [part.reshape(-1, width) for part in torch.meshgrid(numbers, numbers, numbers, indexing="ij")]
    z = torch.cat(parts, dim=1)
    gy = torch.linspace(-1, 1, parts[0].numel()).view_as(parts[0])
    for dtype in (torch.float32, torch.bfloat16):
        z, gy = z.to(dtype), gy.to(dtype)
        for found, expected in zip(gradients(maxout, z, gy, 3), gradients(largest_in_torch, z, gy, 3), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.usefixtures("_each_instruction_set")
def test_the_number_of_threads_changes_no_bit() -> None:
    z, gy = drawn(7, 17, 41, 43, pieces=3)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(gradients(maxout, z, gy, 3))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_a_gradient_in_any_memory_is_read_right() -> None:
    z, gy = drawn(3, 16, 5, 7, pieces=2)
    expected = gradients(maxout, z, gy, 2)
    for strange in (gy.contiguous(), gy.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)):
        assert all(torch.equal(a, b) for a, b in zip(gradients(maxout, z, strange, 2), expected, strict=True))
    spread = gradients(maxout, z, torch.ones(()).expand(gy.shape), 2)
    assert torch.equal(spread[1], gradients(maxout, z, torch.ones_like(gy), 2)[1])


@pytest.mark.parametrize("shape", [(33, 17), (2, 16, 3, 5)])
def test_torch_finds_the_operators_well_registered(shape: tuple[int, ...]) -> None:
    z, gy = drawn(*shape, pieces=3)
    torch.library.opcheck(torch.ops.highwaynet.maxout.default, (z.clone().requires_grad_(), 3))
    torch.library.opcheck(torch.ops.highwaynet.maxout_backward.default, (gy, z, 3))
    strange = gy.transpose(0, 1).contiguous().transpose(0, 1)
    torch.library.opcheck(torch.ops.highwaynet.maxout_backward.default, (strange, z, 3))


def test_gradients_of_gradients_and_by_the_batch_are_right() -> None:
    z, gy = (tensor.requires_grad_() for tensor in drawn(9, 5, pieces=3))

    def penalty(function: Callable[[Tensor, int], Tensor]) -> tuple[Tensor, ...]:
        (gz,) = torch.autograd.grad((function(z, 3) ** 2).sum(), z, create_graph=True)
        return torch.autograd.grad((gz**3).sum(), z)

    assert torch.equal(penalty(maxout)[0], penalty(largest_in_torch)[0])
    many = torch.stack((gy, 2 * gy, gy - 1)).detach()
    found, expected = (torch.autograd.grad(f(z, 3), z, many, is_grads_batched=True)[0] for f in (maxout, largest_in_torch))
    assert torch.equal(found, expected)


def test_numerical_gradients() -> None:
    z = torch.randn(4, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: largest_in_torch(z, 3), z.requires_grad_())
    assert not can_maxout(z, 3), "float64 is left to torch"


def test_what_does_not_fit_is_refused() -> None:
    z = torch.randn(4, 12)
    for wrong, pieces in ((z, 5), (z, 1), (z, 33), (z[0], 2), (z.half(), 2), (z.t().contiguous().t(), 2)):
        assert not can_maxout(wrong, pieces)
        with pytest.raises(ValueError, match="call can_maxout first"):
            maxout(wrong, pieces)


@pytest.mark.parametrize("layer", [lambda: DenseMaxout(6, 5, pieces=3), lambda: ConvMaxout(6, 5, kernel_size=3, pieces=2)])
def test_layers_give_what_they_give_without_kernels(layer: Callable[[], torch.nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    module = layer()
    shapes = [(6,), (4, 6), (2, 3, 6)] if isinstance(module, DenseMaxout) else [(6, 4, 4), (3, 6, 5, 7)]
    for shape in shapes:
        results = []
        for kernel in (True, False):
            if not kernel:
                monkeypatch.setattr("highwaynet.layers.maxout.can_maxout", lambda *_: False)
            x = torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape).requires_grad_()
            y = module(x)
            results.append((y.detach(), *torch.autograd.grad((y**2).sum(), (x, *module.parameters()))))
        monkeypatch.undo()
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
