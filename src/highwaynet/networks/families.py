"""The families of networks, and what the networks of a family have in common. Does not import torch.

A new family is added here, with a file for its module and builder, and a function for its plans (architectures.py).
"""

from dataclasses import dataclass

from highwaynet.layers.names import FamilyName


@dataclass(frozen=True)
class Family:
    """Properties that all networks of a family share."""

    builder: str
    """The function that makes the module of a plan, as "module:function"; it is loaded when a network is built."""
    gate_rule: FamilyName
    """The rule for the start bias of its transform gates (`auto_gate_bias`)."""
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
    has_stacks: bool
    """Whether its plans may contain stacks of dense layers."""


FAMILIES: dict[str, Family] = {
    "dense": Family(
        builder="highwaynet.networks.dense:build_dense",
        gate_rule="dense",
        takes_images=False,
        counts_head=False,
        has_variants=False,
        usual_recipe=None,
        has_blocks=False,
        has_stacks=True,
    ),
    "convolutional": Family(
        builder="highwaynet.networks.convolutional:build_convolutional",
        gate_rule="convolutional",
        takes_images=True,
        counts_head=True,
        has_variants=True,
        usual_recipe="quick",
        has_blocks=True,
        has_stacks=False,
    ),
}
