"""What a network gets wrong: confusions, calibration, residuals, the worst mistakes, and how good guessing would be."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from highwaynet.analysis.analysis_records import Origin
from highwaynet.analysis.mistakes_record import BINS, MOST_IN_MATRIX, ClassScore, Mistake, MistakesRecord
from highwaynet.analysis.watching import Progress
from highwaynet.base.arrays import Numbers
from highwaynet.data.dataset import Split
from highwaynet.training.evaluation import EVALUATION_BATCH, evaluating
from highwaynet.training.measuring import Tally
from highwaynet.training.objective import standard_objective

WORST = 12
"""Number of mistakes that are recorded one by one."""
MOST_PAIRS = 2000
"""Largest number of predictions with their targets in a record."""
LARGEST_PICTURE = 64
"""Larger pictures are shrunk to this many pixels in a row or column."""
Vector = npt.NDArray[Any]


def analyse_mistakes(network: nn.Module, split: Split, *, origin: Origin, train: Split, progress: Progress | None = None) -> MistakesRecord:
    """Compare predictions with the truth, and with what guessing would give.

    Args:
        network: The trained network.
        split: The samples.
        origin: Fields of the record that say where it comes from.
        train: The training samples; guessing knows their most frequent class, or their mean.
        progress: Called with (done, total).
    """
    record = split.preparation.record
    objective, weights = standard_objective(record.task), next(network.parameters())
    tally, answers, certainties = Tally(record), list[Tensor](), list[Tensor]()
    done = 0
    with evaluating(network, objective):
        for inputs, targets in split.batches(EVALUATION_BATCH):
            outputs, there = network(inputs.to(weights)), targets.to(weights.device)
            tally.add(objective.measure(outputs, there), outputs, there)
            if record.task == "classification":
                certainties.append(outputs.double().softmax(1).amax(1).cpu())
                answers.append(outputs.argmax(1).cpu())
            else:
                answers.append(outputs.squeeze(1).double().cpu())
            done += len(targets)
            if progress:
                progress(done, len(split))
    found, truth = torch.cat(answers).numpy(), split.targets[split.rows].numpy()
    if record.task == "classification":
        fields = _of_classes(split, truth, found, torch.cat(certainties).numpy(), train)
    else:
        fields = _of_numbers(split, truth.astype(np.float64), found)
    return MistakesRecord(**origin.fields(len(split)), score=tally.score(), target_name=record.target_name, **fields)


def _of_classes(split: Split, truth: Vector, found: Vector, sure: Vector, train: Split) -> dict[str, Any]:
    """Return the fields of a classification: true and predicted class numbers, and the probability of the latter, (samples,)."""
    names = split.preparation.record.class_names
    right = truth == found
    scores = class_scores(truth, found, names)
    majority = int(train.class_counts().argmax())
    recalls = [row.recall for row in scores if row.recall is not None]
    wrong = np.flatnonzero(~right)
    order = wrong[np.argsort(-np.nan_to_num(sure[wrong]), kind="stable")][:WORST]
    confusion: Vector = np.zeros((0, 0))
    if len(names) <= MOST_IN_MATRIX:
        confusion = np.bincount(truth * len(names) + found, minlength=len(names) ** 2).reshape(len(names), len(names))
    return {
        "majority": names[majority],
        "baseline_accuracy": float((truth == majority).mean()),
        "balanced_accuracy": sum(recalls) / len(recalls),
        "classes": scores,
        "confusion": confusion,
        **calibration(sure, right),
        "worst": tuple(
            Mistake(
                row=int(split.rows[place]),
                name=split.name(place),
                true=names[truth[place]],
                predicted=names[found[place]],
                probability=float(sure[place]),
            )
            for place in order.tolist()
        ),
        "pictures": _pictures(split, order),
    }


def class_scores(truth: Vector, found: Vector, names: tuple[str, ...]) -> tuple[ClassScore, ...]:
    """Return precision, recall and support of each class, given true and predicted class numbers."""
    there, told, both = (np.bincount(numbers, minlength=len(names)).tolist() for numbers in (truth, found, truth[truth == found]))
    return tuple(
        ClassScore(
            name=name,
            precision=hits / predicted if predicted else None,
            recall=hits / support if support else None,
            support=support,
            predicted=predicted,
        )
        for name, support, predicted, hits in zip(names, there, told, both, strict=True)
    )


def calibration(sure: Vector, right: Vector) -> dict[str, Any]:
    """Return the bins of the calibration and the expected calibration error.

    Args:
        sure: Probability of the predicted class of each sample, (samples,). Bin i holds those above i/15, up to (i + 1)/15.
        right: Whether the prediction is right, (samples,).
    """
    known = np.isfinite(sure)  # a network that has diverged gives NaN
    places = np.clip(np.ceil(sure[known] * BINS).astype(np.int64) - 1, 0, BINS - 1)
    counts, sums, hits = (
        np.bincount(places, weights=values, minlength=BINS) for values in (np.ones(len(places)), sure[known], right[known].astype(float))
    )
    with np.errstate(invalid="ignore"):
        confidence, accuracy = sums / counts, hits / counts
    error = float(np.abs(sums - hits).sum() / counts.sum()) if counts.any() else None
    return {"calibration_error": error, "bin_samples": counts, "bin_confidence": confidence, "bin_accuracy": accuracy}


def _of_numbers(split: Split, truth: Vector, found: Vector) -> dict[str, Any]:
    """Return the fields of a regression: standardised targets and predictions, (samples,)."""
    record = split.preparation.record
    if record.target_means:
        raise ValueError("mistakes are about one number, and the network predicts several")
    mean, std = record.target_mean, record.target_std
    off = np.abs(found - truth)
    order = np.argsort(-np.nan_to_num(off, nan=np.inf), kind="stable")[:WORST]
    spread = np.arange(min(MOST_PAIRS, len(truth))) * len(truth) // min(MOST_PAIRS, len(truth))
    variance, squares = float(truth.var()), float(np.square(truth).mean())
    return {
        "mae": float(off.mean()) * std,
        "largest_error": float(off[order[0]]) * std,
        "baseline_rmse": squares**0.5 * std,  # the mean of the standardised training targets is 0
        "baseline_mae": float(np.abs(truth).mean()) * std,
        "baseline_r2": 1 - squares / variance if variance > 1e-12 else 0.0,
        "predictions": found[spread] * std + mean,
        "targets": truth[spread] * std + mean,
        "worst": tuple(
            Mistake(
                row=int(split.rows[place]),
                name=split.name(place),
                target=_rounded(truth[place] * std + mean),
                prediction=_rounded(found[place] * std + mean),
            )
            for place in order.tolist()
        ),
        "pictures": _pictures(split, order),
    }


def _rounded(value: float) -> float:
    """Round to the seven digits that float32 has."""
    return float(f"{value:.7g}")


def _pictures(split: Split, places: Vector) -> Numbers:
    """Return the raw pixels of these samples, 0 to 255, (samples, 1 or 3, height, width), shrunk by averaging if they are large."""
    record = split.preparation.record
    if record.kind != "images":
        return np.zeros((0, 1, 1, 1), np.float32)
    raw = split.inputs[split.rows[torch.from_numpy(places)]].float()  # (samples, channels, height, width)
    if raw.shape[1] != 3:
        raw = raw.mean(1, keepdim=True)
    if not len(raw):
        return raw.numpy()
    height, width = raw.shape[2:]
    if max(height, width) > LARGEST_PICTURE:
        rows, columns = (max(1, LARGEST_PICTURE * side // max(height, width)) for side in (height, width))
        raw = nn.functional.adaptive_avg_pool2d(raw, (rows, columns))
    low, high = min(0.0, float(raw.min())), max(record.full_scale, float(raw.max()))  # pixels that were centred have negative values
    pixels: Numbers = ((raw - low) / (high - low) * 255).round().numpy()
    return pixels
