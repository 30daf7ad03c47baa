"""Changes of shape between highway or residual layers, which cannot change it (Srivastava et al. 2015, section 2.1).

The paper itself uses a plain layer; these two have no parameters.
"""

from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet.layers.checks import check_sizes, is_foreign, not_a_tensor, not_scriptable


class PadChannels(nn.Module):
    """Adds channels of zeros.

    Args:
        channels: Number of channels of the output.

    >>> import torch
    >>> PadChannels(4)(torch.ones(1, 3, 2, 2)).sum(dim=(2, 3))
    tensor([[4., 4., 4., 0.]])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        check_sizes(channels=channels)
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, fewer, height, width) to (batch, channels, height, width); the batch axis may be missing."""
        if is_foreign(x):
            return not_a_tensor(self, x)
        missing = self.channels - x.shape[-3] if x.dim() in {3, 4} else -1
        if missing < 0:
            form = f"(batch, at most {self.channels}, height, width)"
            raise ValueError(f"PadChannels takes {form} and adds channels of zeros, but the input has shape {tuple(x.shape)}")
        return F.pad(x, (0, 0, 0, 0, 0, missing)) if missing else x

    __prepare_scriptable__ = not_scriptable

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return f"{self.channels}"


class Subsample(nn.Module):
    """Keeps every stride-th pixel in both directions.

    Args:
        stride: Distance between the pixels that are kept.

    Raises:
        ValueError: If the stride is below 1.

    >>> import torch
    >>> Subsample(2)(torch.zeros(1, 3, 5, 5)).shape
    torch.Size([1, 3, 3, 3])
    """

    def __init__(self, stride: int) -> None:
        super().__init__()
        check_sizes(stride=stride)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to (batch, channels, ⌈height / stride⌉, ⌈width / stride⌉); the batch axis may be missing."""
        return x[..., :: self.stride, :: self.stride]

    if TYPE_CHECKING:  # nn.Module declares that a call gives Any
        __call__ = forward

    def extra_repr(self) -> str:
        """What printing the module shows."""
        return f"{self.stride}"
