"""HighwayRegressor: a highway network for numbers, as a scikit-learn estimator."""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_consistent_length

from highwaynet.base.errors import DataError
from highwaynet.data.sources import Source
from highwaynet.data.table_files import Table
from highwaynet.estimator.common import HighwayEstimator
from highwaynet.estimator.inputs import checked_weights, names_in, selected


class HighwayRegressor(RegressorMixin, HighwayEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A highway network that predicts numbers, one or several for each sample.

    Args:
        depth: Number of layers; "auto" finds it on validation data. By default it follows from the recipe `table`, as do other settings
            that are None.
        width: Units of each layer.
        epochs: Passes over the training samples, at most.
        batch_size: Samples per step.
        learning_rate: Highest learning rate.
        weight_decay: Weight decay of AdamW.
        dropout: Probability of dropout before the last layer.
        early_stopping: Whether to keep a validation part, stop when its loss no longer falls, and use the best weights. By default
            ("auto") if there are enough samples.
        validation_fraction: Share of the samples for validation, with early_stopping = True.
        patience: Epochs without a lower validation loss after which training stops.
        warm_start: Whether `fit` continues with the network of the last `fit`.
        random_state: Seed of the weights, of the order of the samples and of the validation part.
        n_jobs: Number of threads; None means 1, -1 all cores.
        verbose: Whether to print a line for each epoch.
        settings: Any other settings of a run, by section, for instance {"training": {"momentum": 0.95}}; see docs/SETTINGS.md.

    Attributes:
        depth_: Number of layers of the fitted network.
        n_iter_: Number of epochs that it was trained.
        n_features_in_: Number of features in `fit`.
        feature_names_in_: Their names, if they have names.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> HighwayRegressor(random_state=0).fit(X, y).score(X, y) > 0.4
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
            y: Numbers to predict: (samples,), or (samples, targets) for several.
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
        targets = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self))
        check_consistent_length(np.empty(features.rows) if isinstance(features, Table) else features, targets)
        if targets.ndim > 2:
            raise DataError(f"y has shape {targets.shape}: give (samples,) or (samples, targets)")
        self._set_targets(1 if targets.ndim == 1 else targets.shape[1], is_column=targets.ndim == 2, follows=follows)
        targets = targets[:, 0] if targets.ndim == 2 and targets.shape[1] == 1 else targets
        weights = checked_weights(sample_weight, features)
        if weights is not None:
            used = np.flatnonzero(weights)
            features, targets, weights = selected(features, used), targets[used], weights[used]
        # Of several targets, one may be constant. A network that is trained further keeps its form.
        if targets.ndim == 1 and (self._preparation.record.target_means if follows else (targets == targets[0]).all()):
            targets = targets[:, None]
        return self._make_source(follows, features, targets, "regression", weights=weights, target_names=names)

    def _set_targets(self, count: int, *, is_column: bool, follows: bool) -> None:
        if follows and count != self._targets:
            raise DataError(f"y has {count} targets, and the first fit had {self._targets}: fit with warm_start=False, or pass as many")
        self._targets, self._is_column = count, is_column and count == 1

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Predict the number, or numbers, for each sample, in the unit of the target."""
        outputs = self._outputs(X)
        mean, std = self._preparation.record.target_scale
        found: NDArray[np.float64] = outputs * np.asarray(std) + np.asarray(mean)
        return found if self._targets > 1 or self._is_column else found[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
