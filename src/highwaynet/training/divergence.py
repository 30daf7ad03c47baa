"""When the loss is no longer finite: where it began."""

import torch
from torch import Tensor, nn

from highwaynet.base.errors import HighwayError
from highwaynet.networks.layerwise import layerwise
from highwaynet.networks.network import Network


class DivergenceError(HighwayError):
    """The loss, a gradient or a weight is no longer finite; the message names the layer that was first."""

    everywhere = True


def has_finite_weights(*modules: nn.Module) -> bool:
    """Whether all parameters are finite."""
    return all(bool(torch.isfinite(parameter).all()) for module in modules for parameter in module.parameters())


def put_gradients_in_place(network: Network) -> None:
    """Make the gradients the weights, so that `find_cause` finds those that are not finite; the network is lost."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.grad is not None:
                parameter.copy_(parameter.grad)


def find_cause(network: Network, inputs: Tensor) -> str:
    """Which layer went first, in words.

    Weights that are not finite come from gradients that were not; gradients flow from the last layer to the first, so the last such layer
    went first. Where all weights are finite, the first layer whose output is not.
    """
    broken = [label for label, module in layerwise(network) if not all(bool(torch.isfinite(p).all()) for p in module.parameters())]
    if broken:
        return f"the gradient of {broken[-1]} went first"
    x = inputs
    with torch.no_grad():
        for label, module in layerwise(network):
            x = module(x)
            if not bool(torch.isfinite(x).all()):
                return f"the output of {label} went first"
    return "all outputs are finite, so the loss itself went first"
