"""Stacks by the library's products: values and gradients against the readable version, and the rule that chooses them."""

import warnings

import pytest
import torch

from highwaynet import DenseHighway, lesion
from highwaynet.kernels import dense_stack as stacks
from highwaynet.kernels.dense_products import prefers_products
from highwaynet.kernels.dense_stack import KINDS, dense_stack, dense_stack_gates, stack_in_torch
from highwaynet.kernels.native import native_module
from stack_twins import ACTIVATIONS, compare, drawn, results

pytestmark = pytest.mark.skipif(native_module() is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")


def test_only_one_or_two_rows_of_wide_layers() -> None:
    assert not prefers_products(1, 255)
    assert prefers_products(1, 256)
    assert not prefers_products(2, 511)
    assert prefers_products(2, 512)
    assert not prefers_products(2, 2048)
    assert not prefers_products(3, 4096)
    assert not prefers_products(128, 50)


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_values_and_gradients(kind: str, activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(kind, activation, 3, 1, 256)
    compare(kind, activation, 3, 1, 270, closed=(2,))
    monkeypatch.setattr(stacks, "prefers_products", lambda rows, width: True)
    for rows, width in ((1, 5), (2, 17), (33, 50)):
        compare(kind, activation, 3, rows, width)
        compare(kind, activation, 3, rows, width, closed=(1, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_edges(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "prefers_products", lambda rows, width: True)
    x, weight, bias, gy = drawn(kind, 3, 2, 6)
    y, gx, gw, gb = results(dense_stack, (x, weight, bias, gy), kind, "tanh", (1, 2, 3))
    assert torch.equal(y, x)
    assert torch.equal(gx, gy)
    assert not gw.any()
    assert not gb.any()
    with torch.no_grad():
        assert dense_stack(x, weight, bias, kind, "tanh", (1, 2, 3)).data_ptr() != x.data_ptr()
    empty = results(dense_stack, drawn(kind, 3, 0, 6), kind, "tanh")
    assert empty[0].shape == (0, 6)
    assert not empty[2].any()
    assert torch.equal(results(dense_stack, drawn(kind, 0, 2, 6), kind, "tanh")[0], drawn(kind, 0, 2, 6)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_gates_and_states(kind: str) -> None:
    x, weight, bias, _ = drawn(kind, 3, 1, 256)
    y, h, t = dense_stack_gates(x, weight.requires_grad_(), bias, kind, "sigmoid", [2])
    assert torch.equal(y, dense_stack(x, weight, bias, kind, "sigmoid", [2]))
    tiles = dense_stack_gates(x.repeat(3, 1), weight, bias, kind, "sigmoid", [2])
    for mine, theirs in zip((h, t), tiles[1:], strict=True):
        torch.testing.assert_close(mine, theirs[:, :1])


@pytest.mark.parametrize("kind", KINDS)
def test_torchs_own_checks_of_operators(kind: str) -> None:
    x, weight, bias, gy = drawn(kind, 2, 1, 256)
    kept = torch.ops.highwaynet.dense_stack.default(x, weight, bias, kind, "tanh", [], True)[1]
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.highwaynet.dense_stack_backward.default, (gy, weight, kept, kind, "tanh", []), test_utils=tests)
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    torch.library.opcheck(torch.ops.highwaynet.dense_stack.default, (*leaves, kind, "tanh", [2], True))


def test_autocast_does_not_reach_the_products() -> None:
    x, weight, bias, _ = drawn("highway", 2, 1, 256)
    with torch.autocast("cpu", torch.bfloat16):
        found = dense_stack(x, weight, bias, "highway", "tanh")
    assert torch.equal(found, dense_stack(x, weight, bias, "highway", "tanh"))


def test_gradients_of_gradients_compiling_and_lesions() -> None:
    stack, x = DenseHighway(256, layers=2), torch.randn(1, 256, requires_grad=True)
    (gx,) = torch.autograd.grad(stack(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gx.square().sum(), stack.weight)
    y = stack_in_torch(x, stack.weight, stack.bias, "highway", "tanh", ())
    (gx,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.testing.assert_close(second, torch.autograd.grad(gx.square().sum(), stack.weight)[0], rtol=1e-4, atol=1e-6)
    with lesion(stack, [1]):
        assert torch.equal(stack(x), stack.without([1])(x))
    expected = torch.autograd.grad(stack(x).square().sum(), list(stack.parameters()))
    compiled = torch.compile(stack, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of torch's compiler are not ours
        found = torch.autograd.grad(compiled(x).square().sum(), list(stack.parameters()))
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)
