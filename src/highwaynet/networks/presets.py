"""The named networks: what each is, where it comes from, and its defaults. Free of torch."""

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["highway", "plain", "residual"]


@dataclass(frozen=True)
class Preset:
    """A named network."""

    kind: Kind
    """Which layers follow the first plain one."""
    summary: str
    """What it is, in a sentence."""
    origin: str
    """Where it comes from: the paper, released files, or a reconstruction."""
    learning_rate: float
    """Where to start: what learns well at 50 layers with momentum 0.9 on the embedded data."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Values of the `NetworkSpec` fields that the user leaves out."""


PRESETS: dict[str, Preset] = {
    "fc-highway": Preset(
        kind="highway",
        summary="one plain dense layer, then dense highway layers, then softmax",
        origin="paper, section 3.1",
        learning_rate=0.2,
        defaults={"width": 50, "gate_bias": "auto", "carry": "coupled"},
    ),
    "fc-plain": Preset(
        kind="plain",
        summary="dense plain layers, then softmax; as many parameters a layer as fc-highway",
        origin="paper, section 3.1",
        learning_rate=0.003,
        defaults={"width": 71},
    ),
    "fc-residual": Preset(
        kind="residual",
        summary="one plain dense layer, then dense residual layers, then softmax; the width of fc-plain",
        origin="dense analogue of He et al. 2015, not in the paper",
        learning_rate=0.003,
        defaults={"width": 71},
    ),
}
