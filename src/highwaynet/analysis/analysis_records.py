"""The records that analyses return: plain data that can be saved, loaded and drawn without torch.

In tables a row is a layer and a column is a block, or a map of a convolution. Rows of layers with fewer blocks are padded with NaN.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from highwaynet.base import display
from highwaynet.base.arrays import Array, Axes, check_axes
from highwaynet.base.errors import InputError
from highwaynet.base.specs import Spec
from highwaynet.data.names import Part
from highwaynet.runs.run_records import Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIDDEN = {"schema_version", "fingerprint"}
"""Fields that are not printed."""
LONGEST = 100
"""A tuple is printed if its text has at most this many characters, else only its length."""


class _Text(str):
    """A string whose repr has no quotes."""

    __slots__ = ()
    __repr__ = str.__str__


class Measurements(Spec):
    """Base class for records with arrays: its repr shows the shape of an array and the length of a long tuple."""

    @model_validator(mode="after")
    def _check_axes(self) -> Self:
        check_axes(self)
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, _printed(getattr(self, name))) for name in type(self).model_fields if name not in HIDDEN]


def _printed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _Text(f"<{'×'.join(map(str, value.shape))} numbers>")
    if isinstance(value, tuple) and len(repr(value)) > LONGEST:
        return _Text(f"<{len(value)} entries>")
    return value


class Record(Measurements):
    """Base class of records. Notebooks display a record with what was analysed, its findings and its figures."""

    schema_version: Literal[3] = 3
    """Version of this format."""
    fingerprint: str
    """Fingerprint of the run when the record was made; if the run's differs, the record is out of date."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Record) and self.model_dump_json() == other.model_dump_json()

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    def _repr_html_(self) -> str | None:
        """Return HTML for notebooks; None (they then print the repr) until `highwaynet.figures.drawings` has been imported."""
        return display.as_html(self)


class EvaluationRecord(Record):
    """Loss and metrics of the trained network on each part of the data."""

    parameters: int
    """Number of parameters."""
    train: Score
    """On the training data."""
    validation: Score | None
    """On the validation data; None if there are none."""
    test: Score | None
    """On the test data, which are not used in training; None if there are none."""


class About(Spec):
    """Data, network and training, for the captions of figures."""

    data: str
    """The data set."""
    network: str
    """The network, for instance 50-layer highway."""
    seed: int
    """Seed of the run."""
    epochs: int
    """Number of epochs of training."""


@dataclass(frozen=True)
class Origin:
    """Where a record comes from: the run, its description, and the part of the data."""

    fingerprint: str
    about: About
    part: Part

    def fields(self, samples: int) -> dict[str, Any]:
        """Return the fields that all records of analyses share."""
        return {"fingerprint": self.fingerprint, "about": self.about, "part": self.part, "samples": samples}


class AnalysisRecord(Record):
    """Base class for the record of an analysis on one part of the data."""

    about: About
    """What was analysed."""
    part: Part
    """The part of the data."""
    samples: int
    """Number of samples used."""


QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


class GatesRecord(AnalysisRecord):
    """The transform gates of all highway layers (figure 2 of the paper)."""

    convolutional: bool = False
    """Whether columns are maps; their gates and outputs are averaged over the pixels."""
    start_bias: Annotated[Array, Axes("layers")]
    """b_T of each layer before training, (layers)."""
    bias: Annotated[Array, Axes("layers", "blocks")]
    """b_T after training, (layers, blocks)."""
    mean: Annotated[Array, Axes("layers", "blocks")]
    """Mean transform gate output, (layers, blocks)."""
    sample: int
    """The sample whose gates are recorded one by one, from 0."""
    sample_gates: Annotated[Array, Axes("layers", "blocks")]
    """Transform gate outputs for that sample, (layers, blocks)."""
    sample_outputs: Annotated[Array, Axes("layers", "blocks")]
    """Block outputs for that sample, (layers, blocks)."""
    open_share: Annotated[Array, Axes("layers")]
    """For each layer the share of gates above 1/2, averaged over the samples, (layers)."""
    closed_share: Annotated[Array, Axes("layers")]
    """For each layer the share of gates below 1/10, averaged over the samples, (layers)."""
    sparsity: Annotated[Array, Axes(len(QUANTILES))]
    """Quantiles over the samples (0, 5, 25, 50, 75, 95 and 100 %) of the share of a sample's gates below 1/10, (7)."""

    @property
    def fell(self) -> float:
        """The share of biases that training lowered."""
        known = np.isfinite(self.bias)
        return float((self.bias < self.start_bias[:, None])[known].mean()) if known.any() else 0.0

    def plot(self, *, narrow: bool = False) -> "Figure":
        """Draw four heat maps of layers × blocks: biases, mean gates, and gates and outputs of the sample.

        Args:
            narrow: Two maps side by side instead of four, for narrow screens.

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
    """Number of samples of each class."""
    mean: Annotated[Array, Axes("layers", "blocks")]
    """Mean transform gate output over all samples, (layers, blocks)."""
    class_mean: Annotated[Array, Axes("class_names", "layers", "blocks")]
    """Mean transform gate output over each class, (classes, layers, blocks)."""
    distance: Annotated[Array, Axes("class_names", "class_names")]
    """Root mean squared difference of the mean gates of two classes, (classes, classes)."""
    input_share: Annotated[Array, Axes("layers")]
    """For each layer the share of its gates' variance over blocks and samples that is over samples; 0 is static routing, (layers)."""
    class_share: Annotated[Array, Axes("layers")]
    """For each layer the share of the variance over samples that is between classes, (layers)."""
    intact: Score
    """Score of the unchanged network."""
    static: Score
    """Score with every gate held at its mean over the samples (static routing)."""

    def plot(self, which: Literal["routing", "route-distances"] = "routing", *, classes: Sequence[int | str] | None = None) -> "Figure":
        """Draw the mean gates of classes, or the distances between their routes.

        Args:
            which: "routing": for each class a heat map of its mean gates minus the mean over all samples. "route-distances": the matrix
                `distance`.
            classes: For "routing", the classes to draw, by name or by number from 0; by default the first two.

        Raises:
            InputError: matplotlib is missing (the extra `figures`), or a figure or class does not exist.
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        if classes is None:
            return display.plot(self, which=which)
        if which != "routing":
            raise InputError(f'classes = {list(classes)}: only which = "routing" takes classes; {which} shows all of them')
        return display.plot(self, which=which, classes=classes)


class LesionsRecord(AnalysisRecord):
    """Scores with single layers closed, so that they copy their input (figure 4 of the paper)."""

    intact: Score
    """All layers open."""
    closed: tuple[Score, ...]
    """Entry i: layer i + 1 closed, all others open."""

    def plot(self, *others: "LesionsRecord") -> "Figure":
        """Draw the loss with each layer closed, and below it the accuracy if there is one.

        Args:
            *others: Records to compare with, drawn into the same figure: of other data, or of another network.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self, others=others)


class PairsRecord(AnalysisRecord):
    """Losses with pairs of layers closed, and with spans of consecutive layers closed."""

    intact: Score
    """All layers open."""
    pair_loss: Annotated[Array, Axes("layers", "layers")]
    """Loss with layers i + 1 and j + 1 closed, (layers, layers), symmetric; the diagonal has single layers."""
    span_loss: Annotated[Array, Axes("layers", "layers")]
    """Loss with the layers i + 1 … j + 1 closed, (layers, layers), NaN below the diagonal."""

    def plot(self, *, narrow: bool = False) -> "Figure":
        """Draw two heat maps of the loss as a multiple of the intact network's: pairs of layers closed, and spans of layers closed.

        Args:
            narrow: One map below the other, for narrow screens.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self, narrow=narrow)


class DeletionsRecord(AnalysisRecord):
    """Scores with many random layers closed, and with layers in another order (Veit et al. 2016)."""

    seed: int
    """Seed of the random draws."""
    intact: Score
    """All layers open, in their order."""
    deleted: tuple[int, ...]
    """Numbers of layers that are closed together; the last is all of them."""
    deletion_loss: Annotated[Array, Axes("deleted", "draws")]
    """Loss of each draw, (counts, draws)."""
    deletion_accuracy: Annotated[Array, Axes("deleted", "draws")]
    """Accuracy of each draw, (counts, draws); NaN in a regression."""
    swaps: tuple[int, ...]
    """Numbers of random swaps of two layers, one after the other; only layers of the same shape are swapped."""
    order: Annotated[Array, Axes("swaps", "draws")]
    """Kendall's rank correlation of each draw's order with the original one, (counts, draws)."""
    shuffle_loss: Annotated[Array, Axes("swaps", "draws")]
    """Loss of each draw, (counts, draws)."""
    shuffle_accuracy: Annotated[Array, Axes("swaps", "draws")]
    """Accuracy of each draw, (counts, draws); NaN in a regression."""

    def plot(self, *, narrow: bool = False) -> "Figure":
        """Draw the accuracy (in a regression the loss) with random layers closed, and with layers in another order.

        Args:
            narrow: One panel below the other, for narrow screens.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self, narrow=narrow)


class DepthRecord(AnalysisRecord):
    """Scores after removing 0, 1, 2, … layers without further training, always the one whose removal costs least."""

    removed: tuple[int, ...]
    """Numbers of the layers in the order of removal."""
    scores: tuple[Score, ...]
    """Entry k: the score without the first k of them; entry 0 is the intact network."""

    def needed(self, points: float) -> int:
        """Return the fewest removable layers with which the score is close to that of the intact network.

        Args:
            points: Percentage points of accuracy (in a regression, of R²) that may be lost.

        >>> scores = tuple(Score(loss=0.1, accuracy=value, samples=100) for value in (0.98, 0.98, 0.96, 0.30))
        >>> record = DepthRecord.model_construct(removed=(3, 1, 2), scores=scores)
        >>> record.needed(0.5), record.needed(2.0)
        (2, 1)
        """
        least = self.scores[0].percent - points - 1e-9
        enough = [count for count, score in enumerate(self.scores) if score.percent >= least]  # none if the network gives no numbers
        return len(self.removed) - max(enough, default=0)

    def plot(self) -> "Figure":
        """Draw the accuracy (in a regression the R²) over the number of layers that are left.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self)


class Flow(Measurements):
    """Activations and gradients of all layers at one moment of training."""

    mean: Annotated[Array, Axes("layers")]
    """Mean of each layer's outputs over units and samples, (layers)."""
    variance: Annotated[Array, Axes("layers")]
    """Their variance over units and samples, (layers)."""
    dead: Annotated[Array, Axes("layers")]
    """Share of units whose output is the same for all samples, (layers)."""
    gradient: Annotated[Array, Axes("layers")]
    """Norm of the gradient of the mean loss with respect to each layer's weights, (layers)."""
    signal_gradient: Annotated[Array, Axes("layers")]
    """Norm of the gradient of the mean loss with respect to each layer's outputs, (layers)."""
    loss: float | None
    """The mean loss; None if it is not finite."""
    findings: tuple[str, ...]
    """Sentences that name what is wrong; empty if nothing is."""


class FlowRecord(AnalysisRecord):
    """Activations and gradients by layer, before and after training (figures 5 to 7 of the 2021 report)."""

    kind: str
    """The kind of most layers: highway, plain, residual or maxout."""
    activation: str
    """The activation."""
    init: str
    """How the weights were initialised."""
    layers: tuple[str, ...]
    """Names of the layers."""
    start: Flow
    """Before training."""
    trained: Flow
    """After training."""

    def plot(self) -> "Figure":
        """Draw mean, variance and gradients by layer, before and after training, in one panel each.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self)


class RefinementRecord(AnalysisRecord):
    """How far each layer's output is from the last output of its stage (estimation error: Greff et al. 2017)."""

    stages: tuple[str, ...]
    """Names of the stages: consecutive layers whose outputs have the same shape."""
    stage: tuple[int, ...]
    """For each layer, the number of its stage, from 0."""
    bias: Annotated[Array, Axes("stage")]
    """For each layer the mean over units and samples of its output minus the last output of its stage, (layers)."""
    spread: Annotated[Array, Axes("stage")]
    """The standard deviation of that difference, (layers)."""
    error: Annotated[Array, Axes("stage")]
    """The root mean square of that difference, as a share of the root mean square of the last output, (layers)."""

    @property
    def places(self) -> list[npt.NDArray[np.intp]]:
        """For each stage the indices of its layers, from 0."""
        return [np.flatnonzero(np.array(self.stage) == number) for number in range(len(self.stages))]

    def plot(self) -> "Figure":
        """Draw the error by layer, and the mean difference from the last output with its spread.

        Raises:
            InputError: matplotlib is missing (the extra `figures`).
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self)
