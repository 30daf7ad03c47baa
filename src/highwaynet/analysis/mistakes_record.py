"""The record of the mistakes of a network: plain data that can be saved, loaded and drawn without torch."""

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import ConfigDict, Field

from highwaynet.analysis.analysis_records import AnalysisRecord
from highwaynet.base import display
from highwaynet.base.arrays import Array, Axes
from highwaynet.base.specs import Spec
from highwaynet.runs.run_records import Measured, Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 15
"""Number of bins of the calibration, all equally wide."""
MOST_IN_MATRIX = 1000
"""With more classes than this, the record has no confusion matrix."""


class ClassScore(Spec):
    """How well one class is recognised."""

    name: str
    """The class."""
    precision: float | None
    """Share of the samples predicted as this class that belong to it; None if there are none."""
    recall: float | None
    """Share of the samples of this class that are predicted as it; None if there are none."""
    support: int
    """Number of samples of this class."""
    predicted: int
    """Number of samples predicted as this class."""


class Mistake(Spec):
    """One sample that the network gets wrong."""

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="strings")

    row: int
    """Index of the sample in the data set, from 0; an official test part has its own numbering."""
    name: str
    """Its file (folders of images), its row in the table (from 1, without the header), or its index in the array (from 0)."""
    true: str | None = None
    """Classification: its class."""
    predicted: str | None = None
    """Classification: the predicted class."""
    probability: Measured | None = None
    """Classification: the probability of the predicted class according to the network."""
    target: Measured | None = None
    """Regression: the true value."""
    prediction: Measured | None = None
    """Regression: the predicted value."""


class MistakesRecord(AnalysisRecord):
    """What a network gets wrong, and how good it is in comparison with guessing."""

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="strings")

    score: Score
    """Loss and accuracy, or RMSE and R²."""
    target_name: str
    """What is predicted."""
    worst: tuple[Mistake, ...]
    """Up to 12 mistakes: wrong predictions with the highest probability, or the largest errors, the worst first."""
    pictures: Annotated[Array, Axes("pictures", "channels", "height", "width")] = Field(
        default_factory=lambda: np.zeros((0, 1, 1, 1), np.float32), exclude=True
    )
    """Images: the raw pixels of the worst mistakes, 0 to 255, at most 64 in a row, (mistakes, 1 or 3, height, width). Not part of JSON."""

    majority: str | None = None
    """Classification: the most frequent class of the training samples."""
    baseline_accuracy: float | None = None
    """Classification: accuracy of always guessing that class."""
    balanced_accuracy: float | None = None
    """Classification: mean recall of the classes that have samples."""
    calibration_error: float | None = None
    """Classification: expected calibration error, the mean distance between the probability of a predicted class and the accuracy, over 15
    equally wide bins of that probability (Guo et al. 2017)."""
    classes: tuple[ClassScore, ...] = ()
    """Classification: precision, recall and number of samples of each class."""
    confusion: Annotated[Array, Axes("true", "true")] = Field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """Classification: number of samples by true class (row) and predicted class (column); empty with more than 1000 classes."""
    bin_samples: Annotated[Array, Axes("bins")] = Field(default_factory=lambda: np.zeros(0, np.float32))
    """Classification: number of samples in each bin of the calibration, (15)."""
    bin_confidence: Annotated[Array, Axes("bins")] = Field(default_factory=lambda: np.zeros(0, np.float32))
    """Classification: mean probability of the predicted class in each bin, (15); NaN if it is empty."""
    bin_accuracy: Annotated[Array, Axes("bins")] = Field(default_factory=lambda: np.zeros(0, np.float32))
    """Classification: accuracy in each bin, (15); NaN if it is empty."""

    mae: Measured | None = None
    """Regression: mean absolute error, in the unit of the target."""
    largest_error: Measured | None = None
    """Regression: the largest absolute error."""
    baseline_rmse: float | None = None
    """Regression: RMSE of always guessing the mean of the training samples."""
    baseline_mae: float | None = None
    """Regression: mean absolute error of always guessing that mean."""
    baseline_r2: float | None = None
    """Regression: R² of always guessing that mean; at most 0."""
    predictions: Annotated[Array, Axes("shown")] = Field(default_factory=lambda: np.zeros(0, np.float32))
    """Regression: predictions for up to 2000 samples, evenly spaced."""
    targets: Annotated[Array, Axes("shown")] = Field(default_factory=lambda: np.zeros(0, np.float32))
    """Regression: the true values of these samples."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes; empty in a regression."""
        return tuple(row.name for row in self.classes)

    def hardest(self, count: int) -> list[ClassScore]:
        """Return the `count` classes with the lowest recall, the lowest first, of those that have samples."""
        rated = [row for row in self.classes if row.recall is not None]
        return sorted(rated, key=lambda row: row.recall or 0.0)[:count]

    def plot(self, which: Literal["confusion", "calibration", "residuals"] | None = None) -> "Figure":
        """Draw the confusion matrix or the calibration; in a regression, predictions and residuals.

        Args:
            which: "confusion" (the default), "calibration" or, for a regression, "residuals".

        Raises:
            InputError: matplotlib is missing (the extra `figures`), or the record has no such figure.
            HighwayError: `highwaynet.figures.drawings` has not been imported.
        """
        return display.plot(self, which=which)
