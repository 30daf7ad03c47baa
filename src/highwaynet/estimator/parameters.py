"""Parameters of estimators that are not settings of a run: what they may be, and what they mean."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from highwaynet.base.errors import DataError

OF_FILES = frozenset({"name", "labels", "target", "task", "header", "ignore", "resize", "colour", "skip_bad"})
"""Settings of data that have no effect on data in memory."""


def check_parameters(estimator: Any) -> None:
    """Raise ValueError if a parameter of an estimator is wrong; the others are settings of a run, which are checked there."""
    share, jobs, dropout, settings = (getattr(estimator, name) for name in ("validation_fraction", "n_jobs", "dropout", "settings"))
    sections = settings.values() if isinstance(settings, Mapping) else ["no section"] * (settings is not None)
    rules = {
        "early_stopping": ("True, False or 'auto'", _is_truth(estimator.early_stopping) or estimator.early_stopping == "auto"),
        "validation_fraction": ("a number above 0 and up to 0.5", _is_number(share) and 0 < share <= 0.5),
        "warm_start": ("True or False", _is_truth(estimator.warm_start)),
        "n_jobs": ("None or a whole number other than 0", jobs is None or (isinstance(jobs, int | np.integer) and jobs != 0)),
        "dropout": ("None or a number", dropout is None or _is_number(dropout)),
        "settings": ("None or a mapping of sections to settings", all(isinstance(section, Mapping) for section in sections)),
    }
    for name, (right, is_right) in rules.items():
        if not is_right:
            raise DataError(f"{name} = {getattr(estimator, name)!r}: should be {right}")
    if given := sorted(OF_FILES & set((settings or {}).get("data", ()))):
        raise DataError(f"settings has data.{given[0]}, which is for files: X and y are the data, so change them instead")


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not _is_truth(value)


def plain(value: Any) -> Any:
    """Return a number of numpy, as grids of parameters have them, as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads, by scikit-learn's convention: None is 1, −1 all cores, −2 all but one."""
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
