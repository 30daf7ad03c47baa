"""Made-up raw samples that look like those of a run, to compare the answers of an exported file with our own."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.randomness import seed_for
from highwaynet.data.table_files import Column, Table
from highwaynet.data.tables import TableEncoder
from highwaynet.exporting.origin import feature_type, pixel_type
from highwaynet.runs.model import TrainedModel

GAPS = 0.1
"""Share of cells that are gaps, and of categories that are unknown."""
UNKNOWN = "a category that is not in the training data"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class MadeUp:
    """The same samples twice."""

    own: Any
    """As our model takes them."""
    given: dict[str, NDArray[Any]]
    """As exported files take them: by the name of the input; gaps are NaN or empty texts, dates are days since 1970."""


def made_up(model: TrainedModel, count: int, seed: int = 0) -> MadeUp:
    """Make samples up: pixels of any value, numbers around the training data, all categories, and some gaps."""
    data = model.data
    random = np.random.default_rng(seed_for(seed, "made-up", count))
    if data.kind == "table":
        return _rows(TableEncoder.from_json(data.encoder or {}), count, random)
    shape = (count, *data.input_shape)
    if data.kind == "images":
        whole = pixel_type(data) == "uint8"
        top = data.full_scale
        pixels = random.integers(0, int(top) + 1, shape, dtype=np.uint8) if whole else random.uniform(0, top, shape).astype(np.float32)
        if data.full_scale == 255 and not whole:
            pixels.reshape(-1)[0] = 255  # our model refuses pixels that look as if they were scaled to 1
        return MadeUp(pixels, {"pixels": pixels})
    state = model.preparation.preprocessing.state
    features = random.normal(size=shape)
    if "standardise.mean" in state:
        features = features / state["standardise.inverse_std"].double().numpy() + state["standardise.mean"].double().numpy()
    inputs = features.astype(feature_type(data))
    return MadeUp(inputs, {"features": inputs})


def _rows(encoder: TableEncoder, count: int, random: np.random.Generator) -> MadeUp:
    columns, given = [], {}
    for rule in encoder.rules:
        gaps = random.random(count) < GAPS
        if rule.kind == "category":
            texts = random.choice([*rule.categories, UNKNOWN], count).astype(object)
            texts[gaps] = None
            columns.append(Column(rule.name, "category", texts, fixed=True))
            given[rule.name] = np.array(["" if text is None else text for text in texts], dtype=object)
            continue
        values = random.normal(rule.mean, rule.std, count)
        if rule.kind == "date":
            written, values = _months(values) if rule.form == "month" else _dates(values, time=rule.form == "time")
            written[gaps] = None
            columns.append(Column(rule.name, "category", written))
        values[gaps] = np.nan
        given[rule.name] = values
        if rule.kind != "date":
            columns.append(Column(rule.name, "number", values))
    return MadeUp(Table(tuple(columns), count, "made-up rows"), given)


def _dates(days: NDArray[np.float64], *, time: bool) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return days as cells of a table, to the minute, and the same days as numbers; all forms but month and time read the year first."""
    latest = (datetime(9999, 1, 1, tzinfo=UTC) - EPOCH).days
    minutes = np.round(days * 1440) % 1440 if time else np.round(days.clip(-700_000, latest) * 1440)
    moments = [EPOCH + timedelta(minutes=float(number)) for number in minutes]
    cells = [f"{moment:%H:%M}" if time else f"{moment.year:04}-{moment:%m-%d %H:%M}" for moment in moments]
    return np.array(cells, dtype=object), minutes / 1440


def _months(days: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the months of days as cells of a table, and their first days as numbers."""
    firsts = [(EPOCH + timedelta(days=round(number))).replace(day=1) for number in days.clip(-700_000, 2_900_000).tolist()]
    cells = [f"{first.year:04}-{first:%m}" for first in firsts]
    return np.array(cells, dtype=object), np.array([float((first - EPOCH).days) for first in firsts])
