"""What both estimators share: parameters, training through the one loop, prediction, and the run that they hold."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

import highwaynet.figures.drawings  # noqa: F401  # so that records can draw themselves
from highwaynet.analysis.collect import Study
from highwaynet.base.errors import DataError, InputError
from highwaynet.base.files import short_lived
from highwaynet.data.columns import NEARLY_ALL
from highwaynet.data.reading import divided
from highwaynet.data.sources import Source
from highwaynet.data.table_files import Table
from highwaynet.data.tables import TableEncoder
from highwaynet.estimator.inputs import Features, checked, like_training, source_of, value_errors
from highwaynet.estimator.parameters import check_parameters, plain, thread_count
from highwaynet.networks.network import Network
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network
from highwaynet.runs.packed import PackedRun, pack_run, unpack_run
from highwaynet.runs.run_records import EpochRecord, TimingRecord
from highwaynet.runs.spec import RunSpec
from highwaynet.runs.suited import SMALL
from highwaynet.training.depth_search import TRIAL_EPOCHS, find_depth, with_depth
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.loop import train
from highwaynet.training.watcher import Watcher

SMALL_SHARE = 0.25
"""Share of a small set, at least, on which depths are compared."""
PREDICTED_AT_ONCE = 4096
"""Rows that are predicted in one batch."""


class HighwayEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base class of `HighwayClassifier` and `HighwayRegressor`; it holds a run, with everything that prediction needs."""

    depth: int | Literal["auto"] | None
    width: int | None
    epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    weight_decay: float | None
    dropout: float | None
    early_stopping: bool | Literal["auto"]
    validation_fraction: float
    patience: int | None
    warm_start: bool
    random_state: Any
    n_jobs: int | None
    verbose: int
    settings: dict[str, Any] | None
    classes_: NDArray[Any]
    _column_names: tuple[str, ...]
    _targets: int

    def _sections(self, seed: int, rows: int) -> dict[str, Any]:
        """The settings of the run that the parameters choose; those that are None are left to the recipe.

        Small sets have their own rule, which dropout, batch size and early stopping would break.
        """
        given = {section: dict(values) for section, values in (self.settings or {}).items()}
        network: dict[str, Any] = {"depth": None if self.depth == "auto" else plain(self.depth), "width": plain(self.width)}
        network["dropout"] = None if self.dropout is None else (0.0, float(self.dropout))
        names = ("epochs", "batch_size", "learning_rate", "weight_decay", "patience")
        training = {name: plain(getattr(self, name)) for name in names} | {"threads": thread_count(self.n_jobs), "device": "cpu"}
        data: dict[str, Any] = {"test": 0.0, "split_seed": seed}
        if self.early_stopping != "auto":
            data["validation"] = float(self.validation_fraction) if self.early_stopping else 0.0
        sections = {"network": network, "training": training, "data": data}
        if rows < SMALL:
            for section, names_there in (("network", ("dropout",)), ("training", ("batch_size", "patience")), ("data", ("validation",))):
                for name in names_there:
                    sections[section].pop(name, None)
        filled = {name: {key: value for key, value in own.items() if value is not None} for name, own in sections.items()}
        return {"seed": seed} | {name: filled[name] | given.pop(name, {}) for name in filled} | given

    def _fit(self, x: Any, y: Any, sample_weight: Any) -> Self:
        """Train on new data; if that fails, the estimator is as before."""
        before = dict(self.__dict__)
        check_parameters(self)
        try:
            return self._train(self._source(x, y, sample_weight, follows=self.warm_start and hasattr(self, "_files")))
        except BaseException:
            self._restore(before)
            raise

    def _restore(self, attributes: dict[str, Any]) -> None:
        self.__dict__.clear()
        self.__dict__.update(attributes)

    def _train(self, source: Source) -> Self:
        """Train on a source, and take the run into memory."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with value_errors(), short_lived(), tempfile.TemporaryDirectory(prefix="highway-", dir=_memory_folder()) as folder:
            try:
                self._take(self._trained(source, seed, Path(folder)))
            except DivergenceError as error:
                what = str(error).partition(";")[0]
                raise DataError(f"{what}; choose a lower learning_rate, or check the data for extreme values") from error
        return self

    def _trained(self, source: Source, seed: int, folder: Path) -> RunDirectory:
        watcher = _Printer() if self.verbose else None
        if self.warm_start and hasattr(self, "_files"):
            parent = unpack_run(self._files, folder / "parent")
            training = self._sections(seed, len(source.samples))["training"]
            spec = RunSpec.from_run(parent, training=training)
            return train(spec, folder / "run", data=source, watcher=watcher)
        sections = self._sections(seed, len(source.samples))
        if source.table is not None:
            sections["data"] = {"use": _used(source.table)} | sections["data"]
        spec = RunSpec.for_data(source, **sections)
        if self.early_stopping == "auto" and "validation" not in sections["data"] and not _divisible(source, spec):
            spec = RunSpec.for_data(source, **sections | {"data": sections["data"] | {"validation": 0.0}})
        if self.depth == "auto":
            spec = with_depth(spec, self._search_depth(spec, source, watcher.note if watcher else lambda note: None))
        return train(spec, folder / "run", data=source, watcher=watcher)

    def _search_depth(self, spec: RunSpec, source: Source, tell: Callable[[str], None]) -> int:
        """Return the depth that is best on validation data; if the run has none, a part of its samples is set aside for the search."""
        epochs = TRIAL_EPOCHS
        if not spec.data.validation:
            small = len(source.samples) < SMALL
            share = min(0.5, max(SMALL_SHARE if small else 0.0, self.validation_fraction))
            spec = spec.model_copy(update={"data": spec.data.model_copy(update={"validation": float(share)})})
            epochs = spec.training.epochs if small else epochs  # an epoch of a small set is one step
            if not _divisible(source, spec):
                raise DataError(f"depth = 'auto': depths cannot be compared with so few samples ({len(source.samples)}); choose a depth")
        depth: int = find_depth(spec, source, tell=tell, epochs=epochs).network.depth
        return depth

    def _take(self, run: RunDirectory) -> None:
        """Hold a finished run: its files, and its network for prediction."""
        spec = run.read_spec()
        self.depth_ = spec.network.depth
        self.n_iter_ = len(run.read_history())
        self._files: PackedRun = pack_run(run)
        self._load(run)

    def _load(self, run: RunDirectory) -> None:
        self._preparation = run.load_preparation()
        record = self._preparation.record
        with torch.random.fork_rng(devices=[]):  # new modules draw weights before they get those of the run
            self._network: Network = load_network(run, data=record, exact=True)
        self._encoder = TableEncoder.from_json(record.encoder) if record.encoder else None

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        for name in ("_network", "_preparation", "_encoder"):
            state.pop(name, None)  # they follow from the files
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_files" in state:
            with short_lived(), tempfile.TemporaryDirectory(prefix="highway-", dir=_memory_folder()) as folder:
                self._load(unpack_run(state["_files"], Path(folder) / "run"))

    def _outputs(self, x: Any) -> NDArray[np.float64]:
        """Return the outputs of the network (samples, outputs): logits, or standardised numbers."""
        check_is_fitted(self)
        features = checked(self, x, known=self._encoder is not None)
        dtype = next(self._network.parameters()).dtype
        if isinstance(features, Table) and self._encoder is not None:
            with value_errors():
                rows = self._encoder.encode(like_training(features, self._column_names), dtype=_numpy(dtype))
        else:
            exact = self._preparation.record.exact or dtype is torch.float64  # as the network was trained
            rows = np.ascontiguousarray(features, np.float64 if exact else np.float32)
        with torch.inference_mode(), threads(thread_count(self.n_jobs)):
            found = [self._network(self._prepared(batch)) for batch in torch.from_numpy(rows).split(PREDICTED_AT_ONCE)]
        outputs: NDArray[np.float64] = torch.cat(found).double().numpy()
        return outputs

    def _prepared(self, rows: torch.Tensor) -> torch.Tensor:
        """Preprocess raw rows, and convert them to the type of the network."""
        prepared = self._preparation.preprocessing.apply(rows).to(next(self._network.parameters()).dtype)
        if not torch.isfinite(prepared).all():
            raise DataError("Input X contains a value that is too far from the data in fit: correct it.")
        return prepared

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> RunDirectory:
        """Save the fitted estimator as a run directory, for `highway predict`, `highway export` and `load`.

        Args:
            path: The run directory to create.
            overwrite: Replace an earlier run there.

        Raises:
            InputError: If the directory cannot be created.
        """
        check_is_fitted(self)
        return unpack_run(self._files, Path(path), overwrite=overwrite)

    def inspect(self, X: Any, y: Any, sample_weight: Any = None) -> Study:  # noqa: N803
        """Open the fitted network for analysis: which gates are open, what each layer is needed for.

        Args:
            X: The inputs that it was fitted with; an estimator does not keep them.
            y: Their targets.
            sample_weight: Their weights, if there were any.

        Returns:
            A study, whose methods are the analyses, for instance `gates()` and `lesions()`.

        Raises:
            ValueError: If the data are not those that it was fitted with.
        """
        check_is_fitted(self)
        before = dict(self.__dict__)
        try:
            source = self._source(X, y, sample_weight, follows=True)
        finally:
            self._restore(before)
        folder = tempfile.mkdtemp(prefix="highway-")
        study = Study(unpack_run(self._files, Path(folder) / "run"), data=source)
        weakref.finalize(study, shutil.rmtree, folder, ignore_errors=True)
        try:
            study.data  # noqa: B018  # loaded now, so that other data are reported here
        except InputError as error:
            raise DataError("X and y are not those of fit: give inspect the data that the network was fitted with") from error
        return study

    def _source(self, x: Any, y: Any, sample_weight: Any, *, follows: bool) -> Source:
        """Make the source from what the user passes; with `follows`, it has to be like the data that the network was fitted with."""
        raise NotImplementedError

    def _features(self, x: Any, *, follows: bool) -> Features:
        features = checked(self, x, known=self._encoder is not None if follows else None, least=2)
        if not isinstance(features, Table):
            return features
        if follows:
            return like_training(features, self._column_names)
        self._column_names = tuple(column.name for column in features.columns)
        return features

    def _make_source(self, follows: bool, x: Features, *args: Any, **options: Any) -> Source:
        """Make the source; small sets are trained in float64, and so is a network that was."""
        rows = x.rows if isinstance(x, Table) else len(x)
        exact = next(self._network.parameters()).dtype is torch.float64 if follows else rows < SMALL
        return source_of(x, *args, exact=exact, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class _Printer(Watcher):
    """Prints a line for each epoch."""

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        validation = f", validation {record.validation}" if record.validation else ""
        print(f"epoch {record.epoch}: {record.train}{validation}")

    def note(self, sentence: str) -> None:
        print(sentence)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Context manager: torch uses this many threads.

    With one thread, torch starts no team of OpenMP threads. The idle ones of a team keep their cores busy for a while, which slows down
    the other OpenMP runtime in the process, that of scikit-learn.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _divisible(source: Source, spec: RunSpec) -> bool:
    """Whether the samples have a validation part; if each class has one sample only, they have none."""
    try:
        divided(source, spec.data)
    except InputError:
        return False
    return True


def _used(table: Table) -> list[str]:
    """Return the columns that are used whatever they look like: all but texts that nearly all differ, which stand for nothing else."""
    texts = {column.name: [text for text in column.values if text is not None] for column in table.columns if column.kind == "category"}
    unique = {name for name, found in texts.items() if len(set(found)) > NEARLY_ALL * max(len(found), 1)}
    return [column.name for column in table.columns if column.name not in unique]


def _numpy(dtype: torch.dtype) -> Any:
    return np.float64 if dtype is torch.float64 else np.float32


def _memory_folder() -> str | None:
    """A folder in memory, if the system has one, for runs that live as long as a call."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
