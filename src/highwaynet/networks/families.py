"""The families of networks, and what the networks of a family have in common. Does not import torch.

A new family is added here, with a function for its plans (architectures.py) and one for its modules (build.py).
"""

from dataclasses import dataclass

from highwaynet.layers.names import FamilyName


@dataclass(frozen=True)
class Family:
    """Properties that all networks of a family share."""

    name: FamilyName
    takes_images: bool
    """Whether it needs samples of shape (channels, height, width); otherwise samples of any shape are flattened."""
    counts_head: bool
    """Whether papers count the last layer, the softmax, as a layer."""
    has_variants: bool
    """Whether its presets come in variants with a fixed depth; otherwise depth and width are settings."""
    usual_recipe: str | None
    """The recipe that is used if none is named."""
    has_blocks: bool
    """Whether a closable unit of its residual networks is a block of several layers."""


FAMILIES: dict[FamilyName, Family] = {
    "dense": Family("dense", takes_images=False, counts_head=False, has_variants=False, usual_recipe=None, has_blocks=False),
    "convolutional": Family("convolutional", takes_images=True, counts_head=True, has_variants=True, usual_recipe="quick", has_blocks=True),
}
