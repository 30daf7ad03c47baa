"""Findings: records in words. Does not import matplotlib."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from highwaynet.analysis.analysis_records import (
    AnalysisRecord,
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
from highwaynet.base.arrays import Numbers
from highwaynet.base.text import loss_text, percent, quantity_text, with_count
from highwaynet.runs.run_records import Score

PART_NAMES = {"train": "training", "validation": "validation", "test": "test"}
METRICS: dict[str, tuple[str, Callable[[float], str]]] = {
    "loss": ("loss", loss_text),
    "accuracy": ("accuracy", percent),
    "rmse": ("RMSE", quantity_text),
    "r2": ("R²", lambda value: f"{value:.3f}"),
}
"""For each field of a score its heading and its number format."""

IDLE_ACCURACY = 0.001
IDLE_LOSS = 0.01
"""A layer counts as idle if closing it raises the loss by at most this share, and lowers the accuracy by at most this difference."""


def number_text(value: float) -> str:
    """Format a number with at most three significant digits and a true minus sign.

    >>> number_text(-2.0), number_text(0.03456)
    ('−2', '0.0346')
    """
    return f"{value:.3g}".replace("-", "−")


def samples_text(record: AnalysisRecord) -> str:
    """Return the samples of a record in words, for instance: 60,000 training samples."""
    return with_count(record.samples, f"{PART_NAMES[record.part]} sample")


def lesion_finding(record: LesionsRecord) -> str:
    """Say how many layers can be closed one at a time without effect on loss and accuracy, and which layer matters most."""
    intact, part = record.intact, PART_NAMES[record.part]
    losses = [math.inf if math.isnan(score.loss) else score.loss for score in record.closed]
    idle = sum(_near(loss, intact.loss, IDLE_LOSS) for loss in losses)
    text = f"{idle} of {len(losses)} layers can be closed one at a time with at most 1 % rise of the {part} loss ({loss_text(intact.loss)})"
    if intact.accuracy is not None:
        idle = sum(same_accuracy(intact, score) for score in record.closed)
        text += f", {idle} with at most 0.1 percentage points' fall of the {part} accuracy ({percent(intact.accuracy)})"
    worst = max(range(len(losses)), key=lambda index: losses[index])
    if losses[worst] <= intact.loss:
        return f"{text}. Closing any single layer does not raise the loss."
    return f"{text}. Layer {worst + 1} matters most: without it the loss goes from {loss_text(intact.loss)} to {loss_text(losses[worst])}."


def _near(loss: float, intact: float, share: float) -> bool:
    """Whether a loss exceeds that of the intact network by at most this share of it."""
    return loss - intact <= share * intact * (1 + 1e-6)


def same_accuracy(intact: Score, closed: Score) -> bool:
    """Whether closing a layer lowers the accuracy by at most 0.1 percentage points."""
    return (intact.accuracy or 0) - (closed.accuracy or 0) <= IDLE_ACCURACY + 1e-9


def _share(value: float) -> str:
    """Format with two decimals, or with two significant digits if below 0.1."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def gate_finding(record: GatesRecord) -> str:
    """Say how open the gates are on average and for single samples, and how training changed their biases."""
    opening = np.nanmean(record.mean.astype(float), axis=1)  # of each layer
    busiest = int(np.argmax(opening))
    gates = np.isfinite(record.mean).sum(axis=1)  # of each layer
    closed, opened = (float(np.average(share, weights=gates)) for share in (record.closed_share, record.open_share))
    starts = sorted({float(start) for start in record.start_bias[np.isfinite(record.start_bias)]})
    biases = record.bias[np.isfinite(record.bias)]
    fell = round(record.fell * biases.size)
    began = " to ".join(map(number_text, dict.fromkeys((starts[-1], starts[0])))) if starts else ""
    about_biases = (
        f" All gate biases started at {began}; training lowered {percent(record.fell)} of them ({fell:,} of {biases.size:,}), "
        f"and their mean is {number_text(float(biases.mean()))} now."
    )
    return (
        f"Over {samples_text(record)} the transform gates are open by {_share(np.average(opening, weights=gates))} on average "
        f"(1 is fully open), most in highway layer {busiest + 1} ({_share(opening[busiest])}). "
        f"For a single sample {percent(closed)} of the gates are below 0.1 and {percent(opened)} above 0.5, on average over the samples."
    ) + (about_biases if starts else "")


def routing_finding(record: RoutingRecord) -> str:
    """Say which classes have the most similar and most different routes, and how much the gates depend on the input."""
    seen, classes = float(record.input_share.mean()), float(record.class_share.mean())
    part = PART_NAMES[record.part]
    if record.intact.accuracy is None or record.static.accuracy is None:
        change = f"the {part} loss goes from {loss_text(record.intact.loss)} to {loss_text(record.static.loss)}"
    else:
        change = f"the {part} accuracy goes from {percent(record.intact.accuracy)} to {percent(record.static.accuracy)}"
    return (
        f"{_distances(record)}On average over the layers, {percent(seen)} of the variance of a layer's gates comes from the input, "
        f"the rest from differences between blocks that are the same for all samples; of what comes from the input, {percent(classes)} is "
        f"between classes. With every gate held at its mean over the samples {change}."
    )


def _distances(record: RoutingRecord) -> str:
    """Return the sentence on the closest and the farthest classes; empty if there are fewer than two."""
    pairs = _largest_first(np.where(np.tri(len(record.class_names), dtype=bool), np.nan, record.distance))
    if not pairs:
        return ""
    measure = "root mean square difference of their mean gates"
    (near, nearest), (far, farthest) = (_two_classes(record, place) for place in (pairs[-1], pairs[0]))
    if len(pairs) == 1:
        return f"The routes of the classes {near} are {nearest} apart ({measure}). "
    return f"The routes of the classes {near} are closest ({nearest}, {measure}), those of {far} farthest apart ({farthest}). "


def _two_classes(record: RoutingRecord, place: tuple[int, int]) -> tuple[str, str]:
    """Return the names of two classes, and the distance of their routes."""
    return " and ".join(record.class_names[number] for number in place), number_text(float(record.distance[place]))


def _largest_first(table: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Return row and column of all finite numbers in a table, the largest first."""
    places = np.argsort(-table, axis=None, kind="stable")[: np.isfinite(table).sum()]
    rows, columns = np.unravel_index(places, table.shape)
    return [(int(row), int(column)) for row, column in zip(rows, columns, strict=True)]


def pairs_finding(record: PairsRecord) -> str:
    """Say which are the longest spans that can be closed, and which two layers interact most."""
    intact = record.intact.loss
    loss = f"rise of the loss ({loss_text(intact)} over {samples_text(record)})"
    little, more = (_longest_span(record.span_loss, intact, share) for share in (IDLE_LOSS, 10 * IDLE_LOSS))
    if little and more:
        text = f"The longest span of layers that can be closed with at most 1 % {loss} has {little}, with at most 10 % {more}."
    elif more:
        text = f"No layer can be closed with at most 1 % {loss}; the longest span that can be closed with at most 10 % has {more}."
    else:
        text = f"No layer can be closed with at most 10 % {loss}."
    return f"{text}{_interaction(record)}"


def _longest_span(losses: npt.NDArray[Any], intact: float, share: float) -> str:
    """Return the longest span whose loss is near the intact network's, the nearest of several; empty if there is none."""
    spans = [(first, last) for first, last in np.argwhere(np.isfinite(losses)).tolist() if _near(float(losses[first, last]), intact, share)]
    if not spans:
        return ""
    first, last = max(spans, key=lambda span: (span[1] - span[0], -abs(float(losses[span]) - intact)))
    numbers = f"{first + 1}" if first == last else f"{first + 1} to {last + 1}"
    return f"{with_count(last - first + 1, 'layer')} ({numbers})"


def _interaction(record: PairsRecord) -> str:
    """Return the sentence on the two layers whose joint effect differs most from the sum of their single effects; empty without pairs."""
    losses = np.where(np.isfinite(record.pair_loss), record.pair_loss.astype(float), np.nan)
    rise = losses - np.float32(record.intact.loss)
    alone = rise.diagonal()
    excess = np.abs(rise - alone[:, None] - alone[None, :])
    pairs = _largest_first(np.where(np.tri(len(rise), dtype=bool), np.nan, excess))
    if not pairs:
        return ""
    one, other = pairs[0]
    if excess[one, other] <= 1e-6 * losses[one, other]:  # what float32 can tell apart
        return " No two layers interact: closing both changes the loss by the sum of what closing each does."
    return (
        f" Layers {one + 1} and {other + 1} interact most: closing both changes the loss by {_signed(rise[one, other])}, "
        f"closing only one of them by {_signed(alone[one])} and {_signed(alone[other])}."
    )


def _signed(change: float) -> str:
    return f"{'−' if change < 0 else '+'}{loss_text(abs(change))}"


def deletions_finding(record: DeletionsRecord) -> str:
    """Say what is left of the accuracy (or loss) with one, half and all layers deleted, and with layers swapped."""
    rated = record.intact.accuracy is not None
    deleted, shuffled = (
        _medians(table)
        for table in ((record.deletion_accuracy, record.shuffle_accuracy) if rated else (record.deletion_loss, record.shuffle_loss))
    )
    intact = record.intact.loss if record.intact.accuracy is None else record.intact.accuracy
    write, measure = (percent, "accuracy") if rated else (loss_text, "loss")
    sentences = [f"The intact network's {measure} is {write(intact)} over {samples_text(record)}."]
    if deleted:
        told = [f"{write(deleted[place])} {share}" for place, share in _few(record.deleted).items()]
        sentences.append(f"With random layers deleted its median is {_listed(told)}.")
        kept = next((place for place, value in enumerate(deleted) if value < 0.9 * intact), len(deleted)) if rated else 0
        if kept:
            sentences.append(f"At least 90 % of it is kept with up to {with_count(record.deleted[kept - 1], 'layer')} deleted.")
    if shuffled:
        order = _medians(record.order)
        told = [
            f"{write(shuffled[place])} after {with_count(record.swaps[place], 'swap')} (Kendall's τ {number_text(round(order[place], 2))})"
            for place in sorted({0, len(shuffled) - 1})
        ]
        sentences.append(f"With random layers swapped its median is {_listed(told)}.")
    return " ".join(sentences)


def depth_finding(record: DepthRecord) -> str:
    """Say how many layers are needed for nearly the accuracy of the intact network, without further training."""
    measure = "accuracy" if record.scores[0].accuracy is not None else "R²"
    intact, layers = record.scores[0].percent, len(record.removed)
    return (
        f"The intact network's {measure} is {intact:.2f} % over {samples_text(record)}. If layers are removed one by one, always the one "
        f"that costs least, without further training, {record.needed(0.1)} of {layers} layers are needed to lose at most 0.1 percentage "
        f"points, and {record.needed(1.0)} to lose at most 1; without any of them {record.scores[-1].percent:.2f} % are left."
    )


def _medians(table: npt.NDArray[Any]) -> list[float]:
    """Return the median of each row."""
    return [float(np.median(row)) for row in table]


def _few(deleted: Sequence[int]) -> dict[int, str]:
    """Choose the counts to report, with their words: the first, the one nearest to half of the layers, and the last (all)."""
    layers = deleted[-1]
    half = min(range(len(deleted)), key=lambda place: abs(2 * deleted[place] - layers))
    shares = {place: f"({deleted[place]} of {layers})" for place in sorted({0, half})}
    return shares | {len(deleted) - 1: f"(all {layers})" if layers > 1 else "(the only one)"}


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def flow_finding(record: FlowRecord) -> str:
    """Say whether the signal passes all layers before and after training, and if not, what is wrong."""
    part = samples_text(record)
    return f"Over {part}, before training the signal {_state(record.start)} After training it {_state(record.trained)}"


def _state(flow: Flow) -> str:
    if flow.findings:
        return f"fails. {' '.join(flow.findings)}"
    layers, deviation = len(flow.variance), np.sqrt(flow.variance)
    if layers == 1:
        return f"passes the only layer, with a standard deviation of {deviation[0]:.2g} and a gradient of length {flow.gradient[0]:.2g}."
    return (
        f"passes all {layers} layers: from the first to the last the standard deviation of the outputs goes from {deviation[0]:.2g} to "
        f"{deviation[-1]:.2g}, and the length of the weights' gradient from {flow.gradient[0]:.2g} to {flow.gradient[-1]:.2g}."
    )


def refinement_finding(record: RefinementRecord) -> str:
    """Say how far the first output of each stage is from the last, and how many layers it takes to reduce that."""
    parts = [f"Over {samples_text(record)}:"]
    for name, places in zip(record.stages, record.places, strict=True):
        parts.append(f"In the {len(places)} layers with {name} {_way(record.error[places])}")
    bias, spread = np.abs(record.bias).max(), record.spread.max()
    if np.isfinite([bias, spread]).all():
        parts.append(f"The mean difference stays within ±{bias:.2g}, its standard deviation is up to {spread:.2g}.")
    return " ".join(parts)


def _way(error: Numbers) -> str:
    if not np.isfinite(error).all():
        return "nothing can be compared: the last output is 0 everywhere, or not finite."
    if not error.any():
        return "all outputs are the same."
    apart, behind = f"the first output differs from the last by {error[0]:.2f} times the last one's size", len(error) - 1
    if behind == 1:
        return f"{apart}."
    half, tenth = (int(np.flatnonzero(error > share * error[0])[-1]) + 1 for share in (0.5, 0.1))
    if half == behind:
        return f"{apart}; no layer but the last brings it to half of that."
    return f"{apart}; it takes {half} of the {behind} layers behind it to halve that, and {tenth} to bring it to a tenth."
