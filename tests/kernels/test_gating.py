"""The compiled gating against the readable one: values, gradients, both ends, wrong numbers, threads, torch's own checks."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from highwaynet.kernels.gating import can_gate, gate
from highwaynet.kernels.native import native_module

native = native_module()
pytestmark = pytest.mark.skipif(native is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "identity": lambda h: h,
}
CHANNELS = [1, 3, 4, 7, 8, 15, 16, 17, 32, 50, 71, 80, 128, 1000]
INF, NAN = float("inf"), float("nan")


def readable(x: Tensor, z: Tensor, activation: str) -> Tensor:
    h, t = z.chunk(2, dim=1)
    return torch.lerp(x, ACTIVATIONS[activation](h), torch.sigmoid(t))


def gradients(function: Callable[..., Tensor], x: Tensor, z: Tensor, gy: Tensor, activation: str) -> tuple[Tensor, Tensor, Tensor]:
    x, z = x.detach().requires_grad_(), z.detach().requires_grad_()
    y = function(x, z, activation)
    return y.detach(), *torch.autograd.grad(y, (x, z), gy)


def drawn(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """x, z and an upstream gradient; four dimensions come with channels_last memory."""
    generator = torch.Generator().manual_seed(sum(shape))
    double = (shape[0], 2 * shape[1], *shape[2:])
    layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    x, z, gy = (torch.randn(size, generator=generator) for size in (shape, double, shape))
    return x.contiguous(memory_format=layout), (3 * z).contiguous(memory_format=layout), gy.contiguous(memory_format=layout)


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_values_and_gradients_equal_the_readable_version(channels: int, activation: str) -> None:
    shapes = [(rows, channels) for rows in (0, 1, 2, 33, 259)] + [(3, channels, 5, 7), (0, channels, 4, 4), (2, channels, 1, 1)]
    for shape in shapes:
        x, z, gy = drawn(*shape)
        assert can_gate(x, z)
        found = gradients(gate, x, z, gy, activation)
        for value, in_float32, in_float64 in zip(
            found,
            gradients(readable, x, z, gy, activation),
            gradients(readable, x.double(), z.double(), gy.double(), activation),
            strict=True,
        ):
            assert value.shape == in_float32.shape
            torch.testing.assert_close(value, in_float32, rtol=2e-6, atol=2e-6)
            torch.testing.assert_close(value.double(), in_float64, rtol=2e-6, atol=2e-6)
        assert found[0].stride() == x.stride()
        assert found[2].stride() == z.stride()


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_bfloat16_is_computed_in_float32_and_rounded_once(channels: int, activation: str) -> None:
    for shape in [(1, channels), (259, channels), (3, channels, 5, 7), (0, channels)]:
        x, z, gy = (tensor.bfloat16() for tensor in drawn(*shape))
        assert can_gate(x, z)
        exact = gradients(gate, x.float(), z.float(), gy.float(), activation)
        for value, expected in zip(gradients(gate, x, z, gy, activation), exact, strict=True):
            assert value.dtype is torch.bfloat16
            assert torch.equal(value, expected.bfloat16())


def test_two_types_are_left_to_torch() -> None:
    x, z, _ = drawn(4, 5)
    assert not can_gate(x, z.bfloat16())
    assert not can_gate(x.bfloat16(), z)
    assert not can_gate(x.half(), z.half())


def test_a_gradient_in_any_memory_is_read_right() -> None:
    x, z, gy = drawn(3, 16, 5, 7)
    expected = gradients(gate, x, z, gy, "relu")
    for strange in (gy.contiguous(), gy.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)):
        assert all(torch.equal(a, b) for a, b in zip(gradients(gate, x, z, strange, "relu"), expected, strict=True))
    spread = gradients(gate, x, z, torch.ones(()).expand(x.shape), "relu")
    assert all(torch.equal(a, b) for a, b in zip(spread, gradients(gate, x, z, torch.ones_like(x), "relu"), strict=True))


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("channels", [3, 16, 17])
def test_both_ends_are_exact(channels: int) -> None:
    x, z, _ = drawn(50, channels)
    x = x * torch.logspace(-30, 30, 50)[:, None]
    h = z[:, :channels].clone()
    for closed in (-INF, -1e30, -100.0):
        assert torch.equal(gate(x, torch.cat((h, torch.full_like(h, closed)), dim=1), "identity"), x)
    for opened in (INF, 1e30, 20.0):
        assert torch.equal(gate(x, torch.cat((h, torch.full_like(h, opened)), dim=1), "relu"), torch.relu(h))


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_sigmoid_and_tanh_are_accurate_everywhere(name: str) -> None:
    v = torch.cat(
        (
            torch.linspace(-110, 110, 1_000_000),
            torch.linspace(-2, 2, 1_000_000),
            torch.tensor([0.0, -0.0, 1e-45, -1e-45, 1e-39, -1e-39, 1e-38, 1e38, -1e38, INF, -INF, -87.33654, -88.0, -103.9, 0.5, -0.5]),
        )
    )[:, None]
    if name == "sigmoid":  # x = 0 and H = 1: the result is T
        found = gate(torch.zeros_like(v), torch.cat((torch.ones_like(v), v), dim=1), "identity")
    else:  # T = 1: the result is H
        found = gate(torch.zeros_like(v), torch.cat((v, torch.full_like(v, INF)), dim=1), "tanh")
    assert (found.double() - ACTIVATIONS[name](v.double())).abs().max() < 2e-7
    assert found.min() == (0.0 if name == "sigmoid" else -1.0)
    assert found.max() == 1.0


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_wrong_numbers_stay_wrong_and_keep_to_their_place(activation: str) -> None:
    numbers = torch.tensor([0.0, 1.0, -2.0, INF, -INF, NAN])
    x, h, t = (part.flatten() for part in torch.meshgrid(numbers, numbers, numbers, indexing="ij"))
    for channels in (1, 3, 216):  # 216 = 6³
        x2, z = x.view(-1, channels), torch.cat((h.view(-1, channels), t.view(-1, channels)), dim=1)
        gy = torch.ones_like(x2)
        for found, expected in zip(gradients(gate, x2, z, gy, activation), gradients(readable, x2, z, gy, activation), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6, equal_nan=True)
        halves = gradients(gate, x2.bfloat16(), z.bfloat16(), gy.bfloat16(), activation)
        for found, expected in zip(halves, gradients(gate, x2, z, gy, activation), strict=True):
            torch.testing.assert_close(found, expected.bfloat16(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("channels", [3, 16, 50])
def test_the_number_of_threads_changes_no_bit(channels: int) -> None:
    x, z, gy = drawn(7, channels, 41, 43)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(gradients(gate, x, z, gy, "tanh"))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_a_value_does_not_depend_on_its_place() -> None:
    x, z, gy = drawn(100, 17)
    whole = gradients(gate, x, z, gy, "sigmoid")
    for start, end in ((0, 1), (13, 50), (99, 100)):
        part = gradients(gate, x[start:end], z[start:end], gy[start:end], "sigmoid")
        assert all(torch.equal(a, b[start:end]) for a, b in zip(part, whole, strict=True))


@pytest.mark.parametrize("shape", [(33, 17), (2, 16, 3, 5)])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_torch_finds_the_operators_well_registered(shape: tuple[int, ...], activation: str) -> None:
    x, z, gy = drawn(*shape)
    torch.library.opcheck(torch.ops.highwaynet.gate.default, (x.clone().requires_grad_(), z.clone().requires_grad_(), activation))
    torch.library.opcheck(torch.ops.highwaynet.gate_backward.default, (gy, x, z, activation))
    strange = gy.transpose(0, 1).contiguous().transpose(0, 1)
    torch.library.opcheck(torch.ops.highwaynet.gate_backward.default, (strange, x, z, activation))


def test_the_registered_operator_and_the_direct_call_agree_to_the_bit() -> None:
    x, z, gy = drawn(33, 17)
    for found, expected in zip(gradients(torch.ops.highwaynet.gate, x, z, gy, "tanh"), gradients(gate, x, z, gy, "tanh"), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_gradients_are_right(activation: str) -> None:
    def penalty(function: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        x, z, gy = (tensor.requires_grad_() for tensor in drawn(9, 5))
        gx, gz = torch.autograd.grad(function(x, z, activation), (x, z), gy, create_graph=True)
        return torch.autograd.grad((gx**2).sum() + (gz**2).sum(), (x, z, gy))

    for found, expected in zip(penalty(gate), penalty(readable), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_the_registered_gradient_refuses_to_be_differentiated() -> None:
    x, z, gy = (tensor.requires_grad_() for tensor in drawn(3, 4))
    gx, _ = torch.ops.highwaynet.gate_backward(gy, x, z, "relu")
    with pytest.raises(RuntimeError, match="HIGHWAYNET_KERNEL=torch"):
        gx.sum().backward()


def test_gradients_by_the_batch_are_right() -> None:
    x, z, gy = drawn(4, 5)
    x.requires_grad_(), z.requires_grad_()
    many = torch.stack((gy, 2 * gy, gy - 1))
    found = torch.autograd.grad(gate(x, z, "tanh"), (x, z), many, is_grads_batched=True)
    expected = torch.autograd.grad(readable(x, z, "tanh"), (x, z), many, is_grads_batched=True)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_a_changed_input_is_noticed_in_the_backward_pass() -> None:
    x, z, gy = drawn(4, 5)
    z.requires_grad_()
    y = gate(x, z, "relu")
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward(gy)
