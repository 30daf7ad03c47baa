"""From raw samples to the inputs of the network as ONNX nodes: preprocessing steps, and the columns of a table."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.data.cells import BOOLEANS, GAP_CATEGORIES, MISSING, written_form
from highwaynet.data.preprocessing import Preprocessing
from highwaynet.data.tables import TableEncoder
from highwaynet.exporting.onnx_graph import OnnxGraph
from highwaynet.networks.plan import Shape

# --- Preprocessing steps: each is one function of graph, value (batch, *shape), shape and statistics. ---------------------------------


def write_preprocessing(preprocessing: Preprocessing, graph: OnnxGraph, x: str, shape: Shape, *, exact: bool = False) -> str:
    """Write all steps behind raw inputs (batch, *shape) of type float32, or float64 if they are `exact`.

    Raises:
        InputError: If a step has no ONNX form here.
    """
    dtype = np.float64 if exact else np.float32
    for step in preprocessing.steps:
        if step not in STEPS:
            raise InputError(f"the preprocessing step {step!r} cannot be exported to ONNX: export with --to torch or safetensors")
        state = {name.removeprefix(f"{step}."): value for name, value in preprocessing.state.items() if name.startswith(f"{step}.")}
        own = {name: _array(value, dtype) for name, value in (state | {"full_scale": torch.tensor(preprocessing.full_scale)}).items()}
        x = STEPS[step](graph, x, shape, own)
    return x


Statistics = Mapping[str, NDArray[Any]]
"""Statistics of a step by name, of the type of the values; indices are int64."""


def _scale(graph: OnnxGraph, x: str, shape: Shape, state: Statistics) -> str:
    return str(graph.add("Mul", x, 1 / state["full_scale"]))


def _standardise(graph: OnnxGraph, x: str, shape: Shape, state: Statistics) -> str:
    return str(graph.add("Mul", graph.add("Sub", x, state["mean"]), state["inverse_std"]))


def _gcn(graph: OnnxGraph, x: str, shape: Shape, state: Statistics) -> str:
    axes = list(range(1, len(shape) + 1))
    centred = graph.add("Sub", x, graph.add("ReduceMean", x, axes=axes))
    variance = graph.add("ReduceMean", graph.add("Mul", centred, centred), axes=axes)
    return str(graph.add("Div", centred, graph.add("Max", graph.add("Sqrt", variance), np.float32(1e-8))))


def _mean_image(graph: OnnxGraph, x: str, shape: Shape, state: Statistics) -> str:
    return str(graph.add("Sub", x, state["mean"]))


def _zca(graph: OnnxGraph, x: str, shape: Shape, state: Statistics) -> str:
    flat = graph.add("Flatten", x, axis=1) if len(shape) > 1 else x
    white = graph.add("MatMul", graph.add("Sub", flat, state["mean"]), state["matrix"])
    return str(graph.add("Reshape", white, np.array([-1, *shape]))) if len(shape) > 1 else str(white)


def _piecewise(graph: OnnxGraph, x: str, shape: Shape, state: Statistics) -> str:
    """Write the features and, behind them, one for each bin, which rises from 0 to 1 in it."""
    chosen = graph.add("Gather", x, state["feature"], axis=1)
    risen = graph.add("Mul", graph.add("Sub", chosen, state["low"]), state["inverse_width"])
    return str(graph.add("Concat", x, graph.add("Clip", risen, *np.array([0, 1], state["low"].dtype)), axis=1))


STEPS: dict[str, Callable[[OnnxGraph, str, Shape, Statistics], str]] = {
    "scale": _scale,
    "standardise": _standardise,
    "gcn": _gcn,
    "mean-image": _mean_image,
    "zca": _zca,
    "piecewise": _piecewise,
}


def _array(tensor: Tensor, dtype: type[Any]) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array.astype(dtype if tensor.is_floating_point() else np.int64)


# --- Columns of a table: all rules of a kind are one function, since a few nodes on many columns are faster than many nodes. ----------

Feature = tuple[str, int]
"""A feature of the encoder: the name of its column, and its number among the features of that column, from 0."""
Block = tuple[str, list[Feature]]
"""Features in the graph, float32 (batch, features), and which ones they are."""


def write_table(encoder: TableEncoder, graph: OnnxGraph) -> str:
    """Add an input for each column that is used, in their order, and return the features, float32 (batch, features).

    Raises:
        InputError: If a rule has no ONNX form here.
    """
    by_kind: dict[str, list[Any]] = {}
    for rule in encoder.rules:
        kind, known = KINDS.get(rule.kind, ("", set()))
        if known != set(type(rule).model_fields):
            raise InputError(f"the column {rule.name!r} is encoded in a way that cannot be exported to ONNX: export with --to safetensors")
        graph.input(rule.name, "string" if kind == "category" else "float64")
        by_kind.setdefault(kind, []).append(rule)
    blocks = [block for kind, rules in by_kind.items() for block in WRITERS[kind](rules, graph)]
    made = [feature for _, features in blocks for feature in features]
    wanted = [(rule.name, number) for rule in encoder.rules for number in range(len(rule.features))]
    joined = blocks[0][0] if len(blocks) == 1 else graph.add("Concat", *(value for value, _ in blocks), axis=1)
    places = {feature: place for place, feature in enumerate(made)}
    return joined if made == wanted else str(graph.add("Gather", joined, np.array([places[feature] for feature in wanted]), axis=1))


def _write_numbers(rules: list[Any], graph: OnnxGraph) -> list[Block]:
    """Write (value − mean) / std, in float64 as in training, 0 for NaN; columns that had gaps in training also get a 1 there."""
    columns = [graph.add("Unsqueeze", rule.name, np.array([1])) for rule in rules]
    values = columns[0] if len(columns) == 1 else graph.add("Concat", *columns, axis=1)  # (batch, columns)
    gaps = graph.add("IsNaN", values)
    mean, std = (np.array([getattr(rule, name) for rule in rules], np.float64) for name in ("mean", "std"))
    scaled = graph.add("Where", gaps, np.float64(0), graph.add("Div", graph.add("Sub", values, mean), std))
    blocks: list[Block] = [(graph.cast(scaled, "float32"), [(rule.name, 0) for rule in rules])]
    told = [place for place, rule in enumerate(rules) if rule.gaps]
    if told:
        chosen = graph.cast(graph.add("Gather", gaps, np.array(told), axis=1), "float32")
        blocks.append((chosen, [(rules[place].name, 1) for place in told]))
    return blocks


def _write_categories(rules: list[Any], graph: OnnxGraph) -> list[Block]:
    """Write one feature for each category; the place behind the last one stands for gaps, and one more for unknown categories."""
    blocks: list[Block] = []
    for rule in rules:
        places, size = category_places(rule), len(rule.features)
        texts: dict[str, Any] = {"keys_strings": list(places), "values_int64s": list(places.values()), "default_int64": size}
        found = graph.add("LabelEncoder", rule.name, domain="ai.onnx.ml", **texts)
        value = graph.add("OneHot", found, np.array(size), np.array([0, 1], np.float32), axis=1)
        blocks.append((value, [(rule.name, number) for number in range(size)]))
    return blocks


def category_places(rule: Any) -> dict[str, int]:
    """Return the feature of a category column that each text sets to 1: categories in all the forms that files have them in, and gaps."""
    places = {category: place for place, category in enumerate(rule.categories)}
    for category, place in list(places.items()):
        if category.lstrip("-").isdecimal() and written_form(float(category)) == category:
            places.setdefault(f"{category}.0", place)  # if a column has gaps, pandas writes the code 1 as 1.0
    for written, category in BOOLEANS.items():
        if category in places:
            places[written] = places[category]
    if rule.gaps:
        for word in sorted(MISSING | GAP_CATEGORIES):
            places.setdefault(word, len(rule.categories))
    return places


WRITERS: dict[str, Callable[[list[Any], OnnxGraph], list[Block]]] = {"number": _write_numbers, "category": _write_categories}
KINDS: dict[str, tuple[str, set[str]]] = {
    "number": ("number", {"kind", "name", "mean", "std", "gaps", "written", "strays"}),
    "date": ("number", {"kind", "name", "form", "assumed", "mean", "std", "gaps", "strays"}),
    "category": ("category", {"kind", "name", "categories", "gaps"}),
}
"""By kind of rule: which function writes it, and the fields of rules that this function knows; a rule with other fields is refused."""
