"""Compares the answers of an exported file with our own, before the file gets its place."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import HighwayError
from highwaynet.exporting.made_up import made_up
from highwaynet.runs.model import TrainedModel

TOLERANCE = 1e-4
"""Largest difference of a probability, or of a number relative to the standard deviation of the target (or to the number)."""
MANY = {"dense": 256}
"""Samples of the larger batch by family of networks; `FEW` for others, whose samples take longer."""
FEW = 8

Answer = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]
"""A function that runs an exported file: arrays by name in, arrays by name out."""


def check_answers(model: TrainedModel, answer: Answer, name: str, *, tolerance: float = TOLERANCE) -> float:
    """Compare answers for one sample and for a batch, and return the largest difference; raises HighwayError if it is too large."""
    return max(_difference(model, answer, name, count, tolerance) for count in (1, MANY.get(model.network.plan.family, FEW)))


def _difference(model: TrainedModel, answer: Answer, name: str, count: int, tolerance: float) -> float:
    samples = made_up(model, count)
    found = answer(samples.given)
    if model.data.task == "regression":
        own = model.predict(samples.own)
        mean, std = map(np.asarray, model.data.target_scale)
        scale = std + np.abs(own - mean)
        difference = float((np.abs(found["prediction"] - own) / scale).max())
    else:
        own = model.predict_proba(samples.own)
        difference = float(np.abs(found["probabilities"] - own).max())
        _check_labels(model, own, found, name, tolerance)
    if not difference <= tolerance:  # also if it is NaN
        raise _differs(name, f"by {difference:.2g} for {count} samples; the limit is {tolerance:g}")
    return difference


def _check_labels(model: TrainedModel, own: NDArray[Any], found: Mapping[str, NDArray[Any]], name: str, tolerance: float) -> None:
    """Compare the labels of all samples but those whose two best classes are equally probable."""
    if "label" not in found:
        return
    *_, second, best = np.sort(own, axis=1).T
    clear = best - second > 2 * tolerance
    wrong = (found["label"] != model.classes[own.argmax(1)]) & clear
    if wrong.any():
        raise _differs(name, f"in the labels of {int(wrong.sum())} of {len(own)} samples")


def _differs(name: str, how: str) -> HighwayError:
    return HighwayError(f"{name} answers otherwise than the network, {how}: nothing was written; please report it")


def onnx_answer(content: bytes) -> Answer:
    """Return a function that runs an .onnx file with ONNX Runtime, on one thread; raises HighwayError if that is not installed."""
    try:
        import onnxruntime
    except ImportError as error:
        raise HighwayError("exporting to ONNX needs ONNX Runtime: install it with `pip install 'highwaynet[onnx]'`") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name.rstrip("_") for output in session.get_outputs()]  # as in `OnnxGraph.output`
    return lambda given: dict(zip(names, session.run(None, dict(given)), strict=True))
