"""Finding the layer in which values first stopped being finite."""

import torch
from torch import Tensor, nn

from highwaynet.base.errors import HighwayError
from highwaynet.networks.layerwise import layerwise
from highwaynet.networks.network import Network


class DivergenceError(HighwayError):
    """The loss, a gradient or a weight is no longer finite; the message names the layer that failed first."""

    everywhere = True


def has_finite_weights(*modules: nn.Module) -> bool:
    """Whether all parameters are finite."""
    return all(bool(torch.isfinite(parameter).all()) for module in modules for parameter in module.parameters())


def put_gradients_in_place(network: Network) -> None:
    """Overwrite the weights with their gradients, so that `find_cause` finds gradients that are not finite."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.grad is not None:
                parameter.copy_(parameter.grad)


def find_cause(network: Network, inputs: Tensor) -> str:
    """Say which layer failed first.

    Weights that are not finite come from such gradients. Gradients flow from the last layer to the first, so the last layer with such
    weights failed first. If all weights are finite, it is the first layer whose output is not.
    """
    broken = [label for label, module in layerwise(network) if not all(bool(torch.isfinite(p).all()) for p in module.parameters())]
    if broken:
        return f"the gradient of {broken[-1]} failed first"
    x = inputs
    with torch.no_grad():
        for label, module in layerwise(network):
            x = module(x)
            if not bool(torch.isfinite(x).all()):
                return f"the output of {label} failed first"
    return "all outputs are finite, so the loss itself failed first"
