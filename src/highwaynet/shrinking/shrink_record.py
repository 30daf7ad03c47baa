"""What is stored about shrinking a network: settings, removal curves, and the result. Does not import torch."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from highwaynet.base.specs import Spec
from highwaynet.runs.run_records import Score
from highwaynet.shrinking.names import Criterion


class ShrinkSettings(Spec):
    """What to aim for, and how."""

    loss_of: Annotated[float, Field(ge=0, le=100)] | None = None
    """Points of validation accuracy (for numbers, of R² in percent) that may be lost; the default aim is 0.1."""
    keep: Annotated[int, Field(ge=0)] | None = None
    """Number of removable layers to keep."""
    speed_up: Annotated[float, Field(ge=1, le=1000)] | None = None
    """How many times faster a batch of 256 shall be."""
    criterion: Criterion = "greedy"
    """How layers are ranked: greedy, lesion, influence, angular, gates, taylor or random."""
    heal_epochs: Annotated[int, Field(ge=0, le=10_000)] = 5
    """Epochs of training after layers were removed."""
    replace: bool = False
    """Whether to put the least-squares affine map in place of each span of removed layers, instead of dropping it."""
    distil: bool = True
    """Whether the intact network is the teacher during healing."""
    from_scratch: bool = False
    """Whether to train the same small network from scratch with the budget of the large one."""
    seeds: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of seeds for healing, and for training from scratch."""
    samples: Annotated[int, Field(ge=1)] = 4000
    """Training samples for the ranking."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        aims = ("loss_of", "keep", "speed_up")
        if isinstance(values, dict) and all(values.get(aim) is None for aim in aims):
            return values | {"loss_of": 0.1}
        return values

    @model_validator(mode="after")
    def _check(self) -> "ShrinkSettings":
        aims = [name for name in ("loss_of", "keep", "speed_up") if getattr(self, name) is not None]
        if len(aims) > 1:
            raise ValueError(f"{' and '.join('--' + aim.replace('_', '-') for aim in aims)}: choose one aim")
        return self


class RemovalCurve(Spec):
    """Scores after removing layers in the order of one criterion, without further training."""

    criterion: Criterion
    """The criterion."""
    removed: tuple[tuple[int, ...], ...]
    """removed[k]: the numbers of the first k layers that are removed."""
    scores: tuple[Score, ...]
    """scores[k]: the score without them."""


class RemovalCurves(Spec):
    """curves.json: the rankings of all criteria."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    fingerprint: str
    """Fingerprint of the run."""
    samples: int
    """Training samples that were used for the rankings."""
    part: Literal["train", "validation"]
    """The part of the data on which the scores were computed."""
    curves: tuple[RemovalCurve, ...]
    """One for each criterion that applies to the network."""


class Span(Spec):
    """Consecutive layers that were replaced by an affine map."""

    first: int
    """Number of the first layer."""
    last: int
    """Number of the last layer."""
    ridge: float | None
    """Strength of the penalty that was chosen; None if only a constant is added to the input."""
    explained: float
    """Share of what the layers change, in squares, that the map also changes, on samples that were not fitted; 0 is dropping them."""
    merged: bool
    """Whether the map was merged into the next layer, so that it costs nothing."""


class Candidate(Spec):
    """A network with fewer layers, after healing or trained from scratch."""

    kept: int
    """Number of removable layers."""
    seed: int
    """Seed of the run."""
    run: str
    """Its folder."""
    selection: Score
    """On the samples that decide: validation, or training samples if there are no validation samples."""
    spans: tuple[Span, ...] = ()
    """The maps in place of removed layers, with `replace`."""
    unhealed: Score | None = None
    """The same before healing."""
    test: Score | None = None
    """On the test samples; only of the chosen network."""


class ShrinkRecord(Spec):
    """record.json: what came out."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    run: str
    """The run that was shrunk."""
    settings: ShrinkSettings
    """What was asked for."""
    layers: int
    """Removable layers of the large network."""
    removed: tuple[int, ...]
    """Numbers of the layers that were removed."""
    intact_selection: Score
    """The large network on the samples that decide."""
    intact_test: Score
    """The large network on the test samples."""
    tried: tuple[Candidate, ...]
    """All healed networks, in the order in which they were tried."""
    healed: tuple[Candidate, ...]
    """The chosen network, once for each seed."""
    scratch: tuple[Candidate, ...]
    """The same network from scratch, once for each seed; empty if that was not asked for."""
    parameters: tuple[int, int]
    """Numbers of parameters of the large and the small network."""
    milliseconds: dict[int, tuple[float, float]]
    """By batch size: time of a forward pass of the large and the small network on this machine."""
    answer: str
    """The result in one sentence."""
