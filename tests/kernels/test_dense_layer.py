"""A single dense layer and the cross-entropy against torch's own."""

import pytest
import torch
import torch.nn.functional as F

from highwaynet import DensePlain
from highwaynet.kernels.dense_layer import can_layer, cross_entropy, dense_layer
from highwaynet.kernels.native import native_module

native = native_module()
pytestmark = pytest.mark.skipif(native is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")
ACTIVATIONS = ("relu", "tanh", "sigmoid", "identity")
INF, NAN = float("inf"), float("nan")


def in_torch(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str) -> torch.Tensor:
    z = F.linear(x, weight, bias)
    return z if activation == "identity" else getattr(torch, activation)(z)


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 2), (17, 9, 16), (128, 784, 50), (33, 40, 71)])
def test_layers_have_torchs_outputs_and_gradients(shape: tuple[int, int, int], activation: str) -> None:
    rows, inputs, outputs = shape
    torch.manual_seed(rows)
    tensors = [torch.randn(rows, inputs), torch.randn(outputs, inputs) / inputs**0.5, torch.randn(outputs)]
    gy = torch.randn(rows, outputs)
    found, exact = [], []
    for results, function, kind in ((found, dense_layer, torch.float32), (exact, in_torch, torch.float64)):
        leaves = [tensor.to(kind).requires_grad_() for tensor in tensors]
        y = function(*leaves, activation)
        results += [y.detach(), *torch.autograd.grad(y, leaves, gy.to(kind))]
    for mine, right in zip(found, exact, strict=True):
        torch.testing.assert_close(mine.double(), right, rtol=2e-5, atol=2e-5)


def test_gradients_of_gradients_and_what_needs_none() -> None:
    leaves = [torch.randn(4, 3), torch.randn(5, 3, requires_grad=True), torch.randn(5)]
    (gw,) = torch.autograd.grad(dense_layer(*leaves, "tanh").sum(), leaves[1], create_graph=True)
    (second,) = torch.autograd.grad(gw.square().sum(), leaves[1])
    doubles = [tensor.detach().double().requires_grad_(tensor.requires_grad) for tensor in leaves]
    (gw,) = torch.autograd.grad(in_torch(*doubles, "tanh").sum(), doubles[1], create_graph=True)
    (exact,) = torch.autograd.grad(gw.square().sum(), doubles[1])
    torch.testing.assert_close(second.double(), exact, rtol=1e-4, atol=1e-5)


def test_where_it_is_not_used() -> None:
    layer = DensePlain(4, 3)
    weight, bias = layer.weight[0], layer.bias[0]
    assert can_layer(torch.randn(2, 4), weight, bias)
    assert not can_layer(torch.randn(2, 4).double(), weight, bias)
    assert not can_layer(torch.randn(1, 2, 4), weight, bias)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not can_layer(torch.randn(2, 4), weight, bias)
    assert layer(torch.randn(5, 2, 4)).shape == (5, 2, 3)
    torch.testing.assert_close(layer(torch.eye(4)).double(), layer.double()(torch.eye(4).double()), rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize(("rows", "classes"), [(1, 1), (1, 2), (128, 10), (33, 100), (7, 17), (3, 1000)])
def test_cross_entropy_is_torchs(rows: int, classes: int) -> None:
    torch.manual_seed(classes)
    logits, targets = 8 * torch.randn(rows, classes), torch.randint(classes, (rows,))
    kinds = (torch.float32, torch.float64, torch.float32)
    mine, exact, torchs = (logits.clone().to(kind).requires_grad_() for kind in kinds)
    loss = cross_entropy(mine, targets)
    right, theirs = F.cross_entropy(exact, targets), F.cross_entropy(torchs, targets)
    assert abs(loss.item() - right.item()) <= 2 * abs(theirs.item() - right.item()) + 3e-7 * right.item()
    for value in (3 * loss, 3 * right):  # also with a gradient from above
        value.backward()
    assert mine.grad is not None
    torch.testing.assert_close(mine.grad.double(), exact.grad, rtol=1e-5, atol=1e-7)


def test_cross_entropy_of_odd_inputs() -> None:
    targets = torch.tensor([1, 0])
    assert cross_entropy(torch.tensor([[NAN, 1.0], [0.0, 1.0]]), targets).isnan()
    assert (
        cross_entropy(torch.tensor([[INF, 1.0], [0.0, 1.0]]), targets).isnan()
        == F.cross_entropy(torch.tensor([[INF, 1.0], [0.0, 1.0]]), targets).isnan()
    )
    huge = torch.tensor([[1e30, -1e30], [0.0, 1.0]])
    torch.testing.assert_close(cross_entropy(huge, targets), F.cross_entropy(huge, targets))
    with pytest.raises(ValueError, match=r"targets\[1\] = 2: expected a class number from 0 to"):
        cross_entropy(torch.randn(2, 2), torch.tensor([0, 2]))
    strided = torch.randn(4, 2).t()  # any memory
    torch.testing.assert_close(cross_entropy(strided, torch.tensor([1, 3])), F.cross_entropy(strided, torch.tensor([1, 3])))
    assert cross_entropy(torch.randn(2, 2).double(), targets).dtype is torch.float64
