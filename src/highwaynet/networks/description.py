"""The table of a network's layers, computed from its plan only. Does not import torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from highwaynet.base.errors import InputError
from highwaynet.layers.names import Carry
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.plan import (
    Affine,
    Companion,
    Conv,
    Dense,
    DenseStack,
    DropoutPart,
    HighwayConv,
    MembersPart,
    Plan,
    PlanPart,
    Pooling,
    ResidualBlock,
    Shape,
)
from highwaynet.networks.spec import MAX_PARAMETERS, NetworkSpec


@dataclass(frozen=True)
class LayerRow:
    """One row of the table."""

    layers: int
    """Number of layers of this row, as papers count them; 0 for pooling, dropout, members and companions."""
    label: str
    """Kind and window, for instance "highway 3×3"."""
    shape: Shape
    """Shape of the output."""
    parameters: int
    """Number of trainable parameters."""
    multiply_adds: int
    """Number of multiply-adds for one sample."""
    gate_bias: float | None = None
    """Initial value of the transform gate biases."""
    norm: bool = False
    """Whether it has batch norm."""


@dataclass(frozen=True)
class Description:
    """The table of a network's layers, for inputs of one shape."""

    rows: tuple[LayerRow, ...]

    @property
    def layers(self) -> int:
        """The number of layers with weights, as papers count them."""
        return sum(row.layers for row in self.rows)

    @property
    def parameters(self) -> int:
        """Number of trainable parameters."""
        return sum(row.parameters for row in self.rows)

    @property
    def multiply_adds(self) -> int:
        """Number of multiply-adds for one sample."""
        return sum(row.multiply_adds for row in self.rows)


def describe(spec: NetworkSpec, input_shape: Sequence[int], outputs: int) -> Description:
    """Make the table of the network that a spec describes; raises InputError if the input does not fit.

    >>> table = describe(NetworkSpec(name="mnist-highway-16"), (1, 28, 28), 10)
    >>> table.layers, table.parameters
    (10, 38986)
    """
    return describe_plan(plan_of(spec, input_shape, outputs))


def describe_plan(plan: Plan) -> Description:
    """Make the table of a plan; raises InputError if the input does not fit, or if the network is too large to be built."""
    rows: list[LayerRow] = []
    for part, before, after in plan.walk():
        row = _row(part, before, after, plan)
        if plan.members > 1 and isinstance(part, Dense | DenseStack | Affine):
            row = replace(row, multiply_adds=row.multiply_adds * plan.members)
            if isinstance(part, Dense) and part.head:  # each member has its own
                row = replace(row, parameters=row.parameters + (plan.members - 1) * prod(before) * part.units)
        rows += [row] * (part.layers if isinstance(part, DenseStack) else 1)
    table = Description(tuple(rows))
    if table.parameters > MAX_PARAMETERS:
        shape = "×".join(map(str, plan.input_shape))
        raise InputError(f"{plan.name} would have {table.parameters:,} weights for samples of {shape}; give smaller ones (data.resize)")
    return table


def title_of(spec: NetworkSpec, plan: Plan) -> str:
    """Return the name of a network in figures; if layers were removed, it says how many are left."""
    layers = describe_plan(plan).layers
    if layers == spec.depth:
        return spec.title
    return f"{spec.label}, {layers} of {spec.depth} layers" if plan.traits.has_variants else f"{layers}-layer {spec.kind}"


def _row(part: PlanPart, before: Shape, after: Shape, plan: Plan) -> LayerRow:
    pixels = prod(after[1:])
    row = LayerRow(0, _plain_label(part), after, 0, 0)
    match part:
        case Conv():
            weights = part.kernel**2 * before[0] * after[0] * part.pieces
            label = f"{_kind(part)} {part.kernel}×{part.kernel}{_extras(part)}"
            row = LayerRow(1, label, after, weights + after[0] * (2 if part.norm else part.pieces), weights * pixels, norm=part.norm)
        case HighwayConv(kernel=kernel):
            gated = _gated(part.carry)
            weights = kernel**2 * before[0] ** 2 * gated
            row = LayerRow(1, f"highway {kernel}×{kernel}", after, weights + before[0] * gated, weights * pixels, part.gate_bias)
        case ResidualBlock(channels=channels):
            projects = part.shortcut == "project" and before != after
            weights = 9 * (before[0] + channels) * channels + (before[0] * channels if projects else 0)
            others = channels * (2 if part.norm else 1) * (3 if projects else 2)
            row = LayerRow(2, f"residual 3×3, 3×3{_extras(part)}", after, weights + others, weights * pixels, norm=part.norm)
        case Dense(units=units, pieces=pieces):
            weights = prod(before) * units * pieces
            # The paper counts the softmax layer in convolutional networks, but not in dense ones.
            counted = 0 if part.head and not plan.traits.counts_head else 1
            row = LayerRow(counted, f"{_kind(part)} dense", after, weights + units * pieces, weights)
        case DenseStack(kind=kind):
            units, parts = prod(before), _gated(part.carry) if kind == "highway" else 4 if kind == "lstm" else 1
            row = LayerRow(1, f"{kind} dense", after, (units + 1) * units * parts, units**2 * parts, part.gate_bias)
        case Affine():
            weights = before[0] ** 2
            row = LayerRow(1, "affine map", after, weights + before[0], weights * pixels)
        case MembersPart(count=count):
            row = LayerRow(0, f"{count} members", after, count * prod(before), count * prod(before))
        case Companion(outputs=outputs):
            row = LayerRow(0, "companion (training)", (outputs,), (before[0] + 1) * outputs, 0)
    return row


def _plain_label(part: PlanPart) -> str:
    match part:
        case Pooling():
            return f"{part.kind} pool {part.size}×{part.size} / {part.stride}"
        case DropoutPart(probability=probability):
            return f"dropout {probability:g}"
    return "global average"


def _extras(part: Conv | ResidualBlock) -> str:
    return (f" / {part.stride}" if part.stride > 1 else "") + (", norm" if part.norm else "")


def _kind(part: Conv | Dense) -> str:
    if part.head:
        return "outputs,"
    return "plain" if part.pieces == 1 else f"maxout of {part.pieces}"


def _gated(carry: Carry | None) -> int:
    """Return how many weight matrices a highway layer has: for H, T and possibly C."""
    return 3 if carry == "independent" else 2
