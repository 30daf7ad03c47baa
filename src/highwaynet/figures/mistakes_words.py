"""The mistakes of a network in words, and its worst mistakes as HTML. Does not import matplotlib."""

import numpy as np

from highwaynet.analysis.mistakes_record import Mistake, MistakesRecord
from highwaynet.base.text import percent, quantity_text, with_count
from highwaynet.figures.findings import PART_NAMES, samples_text
from highwaynet.figures.fragments import table, thumbnails


def mistakes_finding(record: MistakesRecord) -> str:
    """Say how good the network is next to guessing, which classes are hard, and how far its probabilities can be trusted."""
    return _of_classes(record) if record.classes else _of_numbers(record)


def _of_classes(record: MistakesRecord) -> str:
    accuracy, guessed = record.score.accuracy or 0.0, record.baseline_accuracy or 0.0
    texts = [
        f"Over {samples_text(record)} the accuracy is {percent(accuracy)}; always guessing the most frequent training class "
        f"({record.majority}) gives {percent(guessed)}. The balanced accuracy, in which all classes count alike, is "
        f"{percent(record.balanced_accuracy or 0.0)}."
    ]
    hardest = record.hardest(1)
    if hardest and (hardest[0].recall or 0.0) < 1:
        one = hardest[0]
        texts.append(f"Class {one.name} has the lowest recall, {percent(one.recall or 0.0)} of {with_count(one.support, 'sample')}.")
    if confused := _most_confused(record):
        texts.append(confused)
    if record.calibration_error is not None:
        texts.append(_calibration(record, record.calibration_error))
    return " ".join(texts)


def _most_confused(record: MistakesRecord) -> str:
    """Return the sentence on the most frequent confusion; empty if there is none, or no matrix."""
    wrong = np.where(np.eye(len(record.confusion), dtype=bool), 0, record.confusion)
    if not wrong.any():
        return ""
    true, told = (int(place) for place in np.unravel_index(wrong.argmax(), wrong.shape))
    names, count = record.class_names, int(wrong[true, told])
    return f"The most frequent confusion is {names[true]} taken for {names[told]}, {with_count(count, 'time')}."


def _calibration(record: MistakesRecord, error: float) -> str:
    known = record.bin_samples > 0
    counts = record.bin_samples[known].astype(float)
    gap = float(np.average((record.bin_confidence - record.bin_accuracy)[known], weights=counts))
    tendency = f", on average {'too high' if gap > 0 else 'too low'}" if abs(gap) > error / 2 > 0.0005 else ""
    return f"Its probabilities are off by {percent(error)}{tendency} (expected calibration error, 15 equally wide bins)."


def _of_numbers(record: MistakesRecord) -> str:
    score = record.score
    return (
        f"Over {samples_text(record)} the error of {record.target_name} is {quantity_text(score.rmse or 0.0)} (RMSE) or "
        f"{quantity_text(record.mae or 0.0)} (MAE, the mean absolute error); guessing the mean of the training samples gives "
        f"{quantity_text(record.baseline_rmse or 0.0)} and {quantity_text(record.baseline_mae or 0.0)}. The network explains "
        f"{percent(score.r2 or 0.0)} of the variance (R²), and its largest error is {quantity_text(record.largest_error or 0.0)}."
    )


def worst_note(record: MistakesRecord) -> str:
    """Explain how the worst mistakes are chosen and what they are called."""
    if not record.worst:
        return f"There are no mistakes among the {samples_text(record)}."
    chosen = "Wrong predictions with the highest probability" if record.classes else "The largest errors"
    number = f"{PART_NAMES[record.part]} data, the worst first"
    rows = "; rows are counted from 1, without the header" if record.worst[0].name.startswith("row ") else ""
    return f"{chosen} on the {number}{rows}."


def worst_as_html(record: MistakesRecord) -> str:
    """Return the worst mistakes as HTML: pictures with true and predicted class, or a table; empty if there are none."""
    if not record.worst:
        return ""
    if len(record.pictures):
        return thumbnails([(picture, one.name, _lines(one)) for picture, one in zip(record.pictures, record.worst, strict=True)])
    if record.classes:
        rows = [[one.name, one.true or "", one.predicted or "", percent(one.probability or 0.0)] for one in record.worst]
        return table(["", "true class", "predicted", "probability"], rows)
    rows = [
        [one.name, *map(quantity_text, (one.target or 0.0, one.prediction or 0.0, (one.prediction or 0.0) - (one.target or 0.0)))]
        for one in record.worst
    ]
    return table(["", f"true {record.target_name}", "predicted", "error"], rows)


def _lines(one: Mistake) -> list[str]:
    """Return what stands below the picture of a mistake."""
    if one.true is None:
        return [f"true {quantity_text(one.target or 0.0)}", f"predicted {quantity_text(one.prediction or 0.0)}", one.name]
    return [f"true: {one.true}", f"predicted: {one.predicted}, {percent(one.probability or 0.0)}", one.name]
