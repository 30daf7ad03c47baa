"""What analyses return: plain records that can be saved, loaded and drawn without torch.

In tables a row is a layer and a column is a block, or a map of a convolution; NaN stands beyond the end of a layer with fewer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from highwaynet.base import display
from highwaynet.base.arrays import Array
from highwaynet.base.errors import InputError
from highwaynet.base.specs import Spec
from highwaynet.data.names import Part
from highwaynet.runs.run_records import Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIDDEN = {"schema_version", "fingerprint"}
"""Fields that tell a reader nothing."""
LONGEST = 100
"""So many characters of a tuple are printed."""


class _Text(str):
    """A text that is printed without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


class Measurements(Spec):
    """Fields that may hold thousands of numbers; printed, an array is its shape and a long tuple its length."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, _printed(getattr(self, name))) for name in type(self).model_fields if name not in HIDDEN]


def _printed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _Text(f"<{'×'.join(map(str, value.shape))} numbers>")
    if isinstance(value, tuple) and len(repr(value)) > LONGEST:
        return _Text(f"<{len(value)} entries>")
    return value


class Record(Measurements):
    """What every record says about its origin. In notebooks it shows what was looked at, what was found, and its pictures."""

    schema_version: Literal[3] = 3
    """Version of this format."""
    fingerprint: str
    """That of the run when it was asked; a record with another one is out of date."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Record) and self.model_dump_json() == other.model_dump_json()

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    def _repr_html_(self) -> str | None:
        """For notebooks; None, which lets them print the record, until `highwaynet.figures.drawings` has been imported."""
        return display.as_html(self)


class EvaluationRecord(Record):
    """How well the trained network does."""

    parameters: int
    """Number of trained values."""
    train: Score
    """On the training data."""
    validation: Score | None
    """On the validation data, if any were kept."""
    test: Score
    """On the test data, which training never saw."""


class About(Spec):
    """What a picture's caption says."""

    data: str
    """The data set."""
    network: str
    """The network, for instance 50-layer highway."""
    seed: int
    """Seed of the run."""
    epochs: int
    """How many epochs it was trained."""


@dataclass(frozen=True)
class Origin:
    """Where an analysis looks: what all of them are told."""

    fingerprint: str
    about: About
    part: Part

    def fields(self, samples: int) -> dict[str, Any]:
        """The first fields of every record of an analysis."""
        return {"fingerprint": self.fingerprint, "about": self.about, "part": self.part, "samples": samples}


class AnalysisRecord(Record):
    """An analysis over one part of the data."""

    about: About
    """What was looked at."""
    part: Part
    """The data that were used."""
    samples: int
    """How many samples of them."""


QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


class GatesRecord(AnalysisRecord):
    """The transform gates of all highway layers (figure 2 of the paper)."""

    convolutional: bool = False
    """Whether columns are maps; their gates and outputs are averaged over the pixels."""
    start_bias: Array
    """b_T of each layer before training, (layers)."""
    bias: Array
    """b_T after training, (layers, blocks)."""
    mean: Array
    """Mean transform gate output, (layers, blocks)."""
    sample: int
    """Which sample of the part is shown alone, from 0."""
    sample_gates: Array
    """Transform gate outputs for that sample, (layers, blocks)."""
    sample_outputs: Array
    """Block outputs for that sample, (layers, blocks)."""
    open_share: Array
    """For each layer the share of gates above 1/2, averaged over the samples, (layers)."""
    closed_share: Array
    """For each layer the share of gates below 1/10, averaged over the samples: how sparse gating is for a single sample, (layers)."""
    sparsity: Array
    """The same over the samples: of the share of a sample's gates below 1/10, the quantiles 0, 5, 25, 50, 75, 95 and 100 %."""

    @property
    def fell(self) -> float:
        """The share of biases that training lowered."""
        known = np.isfinite(self.bias)
        return float((self.bias < self.start_bias[:, None])[known].mean()) if known.any() else 0.0

    def plot(self, *, narrow: bool = False) -> "Figure":
        """Four heat maps of layers × blocks in one figure: biases, mean gates, and gates and outputs of the sample.

        Args:
            narrow: Two maps side by side in place of four, as wide as a phone.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self, narrow=narrow)


class RoutingRecord(AnalysisRecord):
    """How samples of different classes take different routes (figure 3 of the paper)."""

    convolutional: bool = False
    """Whether columns are maps; their gates are averaged over the pixels."""
    class_names: tuple[str, ...]
    """The classes."""
    class_samples: tuple[int, ...]
    """How many samples of each."""
    mean: Array
    """Mean transform gate output over all samples, (layers, blocks)."""
    class_mean: Array
    """Mean transform gate output over each class, (classes, layers, blocks)."""
    distance: Array
    """How far the routes of two classes are apart: root of the mean squared difference of their mean gates, (classes, classes)."""
    input_share: Array
    """For each layer: how much of its gates' variance over blocks and samples comes from the samples; 0 is static routing, (layers)."""
    class_share: Array
    """For each layer: how much of the variance over samples is between classes, (layers)."""
    intact: Score
    """The network as it is."""
    static: Score
    """The same with every gate held at its mean over the samples: what static routing can do with these weights."""

    def plot(self, which: Literal["routing", "route-distances"] = "routing", *, classes: Sequence[int | str] | None = None) -> "Figure":
        """One of two figures.

        Args:
            which: "routing": for each class a heat map of its mean gates minus the mean over all samples. "route-distances": how far the
                routes of any two classes are apart, as a matrix.
            classes: routing: those to draw, by name or by number from 0; by default the first two.

        Raises:
            InputError: matplotlib is missing (the extra `figures`), or a picture or class does not exist.
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        if classes is None:
            return display.plot(self, which=which)
        if which != "routing":
            raise InputError(f'classes = {list(classes)}: these are for which = "routing"; {which} shows all classes')
        return display.plot(self, which=which, classes=classes)


class LesionsRecord(AnalysisRecord):
    """What happens when single layers are closed, so that they copy their input (figure 4 of the paper)."""

    intact: Score
    """All layers open."""
    closed: tuple[Score, ...]
    """Entry i: layer i + 1 closed, all others open."""

    def plot(self, *others: "LesionsRecord") -> "Figure":
        """The loss with each layer closed, as a line over layers, and below it the accuracy if there is one, in one figure.

        Args:
            *others: Records to compare with, in the same figure: of other data, or of another network.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self, others=others)


class PairsRecord(AnalysisRecord):
    """Two layers closed at a time, and contiguous spans of layers."""

    intact: Score
    """All layers open."""
    pair_loss: Array
    """Loss with layers i + 1 and j + 1 closed, (layers, layers), symmetric; the diagonal has single layers."""
    span_loss: Array
    """Loss with the layers i + 1 … j + 1 closed, (layers, layers), NaN below the diagonal."""

    def plot(self, *, narrow: bool = False) -> "Figure":
        """Two heat maps in one figure, the loss as a multiple of the intact network's: two layers closed, and all layers of a span.

        Args:
            narrow: One map below the other, as wide as a phone.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self, narrow=narrow)


class DeletionsRecord(AnalysisRecord):
    """Many random layers closed at a time, and layers in another order (Veit et al. 2016)."""

    seed: int
    """Seed of the random draws."""
    intact: Score
    """All layers open, in their order."""
    deleted: tuple[int, ...]
    """How many layers are closed at a time; the last number is all of them."""
    deletion_loss: Array
    """Loss of each draw, (counts, draws)."""
    deletion_accuracy: Array
    """Accuracy of each draw, (counts, draws); NaN in a regression."""
    swaps: tuple[int, ...]
    """How many random pairs of layers trade places, one after the other; only layers of the same shape do."""
    order: Array
    """Kendall's rank correlation of each draw's order with the true one, (counts, draws)."""
    shuffle_loss: Array
    """Loss of each draw, (counts, draws)."""
    shuffle_accuracy: Array
    """Accuracy of each draw, (counts, draws); NaN in a regression."""

    def plot(self, *, narrow: bool = False) -> "Figure":
        """Accuracy (in a regression the loss) with random layers closed, and with layers in another order, in one figure.

        Args:
            narrow: One panel below the other, as wide as a phone.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self, narrow=narrow)


class Flow(Measurements):
    """The signal through all layers, forward and backward, at one moment."""

    mean: Array
    """Mean of each layer's outputs over units and samples, (layers)."""
    variance: Array
    """Their variance over units and samples, (layers)."""
    dead: Array
    """Share of units that give the same number for all samples, (layers)."""
    gradient: Array
    """Length of the gradient of the mean loss with respect to each layer's weights, (layers)."""
    signal_gradient: Array
    """Length of the gradient of the mean loss with respect to each layer's outputs, (layers)."""
    loss: float | None
    """The mean loss; None where it is not finite."""
    findings: tuple[str, ...]
    """What is wrong, in words; empty where nothing is."""


class FlowRecord(AnalysisRecord):
    """Where the signal dies: activations and gradients by layer, before and after training (figures 5 to 7 of the 2021 report)."""

    kind: str
    """highway, plain, residual, maxout: what most layers are."""
    activation: str
    """The activation."""
    init: str
    """How the weights start."""
    layers: tuple[str, ...]
    """Names of the layers."""
    start: Flow
    """Before training."""
    trained: Flow
    """After training."""

    def plot(self) -> "Figure":
        """Mean, variance and gradients by layer, before and after training, one panel each in one figure.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self)


class RefinementRecord(AnalysisRecord):
    """How far each layer's output is from the last of its stage (estimation error: Greff et al. 2017)."""

    stages: tuple[str, ...]
    """Names of the stages: layers in a row whose outputs have the same shape."""
    stage: tuple[int, ...]
    """For each layer, the number of its stage, from 0."""
    bias: Array
    """For each layer the mean over units and samples of its output minus the last one's, (layers)."""
    spread: Array
    """The standard deviation of that difference, (layers)."""
    error: Array
    """The root of its mean square, as a share of the last output's own root mean square, (layers)."""

    @property
    def places(self) -> list[npt.NDArray[np.intp]]:
        """For each stage the places of its layers, from 0."""
        return [np.flatnonzero(np.array(self.stage) == number) for number in range(len(self.stages))]

    def plot(self) -> "Figure":
        """The error by layer, and the mean difference from the last output with its spread, in one figure.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self)
