"""Records made by hand."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from highwaynet.analysis.analysis_records import (
    About,
    DeletionsRecord,
    DepthRecord,
    Flow,
    FlowRecord,
    GatesRecord,
    LesionsRecord,
    PairsRecord,
    RefinementRecord,
    RoutingRecord,
)
from highwaynet.analysis.mistakes_record import ClassScore, Mistake, MistakesRecord
from highwaynet.runs.run_records import Score

Values = Callable[[int], np.ndarray]
ABOUT = About(data="MNIST", network="50-layer highway", seed=1, epochs=60)
ORIGIN: dict[str, Any] = {"fingerprint": "", "about": ABOUT, "part": "train", "samples": 60_000}
STAGES = [32] * 4 + [80] * 5 + [128] * 5
CONV = {"widths": STAGES, "convolutional": True}


def score(loss: float, accuracy: float | None = None) -> Score:
    return Score(loss=loss, accuracy=accuracy, samples=1000)


def sigmoid(values: Any) -> Any:
    return 1 / (1 + np.exp(-values))


def ragged(table: Any, widths: Sequence[int]) -> Any:
    """The table with NaN beyond the end of each layer."""
    return np.where(np.arange(table.shape[-1]) < np.array(widths)[:, None], table, np.nan)


def gates_record(layers: int = 49, blocks: int = 50, widths: Sequence[int] | None = None, noise: float = 1.0, **more: Any) -> GatesRecord:
    """Biases around −2 and sparse gates; `noise` = 0 for constant tables."""
    widths = widths or [blocks] * layers
    random = np.random.default_rng(0)
    bias, gates, outputs = (noise * random.normal(size=(len(widths), max(widths))) for _ in range(3))
    return GatesRecord(
        **ORIGIN | {"convolutional": False, "start_bias": np.full(len(widths), -2.0)} | more, sample=3, sparsity=np.linspace(0.5, 0.9, 7),
        bias=ragged(bias - 2, widths), mean=ragged(sigmoid(bias - 2), widths),
        sample_gates=ragged(sigmoid(3 * gates - 2), widths), sample_outputs=ragged(outputs, widths),
        open_share=np.full(len(widths), 0.1), closed_share=np.full(len(widths), 0.7),
    )  # fmt: skip


def routing_record(
    names: Sequence[str] = "0123456789", layers: int = 49, blocks: int = 50, widths: Sequence[int] | None = None, noise: float = 0.05,
    **more: Any,
) -> RoutingRecord:  # fmt: skip
    widths = widths or [blocks] * layers
    classes = len(names)
    random = np.random.default_rng(1)
    means = ragged(0.2 + noise * random.normal(size=(classes, len(widths), max(widths))), widths)
    fields = {
        "convolutional": False,
        "class_names": tuple(names),
        "class_samples": (6000,) * classes,
        "mean": means.mean(axis=0),
        "class_mean": means,
        "distance": np.sqrt(np.nanmean((means[:, None] - means) ** 2, axis=(2, 3))),
        "input_share": np.full(len(widths), 0.25),
        "class_share": np.full(len(widths), 0.5),
        "intact": score(0.01, 0.999),
        "static": score(1.5, 0.4),
    }
    return RoutingRecord(**ORIGIN | fields | more)


def lesions_record(losses: Sequence[float], accuracies: Sequence[float] | None = None, **more: Any) -> LesionsRecord:
    """The first score is the intact network's."""
    intact, *closed = [score(*pair) for pair in zip(losses, accuracies or [None] * len(losses), strict=True)]
    return LesionsRecord(**ORIGIN | more, intact=intact, closed=tuple(closed))


def some_lesions(layers: int, **more: Any) -> LesionsRecord:
    losses = [1e-3, *(1e-3 + np.exp(-np.arange(layers) / 4)).tolist()]
    return lesions_record(losses, [1 - loss / 2 for loss in losses], **more)


def pairs_record(layers: int, intact: float = 0.01, rise: float = 1.0, **more: Any) -> PairsRecord:
    alone = rise * np.exp(-np.arange(layers) / 4)
    pairs = np.where(np.eye(layers, dtype=bool), intact + alone, intact + alone[:, None] + alone + np.outer(alone, alone))
    spans = [[intact + alone[first : last + 1].sum() if last >= first else math.nan for last in range(layers)] for first in range(layers)]
    return PairsRecord(**ORIGIN | more, intact=score(intact, 0.99), pair_loss=pairs, span_loss=spans)


def deletions_record(layers: int = 49, draws: int = 10, swaps: Sequence[int] = (1, 5, 20), rated: bool = True) -> DeletionsRecord:
    random = np.random.default_rng(2)
    deleted = tuple(sorted({1, max(1, layers // 2), layers}))
    harm = np.array(deleted)[:, None] / layers * random.uniform(0.8, 1, size=(len(deleted), draws))
    order = 1 - np.array(swaps)[:, None].reshape(-1, 1) / 20 * random.uniform(0.8, 1, size=(len(swaps), draws))

    def accuracy(damage: Any) -> Any:
        return 0.99 - 0.8 * damage if rated else np.full(damage.shape, math.nan)

    return DeletionsRecord(
        **ORIGIN, seed=0, intact=score(0.01, 0.99 if rated else None), deleted=deleted, swaps=tuple(swaps), order=order,
        deletion_loss=0.01 + harm, deletion_accuracy=accuracy(harm), shuffle_loss=1.01 - order, shuffle_accuracy=accuracy(1 - order),
    )  # fmt: skip


def depth_record(layers: int = 49, rated: bool = True, **more: Any) -> DepthRecord:
    """Half of the layers can go, the others cost more and more."""
    falls = [max(0.0, (count - layers / 2) / layers) ** 2 for count in range(layers + 1)]
    metric = "accuracy" if rated else "r2"
    scores = tuple(Score(loss=0.01 + fall, samples=1000, **{metric: 0.99 - fall}) for fall in falls)
    return DepthRecord(**ORIGIN | more, removed=tuple(range(layers, 0, -1)), scores=scores)


def flow_record(count: int, start: Values, trained: Values, *findings: str) -> FlowRecord:
    def flow(values: Values, *findings: str) -> Flow:
        column = values(count)
        return Flow(mean=-column, variance=column, dead=column, gradient=column, signal_gradient=column, loss=None, findings=findings)

    layers = tuple(map(str, range(count)))
    moments = {"start": flow(start, *findings), "trained": flow(trained)}
    return FlowRecord(**ORIGIN | {"samples": 1000}, kind="plain", activation="relu", init="he", layers=layers, **moments)


def refinement_record(*stages: list[float], bias: float = 0.1) -> RefinementRecord:
    error = np.array([value for stage in stages for value in stage])
    place = tuple(number for number, stage in enumerate(stages) for _ in stage)
    names = tuple(f"{8 * (number + 1)} maps of 4×4" for number in range(len(stages)))
    return RefinementRecord(
        **ORIGIN | {"samples": 1000}, stages=names, stage=place, bias=np.full(len(error), bias), spread=error, error=error
    )


def mistakes_record(names: Sequence[str] = ("0", "cat", "dog"), scale: int = 1, pictures: int = 0, **more: Any) -> MistakesRecord:
    """Every class is right nine times and taken for the next one once, times `scale`."""
    count = len(names)
    confusion = scale * (9 * np.eye(count) + np.roll(np.eye(count), 1, axis=1))
    classes = tuple(ClassScore(name=name, precision=0.9, recall=0.9, support=10 * scale, predicted=10 * scale) for name in names)
    wrong = [(names[number], names[(number + 1) % count]) for number in range(count)]
    worst = [Mistake(row=row, name=f"sample {row}", true=true, predicted=told, probability=0.8) for row, (true, told) in enumerate(wrong)]
    fields = {
        "score": Score(loss=0.3, accuracy=0.9, samples=10 * scale * count),
        "target_name": "target",
        "majority": names[0],
        "baseline_accuracy": 1 / count,
        "balanced_accuracy": 0.9,
        "calibration_error": 0.05,
        "classes": classes,
        "confusion": confusion,
        "bin_samples": np.repeat([0, scale * count], [5, 10]),
        "bin_confidence": np.where(np.arange(15) < 5, np.nan, (np.arange(15) + 0.5) / 15),
        "bin_accuracy": np.where(np.arange(15) < 5, np.nan, np.arange(15) / 15),
        "worst": tuple(worst[:12]),
    }
    if pictures:
        fields["pictures"] = np.linspace(0, 255, len(worst[:12]) * pictures * 64).reshape(-1, pictures, 8, 8)
    return MistakesRecord(**ORIGIN | {"samples": 10 * scale * count} | fields | more)


def residuals_record(count: int = 200, unit: float = 1000.0, **more: Any) -> MistakesRecord:
    random = np.random.default_rng(3)
    targets = unit * random.normal(300, 100, size=count)
    predictions = targets + unit * random.normal(0, 20, size=count)
    worst = tuple(Mistake(row=row, name=f"row {row + 1}", target=200_000.0, prediction=260_950.0) for row in range(12))
    fields = {
        "score": Score(loss=0.04, rmse=20 * unit, r2=0.96, samples=count),
        "target_name": "price",
        "mae": 16 * unit,
        "largest_error": 61 * unit,
        "baseline_rmse": 100 * unit,
        "baseline_mae": 80 * unit,
        "baseline_r2": -0.01,
        "predictions": predictions,
        "targets": targets,
        "worst": worst,
    }
    return MistakesRecord(**ORIGIN | {"samples": count} | fields | more)
