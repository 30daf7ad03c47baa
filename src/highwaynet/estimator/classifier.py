"""HighwayClassifier: a highway network for classes, as a scikit-learn estimator."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from highwaynet.base.errors import DataError
from highwaynet.data.cells import written_form
from highwaynet.data.names import LabelKind
from highwaynet.data.sources import Source
from highwaynet.estimator.common import HighwayEstimator
from highwaynet.estimator.inputs import checked_labels, checked_weights, names_in, selected


class HighwayClassifier(ClassifierMixin, HighwayEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A highway network that predicts classes.

    Args:
        depth: Number of layers; "auto" finds it on validation data. By default it follows from the recipe `table`, as do other settings
            that are None.
        width: Units of each layer.
        epochs: Passes over the training samples, at most.
        batch_size: Samples per step.
        learning_rate: Highest learning rate.
        weight_decay: Weight decay of AdamW.
        dropout: Probability of dropout before the last layer.
        class_weight: Weights of the classes, {label: weight} or "balanced"; by default all are 1.
        early_stopping: Whether to keep a validation part, stop when its loss no longer falls, and use the best weights. By default
            ("auto") if there are enough samples.
        validation_fraction: Share of the samples for validation, with early_stopping = True.
        patience: Epochs without a lower validation loss after which training stops.
        warm_start: Whether `fit` continues with the network of the last `fit`.
        random_state: Seed of the weights, of the order of the samples and of the validation part.
        n_jobs: Number of threads; None means 1, -1 all cores.
        verbose: Whether to print a line for each epoch.
        settings: Any other settings of a run, by section, for instance {"training": {"label_smoothing": 0.1}}; see docs/SETTINGS.md.

    Attributes:
        classes_: The class labels, in the order of the columns of `predict_proba`.
        depth_: Number of layers of the fitted network.
        n_iter_: Number of epochs that it was trained.
        n_features_in_: Number of features in `fit`.
        feature_names_in_: Their names, if they have names.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> HighwayClassifier(random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        depth: int | Literal["auto"] | None = None,
        width: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        dropout: float | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        early_stopping: bool | Literal["auto"] = "auto",
        validation_fraction: float = 0.1,
        patience: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.depth = depth
        self.width = width
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.settings = settings

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Train a network.

        Args:
            X: Inputs (samples, features): an array or a data frame, with numbers, categories, dates and gaps.
            y: The class of each sample.
            sample_weight: How much each sample counts; a weight of 2 counts like two equal samples.

        Raises:
            ValueError: If the data cannot be used; the message says why.
        """
        return self._fit(X, y, sample_weight)

    def _source(self, x: Any, y: Any, sample_weight: Any, *, follows: bool) -> Source:
        if y is None:
            raise DataError("requires y to be passed, but the target y is None")
        features = self._features(x, follows=follows)
        names = names_in(y)
        y = checked_labels(y)
        weights = checked_weights(sample_weight, features)
        if weights is not None and len(y) == len(weights):
            used = np.flatnonzero(weights)
            features, y, weights = selected(features, used), y[used], weights[used]
        labels, numbers = np.unique(y, return_inverse=True)
        if follows:
            numbers = self._numbers(labels)[numbers]
        else:
            self.classes_ = labels
        if len(labels) < 2:
            raise DataError(f"y has one class only, {labels.tolist()[0]!r}: at least two classes are needed")
        kind: LabelKind = {"i": "whole number", "u": "whole number", "b": "truth value"}.get(self.classes_.dtype.kind, "text")  # type: ignore[assignment]
        classes = {"class_names": tuple(_name(label) for label in self.classes_), "label_kind": kind}
        return self._make_source(
            follows, features, numbers.astype(np.int64), "classification", weights=weights, target_names=names, **classes
        )

    def _numbers(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Return the numbers of labels among the classes of the first fit; raises ValueError if that had other classes."""
        places = {label: place for place, label in enumerate(self.classes_.tolist())}
        new = [label for label in labels.tolist() if label not in places]
        if new:
            raise DataError(f"y has classes that the first fit did not have, {new[:5]}: fit with warm_start=False, or leave them out")
        return np.array([places[label] for label in labels.tolist()], dtype=np.int64)

    def _sections(self, seed: int, rows: int) -> dict[str, Any]:
        sections = super()._sections(seed, rows)
        if self.class_weight is not None:
            sections["training"] |= {"class_weight": self._class_weight()}
        return sections

    def _class_weight(self) -> Any:
        """Return "balanced", or the weight of each class, by scikit-learn's rule.

        A class that is not named has weight 1. Keys that are not labels are mistakes if a label has no weight; a part of the data may
        lack classes that the whole has.
        """
        given = self.class_weight
        if not isinstance(given, Mapping):
            if not isinstance(given, str) or given != "balanced":
                raise DataError(f"class_weight = {given!r}: give 'balanced' or a mapping of labels to weights")
            return given
        labels = self.classes_.tolist()
        unknown = [key for key in given if key not in labels]
        if unknown and not all(label in given for label in labels):
            raise DataError(f"class_weight has the key {unknown[0]!r}, which is not a label in y; the labels are {_listed(labels)}")
        weights: list[Any] = [given.get(label, 1.0) for label in labels]
        for label, weight in zip(labels, weights, strict=True):
            if not isinstance(weight, int | float | np.number) or not 0 <= weight < float("inf"):
                raise DataError(f"class_weight[{label!r}] = {weight!r}: give a number that is not negative")
        return tuple(map(float, weights))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Predict the probability of each class, (samples, classes), in the order of `classes_`."""
        logits = self._outputs(X)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Predict the class of each sample."""
        outputs = self._outputs(X)
        labels: NDArray[Any] = self.classes_[outputs.argmax(axis=1)]
        return labels


def _name(label: Any) -> str:
    if isinstance(label, float | np.floating):
        return written_form(float(label)) or "nan"
    return str(label)


def _listed(labels: list[Any]) -> str:
    return ", ".join(map(repr, labels[:10])) + (", …" if len(labels) > 10 else "")
