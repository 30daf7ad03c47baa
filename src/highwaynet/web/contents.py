"""What a page holds: the network of a run with its mean gates and idle layers, some samples, and how an input is given."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from highwaynet.analysis.closing import closing, exchangeable, score_routes
from highwaynet.analysis.collect import Study
from highwaynet.analysis.watching import mean_over_places, streamed
from highwaynet.base.errors import InputError
from highwaynet.data.dataset import Dataset, Split
from highwaynet.data.preprocessing import Preprocessing
from highwaynet.data.tables import TableEncoder
from highwaynet.layers.lesion import count_layers
from highwaynet.networks.build import count_parameters
from highwaynet.networks.description import describe_plan
from highwaynet.training.evaluation import evaluate
from highwaynet.web.lowering import StepValues, Weights, lowered

MOST_OFFSET = 1e4
"""Largest mean of a feature in the page, in standard deviations: float32 has seven digits."""
MOST_NUMBERS = 5_000_000
"""Limit for the weights of a network, with the statistics of its preprocessing: about 27 MB in the page."""
MOST_MULTIPLY_ADDS = 1_500_000_000
"""Limit for the multiply-adds of one answer: one to two seconds in the browser."""
EFFORT = 15e9
"""Multiply-adds that may be spent on the mean gates, and as many on the idle layers."""
IDLE_LOSS = 0.5
"""Idle layers are those that can be closed together for at most this fall of the accuracy (or R²), in percentage points."""


@dataclass(frozen=True)
class Contents:
    """The part of a page for one network."""

    facts: dict[str, Any]
    """Description, as values for JSON."""
    numbers: bytes
    """Weights and means, as float32 numbers."""


def network_contents(study: Study, samples: int) -> Contents:
    """Collect what the page needs of a network.

    Args:
        study: The run.
        samples: How many samples the page holds.

    Raises:
        InputError: If the network is too large for a page, or has layers that the page cannot compute.
    """
    network, weights = study.network, Weights()
    if study.data.preparation.record.target_means:
        raise InputError("the page shows one number for a sample, and the network predicts several; it cannot be explored")
    _refuse_offsets(study.data.preparation.preprocessing)
    work = _check_size(study)
    steps = lowered(network, weights)
    preprocessing = preprocessing_steps(study.data.preparation.preprocessing, weights)
    rows = network_rows(steps)
    columns = max(row["width"] for row in rows)
    means = _means(study, rows, columns, weights, work)
    return Contents(
        {
            "title": study.title,
            "run": study.run.path.resolve().name,
            "kind": study.spec.network.kind,
            "parameters": count_parameters(network),
            "steps": steps,
            "rows": rows,
            "columns": columns,
            "inputs": math.prod(study.data.preparation.record.input_shape),  # of a raw sample: bins come later
            "groups": exchangeable(network),
            "idle": _idle(study, work),
            "intact": evaluate(network, chosen_samples(study.data, samples)[1]).accuracy,
            "preprocessing": preprocessing,
            **means,
        },
        weights.packed(),
    )


def _check_size(study: Study) -> int:
    """Return the multiply-adds of one answer; raises InputError if the network or its preprocessing is too large for a page."""
    plan = study.network.plan
    table = describe_plan(plan)
    statistics = sum(value.numel() for value in study.data.preparation.preprocessing.state.values())
    numbers = sum(value.numel() for value in study.network.state_dict().values())
    way = "explore a smaller network, for instance one that `highway shrink` made of it"
    if numbers > MOST_NUMBERS:
        raise InputError(
            f"{study.run.path}: {plan.name} has {numbers:,} weights, {_megabytes(numbers)} in a page; the limit is {MOST_NUMBERS:,}: {way}"
        )
    if numbers + statistics > MOST_NUMBERS:
        raise InputError(
            f"{study.run.path}: its preprocessing has {statistics:,} numbers, {_megabytes(statistics)} in a page; the limit is "
            f"{MOST_NUMBERS:,}: explore a run with other data.preprocessing, for instance standardise instead of zca"
        )
    if table.multiply_adds > MOST_MULTIPLY_ADDS:
        raise InputError(
            f"{study.run.path}: an answer of {plan.name} takes {table.multiply_adds:,} multiply-adds, too slow in a browser; the limit is "
            f"{MOST_MULTIPLY_ADDS:,}: {way}, or use smaller images (data.resize)"
        )
    return table.multiply_adds


def _megabytes(numbers: int) -> str:
    return f"{numbers * 4 * 4 / 3 / 1e6:,.0f} MB"


def network_rows(steps: Sequence[StepValues]) -> list[dict[str, Any]]:
    """Describe the rows of the maps: the layers before the outputs. The number of its row is added to each step."""
    rows: list[dict[str, Any]] = []
    closable = any("number" in step for step in steps)
    for place, step in enumerate(steps):
        if step["head"] or ("w" not in step and step["op"] != "residual-conv"):
            continue
        kind = {"highway-conv": "highway", "residual-conv": "residual"}.get(step["op"], "plain")
        kind = step["op"] if step["op"] in {"highway", "residual", "lstm"} else kind
        kind = "maxout" if step.get("pieces", 1) > 1 else "affine" if step.get("affine") else kind
        number = step.get("number", None if closable else len(rows) + 1)
        step["row"] = len(rows)
        places = math.prod(step["out"][1:])
        rows.append(
            {"step": place, "number": number, "kind": kind, "width": step["out"][0], "places": places, "gated": kind in {"highway", "lstm"}}
        )
    return rows


def _refuse_offsets(fitted: Preprocessing) -> None:
    """Raise InputError if the differences of a feature are lost in float32, in which the page computes."""
    if "standardise.mean" not in fitted.state:
        return
    means = fitted.state["standardise.mean"].double().flatten()
    spread = 1 / fitted.state["standardise.inverse_std"].double().flatten()
    if (far := means.abs() > MOST_OFFSET * spread).any():
        place = int(far.int().argmax())
        raise InputError(
            f"feature {place + 1} has values around {means[place]:g} that differ by about {spread[place]:g}, which the page cannot tell "
            "apart, because its numbers are float32: subtract an offset from the data and train again"
        )


def preprocessing_steps(fitted: Preprocessing, weights: Weights) -> list[dict[str, Any]]:
    """Return the steps of a preprocessing with their settings, and add their statistics."""
    steps: list[dict[str, Any]] = []
    for name in fitted.steps:
        step: dict[str, Any] = {"name": name}
        if name == "scale":
            step["factor"] = 1.0 / fitted.full_scale
        elif name == "piecewise":
            step |= {"feature": fitted.state["piecewise.feature"].tolist(), "low": weights.add(fitted.state["piecewise.low"])}
            step["factor"] = weights.add(fitted.state["piecewise.inverse_width"])
        elif name != "gcn":
            mean = fitted.state[f"{name}.mean"]
            step |= {"mean": weights.add(mean), "count": mean.numel()}
            if name == "standardise":
                step["factor"] = weights.add(fitted.state["standardise.inverse_std"])
            elif name == "zca":
                step["matrix"] = weights.add(fitted.state["zca.matrix"])
        steps.append(step)
    return steps


def _budgeted(split: Split, work: int, passes: int, most: int) -> Split:
    return split.spread(max(40, min(most, int(EFFORT / work / max(passes, 1)))))


def _means(study: Study, rows: Sequence[dict[str, Any]], columns: int, weights: Weights, work: int) -> dict[str, Any]:
    """Add mean and deviation of the gates, and mean outputs, (rows, columns) each; NaN for rows without gates and beyond the width."""
    split = _budgeted(study.data.train, work, 1, 1000)
    seen = streamed(study.network, split, ["transform", "output"], mean_over_places)
    head = set(study.network.get_submodule(study.network.head_name).modules())
    layers = [layer for layer in seen.layers if "output" in layer and layer.module not in head]  # companions do not run
    gates, spread, outputs = (torch.full((len(rows), columns), math.nan) for _ in range(3))
    places = [place for place, row in enumerate(rows) if row["kind"] != "affine"]  # these are not observed
    for place, layer in zip(places, layers, strict=True):
        width = rows[place]["width"]
        outputs[place, :width] = layer["output"].mean.float()
        if "transform" in layer:
            gates[place, :width] = layer["transform"].mean.float()
            spread[place, :width] = layer["transform"].variance.sqrt().float()
    return {
        "meanGates": weights.add(gates),
        "gateSpread": weights.add(spread),
        "meanOutputs": weights.add(outputs),
        "meanSamples": len(split),
    }


def _idle(study: Study, work: int) -> list[int]:
    """Return layers that can be closed together at almost no loss: those that matter least alone, as many as possible."""
    count = count_layers(study.network)
    if not count:
        return []
    split = _budgeted(study.data.validation or study.data.train, work, 2 * count, 1000)
    alone = score_routes(study.network, split, [closing(count, {number}) for number in range(1, count + 1)])
    order = sorted(range(1, count + 1), key=lambda number: alone[closing(count, {number})].loss)
    sets = [closing(count, set(order[:size])) for size in range(count + 1)]
    scores = score_routes(study.network, split, sets)
    intact = scores[sets[0]].percent
    size = max((size for size, route in enumerate(sets) if scores[route].percent >= intact - IDLE_LOSS), default=0)
    return sorted(order[:size])


# ----- Samples


def chosen_samples(data: Dataset, count: int) -> tuple[str, Split]:
    """Choose samples of the test part (or, if it is empty, of another one), as many of each class as possible; return its name too."""
    part, split = next(((name, one) for name in ("test", "validation", "train") if (one := _part(data, name)) and len(one)), ("", None))
    if split is None:
        raise InputError(f"{data.name} has no samples")
    return part, replace(split, rows=split.rows[_chosen(split, count, len(data.preparation.record.class_names))])


def sample_contents(data: Dataset, count: int) -> tuple[dict[str, Any], bytes]:
    """Return the description of some samples, and their raw values as bytes."""
    part, split = chosen_samples(data, count)
    inputs, targets = split.inputs[split.rows], split.targets[split.rows]
    small = inputs.dtype == torch.uint8
    values = inputs.numpy() if small else inputs.to(torch.float32).numpy().astype("<f4")
    facts = {
        "part": part,
        "count": len(split),
        "bytes": 1 if small else 4,
        "targets": targets.tolist(),
        "names": [split.name(place) for place in range(len(split))],
    }
    return facts, np.ascontiguousarray(values).tobytes()


def _part(data: Dataset, name: str) -> Split | None:
    split: Split | None = getattr(data, name)
    return split


def _spaced(values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return values[np.arange(count) * len(values) // max(count, 1)]


def _chosen(split: Split, count: int, classes: int) -> NDArray[np.int64]:
    """Return places in the part: in turn one of each class, evenly spaced within the class; without classes evenly spaced."""
    total = min(count, len(split))
    if not classes:
        return _spaced(np.arange(len(split)), total)
    targets = split.targets[split.rows].numpy()
    places = [np.flatnonzero(targets == number) for number in range(classes)]
    each = next(size for size in range(total + 1) if sum(min(size, len(own)) for own in places) >= total)
    turns = [_spaced(own, min(each, len(own))) for own in places]
    rounds = [own[turn] for turn in range(each) for own in turns if turn < len(own)]
    return np.array(rounds[:total], dtype=np.int64)


# ----- How an input is given


def input_contents(data: Dataset) -> dict[str, Any]:
    """Describe how the page takes an input: an image to draw, columns of a table, or features."""
    record = data.preparation.record
    facts: dict[str, Any] = {
        "kind": record.kind,
        "task": record.task,
        "shape": list(record.input_shape),
        "classes": list(record.class_names),
        "target": {"name": record.target_name, "mean": record.target_mean, "std": record.target_std},
        "fullScale": record.full_scale,
        "found": record.found,
    }
    split = data.train.spread(400)
    inputs = data.train.inputs[split.rows].to(torch.float32)
    if record.kind == "images" and len(record.input_shape) == 3 and record.input_shape[0] == 1:
        facts["ink"] = _ink(inputs[:, 0] / record.full_scale)
    if record.kind == "table":
        facts["columns"] = _columns(TableEncoder.from_json(record.encoder or {}), inputs)
    elif record.kind == "features":
        facts["columns"] = [
            {"kind": "feature", "name": f"feature {place + 1}", "start": place, "low": low, "high": high, "middle": middle}
            for place, (low, middle, high) in enumerate(_ranges(inputs))
        ]
    return facts


def _ranges(values: Tensor) -> list[tuple[float, ...]]:
    """Return the least, the median and the largest value of each feature."""
    flat = values.flatten(1)
    edges = torch.quantile(flat, torch.tensor([0.0, 0.5, 1.0]), dim=0).double()
    return [tuple(column) for column in edges.T.tolist()]


def _columns(encoder: TableEncoder, features: Tensor) -> list[dict[str, Any]]:
    """Describe the columns of a table: the feature at which each starts, its rule, and the range of its values."""
    columns, start, ranges = [], 0, _ranges(features)
    for rule in encoder.rules:
        column: dict[str, Any] = {"kind": rule.kind, "name": rule.name, "start": start, "gaps": rule.gaps}
        if rule.kind == "category":
            column["categories"] = list(rule.categories)
            common = features[:, start : start + len(rule.categories)].sum(dim=0)
            column["common"] = int(common.argmax())
        else:
            low, middle, high = (value * rule.std + rule.mean for value in ranges[start])
            column |= {"mean": rule.mean, "std": rule.std, "low": low, "high": high, "middle": middle}
            column["form"] = getattr(rule, "form", "number")
        start += len(rule.features)
        columns.append(column)
    return columns


def _ink(images: Tensor) -> dict[str, Any]:
    """Describe how strokes lie in grey images, (samples, height, width) from 0 to 1, so that a drawing can be placed alike."""
    edge = torch.cat([images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]], dim=1)
    bright = bool(edge.median() > 0.5)
    ink = (1 - images if bright else images).clamp(0, 1)
    height, width = ink.shape[1:]
    covered = ink > 0.25
    rows, columns = covered.any(dim=2).float(), covered.any(dim=1).float()
    tall, wide = rows.sum(dim=1), columns.sum(dim=1)
    mass = ink.sum(dim=(1, 2)).clamp(min=1e-6)
    by_mass = torch.stack([(ink.sum(dim=axis) * _middles(size)).sum(dim=1) / mass for axis, size in ((1, width), (2, height))])
    by_box = torch.stack([_box_middle(columns), _box_middle(rows)])  # (2, samples): across, down
    is_box = bool(by_box.std(dim=1).sum() < by_mass.std(dim=1).sum())
    across, down = (by_box if is_box else by_mass).mean(dim=1).tolist()
    return {
        "bright": bright,
        "size": float(torch.maximum(tall, wide).median()),
        "centre": "box" if is_box else "mass",
        "x": across,
        "y": down,
    }


def _middles(size: int) -> Tensor:
    return torch.arange(size) + 0.5


def _box_middle(covered: Tensor) -> Tensor:
    """Return the middle between the first and the last covered line of each sample, (samples,)."""
    size = covered.shape[1]
    first, last = covered.argmax(dim=1), size - 1 - covered.flip(1).argmax(dim=1)
    return (first + last + 1) / 2
