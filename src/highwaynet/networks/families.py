"""The families of networks: what all networks of a family have in common. Free of torch.

A new family joins here, with a drawing of its plans (architectures.py) and a builder of its modules (build.py).
"""

from dataclasses import dataclass

from highwaynet.layers.names import FamilyName


@dataclass(frozen=True)
class Family:
    """What holds for every network of a family."""

    name: FamilyName
    takes_images: bool
    """Whether it needs samples of shape (channels, height, width); otherwise samples of any shape are flattened."""
    counts_head: bool
    """Whether papers count the last layer, the softmax, among the layers."""
    has_variants: bool
    """Whether its presets come in variants with a fixed depth; otherwise depth and width are settings."""
    usual_recipe: str | None
    """The recipe that is used if none is named."""
    has_blocks: bool
    """Whether what can be closed is a block of several layers in its residual networks."""


FAMILIES: dict[FamilyName, Family] = {
    "dense": Family("dense", takes_images=False, counts_head=False, has_variants=False, usual_recipe=None, has_blocks=False),
    "convolutional": Family("convolutional", takes_images=True, counts_head=True, has_variants=True, usual_recipe="quick", has_blocks=True),
}
