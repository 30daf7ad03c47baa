"""A stack of dense layers by the matrix products of torch's library, and the rest of each layer by our kernels.

The fused tiles of `dense_stack` compute several rows in each vector. With one or two rows most of a vector is empty, and the library's
products are faster. They need not give the same bits with another number of threads.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from highwaynet.kernels.operators import compiled
from highwaynet.kernels.workspace import workspace_like


def prefers_products(rows: int, width: int) -> bool:
    """Whether a stack is computed layer by layer with the library's products instead of fused tiles.

    The choice is made only here. It was measured with `benchmarks/stack_paths.py` on AVX-512 and AVX2 (results/stack-paths.json): the
    tiles win at every width from 64 to 2,048, except for a single row of at least 256 and for two rows of about 512 to 1,024.
    """
    return (rows == 1 and width >= 256) or (rows == 2 and 512 <= width < 2048)


def _layer(x: Tensor, weight: Tensor, bias: Tensor, z: Tensor, y: Tensor, kind: str, activation: str) -> None:
    """Compute y of one layer, and z: the pre-activations of a highway layer, H of others. For a plain layer, z is y."""
    if kind == "highway":
        torch.addmm(bias, x, weight.t(), out=z)
        compiled().gate(x, z, y, activation, 1)
        return
    torch.mm(x, weight.t(), out=z)
    compiled().activate(z, bias, activation)
    if kind == "residual":
        torch.add(x, z, out=y)


@torch.no_grad()
def products_forward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    kind: str,
    activation: str,
    closed: Sequence[int],
    kept: Tensor | None,
    t: Tensor | None = None,
    h: Tensor | None = None,
) -> Tensor:
    """Return the output of the last layer; `kept`, of the size that the tiles need, is filled for `products_backward`."""
    (layers, height, width), rows = weight.shape, len(x)
    states, pre = _views(kept, kind, layers, rows, width) if kept is not None else (None, None)
    if states is not None:
        states[0].copy_(x)
    for layer, (w, b) in enumerate(zip(weight.unbind(), bias.unbind(), strict=True)):
        if layer + 1 in closed:
            if states is not None:
                states[layer + 1].copy_(x)
            for gates in (t, h):
                if gates is not None and len(gates):
                    gates[layer].zero_()
            continue
        y = x.new_empty(rows, width) if states is None else states[layer + 1]
        z = y if kind == "plain" else x.new_empty(rows, height) if pre is None else pre[layer]
        _layer(x, w, b, z, y, kind, activation)
        x = y
        if h is not None:
            h[layer] = _activated(z[:, :width], activation) if kind == "highway" else z
        if t is not None and len(t):
            torch.sigmoid(z[:, width:], out=t[layer])
    return x.clone() if kept is not None or len(closed) >= layers else x  # an output must be neither an input nor part of `kept`


def _views(kept: Tensor, kind: str, layers: int, rows: int, width: int) -> tuple[Tensor, Tensor]:
    """Return the inputs of all layers and the last output, (layers + 1, rows, width), and what else is kept of each layer.

    This is (layers, rows, 2·width) for highway layers, the pre-activations; (layers, rows, width) for residual ones, H.
    """
    size, parts = rows * width, {"highway": 2, "residual": 1, "plain": 0}[kind]
    states, rest = kept[: (layers + 1) * size], kept[(layers + 1) * size :][: layers * parts * size]
    return states.view(layers + 1, rows, width), rest.view(layers, rows, parts * width)


def _activated(h: Tensor, activation: str) -> Tensor:
    return h if activation == "identity" else getattr(torch, activation)(h)


@torch.no_grad()
def products_backward(
    gy: Tensor, weight: Tensor, kept: Tensor, kind: str, activation: str, closed: Sequence[int], *, parameters: bool = True
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the gradients of x and, if `parameters`, of weight and bias."""
    native, (layers, height, width), rows = compiled(), weight.shape, len(gy)
    states, rest = (tensor.unbind() for tensor in _views(kept, kind, layers, rows, width))
    gw = workspace_like(weight) if parameters else None
    gb, weights, gws = weight.new_empty(layers, height), weight.unbind(), () if gw is None else gw.unbind()
    g, direct, gz = gy.clone(), torch.empty_like(gy), gy.new_empty(rows, height)
    for layer in reversed(range(layers)):
        if layer + 1 in closed:
            gb[layer] = 0
            if gw is not None:
                gws[layer].zero_()
            continue
        if rows == 1:
            gz = gb[layer : layer + 1]  # the sum over one row
        if kind == "highway":
            native.gate_backward(g, states[layer], rest[layer], direct, gz, activation, 1)
            if rows > 1:
                torch.sum(gz, 0, out=gb[layer])
        else:
            y = states[layer + 1] if kind == "plain" else rest[layer]
            native.activation_gradient(g, y, gz, gb[layer], activation)
            direct.copy_(g)
        torch.mm(gz, weights[layer], out=g)
        if kind != "plain":
            g += direct  # not by addmm, which rounds more for a single row
        if gw is not None:
            torch.mm(gz.t(), states[layer], out=gws[layer])
    return g, gw, gb if parameters else None
