"""Columns of a table that tell the target: copies of it, and columns from which it follows nearly always. Does not import torch."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.data.names import Task

LEAST_NEARLY = 100
"""With fewer rows, or fewer values for a rule about values, a target may follow from a column by chance."""
NEARLY = 0.999
"""The target follows from a column if a simple rule is right for this share of the rows, or explains this share of the variance."""
BEYOND_GUESSING = 0.98
"""And if it is right for this share of the rows that are not of the most frequent class."""
ROUNDING = 1e-6

Floats = NDArray[np.float64]


def is_copy(values: NDArray[Any], targets: NDArray[Any], task: Task, *, ordered: bool) -> bool:
    """Whether a column is the target in other words: one value for each target or, if it is `ordered`, a linear function of it."""
    return _one_to_one(values.tolist(), targets.tolist()) or (ordered and task == "regression" and _linear(values, targets))


def _one_to_one(values: Sequence[Any], targets: Sequence[Any]) -> bool:
    """Whether each value goes with one target and each target with one value; if most values occur only once, this says nothing."""
    pairs = set(zip(values, targets, strict=True))
    count = len(pairs)
    return 1 < count <= len(values) / 2 and count == len({value for value, _ in pairs}) == len({target for _, target in pairs})


def _linear(values: Floats, targets: Floats) -> bool:
    """Whether the targets are a linear function of the values, up to rounding."""
    least, most = values.argmin(), values.argmax()
    span = targets.max() - targets.min()
    with np.errstate(all="ignore"):
        share = (values - values[least]) / (values[most] - values[least])
        line = targets[least] + share * (targets[most] - targets[least])
        return bool(span > 0 and np.abs(line - targets).max() <= ROUNDING * span)


def tells_nearly(values: NDArray[Any], missing: NDArray[np.bool_], targets: NDArray[Any], task: Task, *, ordered: bool) -> float | None:
    """Return how well the target follows from a column by a simple rule; None if that is below 99.9 %, or if there are few rows.

    The rules are, for classes: the most frequent class of each category, or of gaps and values; for numbers, an interval for each class.
    For a regression: the mean of each category, or numbers that rise or fall with the target. Each row is predicted from the others.

    Args:
        values: The column (rows,), numbers if it is `ordered`.
        missing: Mask (rows,) of its gaps.
        targets: Class numbers or numbers (rows,).
        task: What is to be predicted.
        ordered: Whether the column has numbers or dates.

    Returns:
        The share of the rows that the rule predicts correctly, or the share of the variance that it explains.
    """
    there = ~missing
    enough = there.sum() >= LEAST_NEARLY
    if len(targets) < LEAST_NEARLY or (task == "regression" and not enough):
        return None
    if task == "regression":
        found = _rank_share(values[there], targets[there]) if ordered else _mean_share(values[there].tolist(), targets[there])
        return found if found >= NEARLY and missing.mean() <= 1 - NEARLY else None
    gaps, rows = missing.astype(np.int64), len(targets)
    right = [_right_by_value(gaps.tolist(), targets.tolist())]
    if enough:
        own, wanted = values[there], targets[there]
        right.append(_right_in_intervals(own, wanted) if ordered else _right_by_value(own.tolist(), wanted.tolist()))
        right[-1] += _right_by_value(gaps[missing].tolist(), targets[missing].tolist()) if missing.any() else 0
    best, guessed = max(right), int(np.bincount(targets).max())
    if best < NEARLY * rows or best - guessed < BEYOND_GUESSING * (rows - guessed):
        return None
    return best / rows


def _right_by_value(values: Sequence[Any], targets: Sequence[int]) -> int:
    """Count the rows whose class is the most frequent one among the other rows with the same value; a value that occurs once counts not."""
    right = 0
    for counts in _by_value(values, targets).values():
        (_, most), *rest = counts.most_common(2)
        right += most if most - 1 > (rest[0][1] if rest else 0) else 0
    return right


def _by_value(values: Sequence[Any], targets: Sequence[int]) -> dict[Any, Counter[int]]:
    found: dict[Any, Counter[int]] = {}
    for value, target in zip(values, targets, strict=True):
        found.setdefault(value, Counter())[target] += 1
    return found


def _right_in_intervals(values: Floats, targets: NDArray[np.int64]) -> int:
    """Count the rows that one interval of numbers for each class predicts correctly; the medians of the classes give their order."""
    classes = sorted(np.unique(targets).tolist(), key=lambda number: float(np.median(values[targets == number])))
    borders = []
    for lower, upper in pairwise(classes):
        chosen = (targets == lower) | (targets == upper)
        order = np.argsort(values[chosen], kind="stable")
        sorted_values, is_upper = values[chosen][order], (targets[chosen] == upper)[order]
        # Below the border all are taken for the lower class: wrong there are those of the upper class, and above it those of the lower one.
        wrong = np.concatenate([[0], np.cumsum(is_upper)]) + (~is_upper).sum() - np.concatenate([[0], np.cumsum(~is_upper)])
        wrong[1:-1][sorted_values[1:] == sorted_values[:-1]] = len(targets)  # a border cannot lie between equal values
        place = int(wrong.argmin())
        borders.append(-np.inf if place == 0 else np.inf if place == len(order) else (sorted_values[place - 1] + sorted_values[place]) / 2)
    predicted = np.array(classes)[np.searchsorted(np.maximum.accumulate(borders), values)] if borders else np.full_like(targets, classes[0])
    return int((predicted == targets).sum())


def _rank_share(values: Floats, targets: Floats) -> float:
    """Return the squared correlation of the ranks: 1 if the numbers rise, or fall, with the target; 0 if one is constant."""
    ranks = [_ranks(numbers) for numbers in (values, targets)]
    if any(found.min() == found.max() for found in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1] ** 2)


def _ranks(numbers: Floats) -> Floats:
    """Return the rank of each number; equal ones share the mean of theirs."""
    _, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def _mean_share(values: Sequence[Any], targets: Floats) -> float:
    """Return the share of the variance that the means of the other rows with the same value explain."""
    _, places, counts = np.unique(np.array(list(map(str, values))), return_inverse=True, return_counts=True)
    means = np.bincount(places, weights=targets) / counts
    many = counts[places] > 1
    errors = np.where(many, (targets - means[places]) * counts[places] / np.maximum(counts[places] - 1, 1), targets - targets.mean())
    total = float(((targets - targets.mean()) ** 2).sum())
    return 1 - float((errors**2).sum()) / total if total > 0 else 0.0
