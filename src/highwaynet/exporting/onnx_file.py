"""A trained model as one ONNX file: raw samples in, answers out."""

import json
from typing import Any

import numpy as np

from highwaynet.data.tables import TableEncoder
from highwaynet.exporting.onnx_graph import OnnxGraph
from highwaynet.exporting.onnx_inputs import write_preprocessing, write_table
from highwaynet.exporting.onnx_layers import write_network
from highwaynet.exporting.origin import Export, feature_type, pixel_type
from highwaynet.runs.model import TrainedModel


def onnx_file(export: Export) -> bytes:
    """Return the content of the .onnx file.

    Raises:
        InputError: If a part of the network or of its preparation has no ONNX form.
        HighwayError: If onnx is not installed, or the model is larger than 2 GiB.
    """
    model, graph = export.model, OnnxGraph()
    shape = tuple(model.data.input_shape)
    x = _raw(model, graph)
    exact = model.data.exact
    x = write_preprocessing(model.preparation.preprocessing, graph, x, shape, exact=exact)
    x = graph.cast(x, "float32") if exact else x
    outputs = write_network(model.network, graph, x)
    if model.data.task == "classification":
        _write_classes(model, graph, outputs)
    else:
        _write_number(model, graph, outputs)
    metadata = {name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in export.facts.items()}
    return graph.serialised(model.network.plan.name, export.sentence, metadata)


def _raw(model: TrainedModel, graph: OnnxGraph) -> str:
    """Add the inputs, and return them as float32 (batch, *input_shape), or float64 for features that need it."""
    data = model.data
    if data.kind == "table":
        return write_table(TableEncoder.from_json(data.encoder or {}), graph)
    if data.kind == "images":
        kind = pixel_type(data)
        pixels = graph.input("pixels", kind, data.input_shape)
        return pixels if kind == "float32" else graph.cast(pixels, "float32")
    return graph.input("features", feature_type(data), data.input_shape)


def _write_classes(model: TrainedModel, graph: OnnxGraph, logits: str) -> None:
    """Add the outputs `probabilities` (batch, classes) and `label` (batch,), whose type is that of the labels in the training data."""
    labels: Any = model.classes
    kind = {"i": "int64", "b": "bool"}.get(labels.dtype.kind, "string")
    constant = labels.astype(np.int64) if kind == "int64" else labels
    best = graph.add("ArgMax", logits, axis=1, keepdims=0)
    graph.output(graph.add("Gather", graph.constant(constant), best, axis=0), "label", kind)
    graph.output(graph.add("Softmax", logits, axis=1), "probabilities", "float32", (model.data.outputs,))


def _write_number(model: TrainedModel, graph: OnnxGraph, outputs: str) -> None:
    """Add the output `prediction`, float64 in the unit of the target: (batch,), or (batch, targets) if there are several."""
    mean, std = (np.asarray(value, np.float64) for value in model.data.target_scale)
    number = graph.add("Add", graph.add("Mul", graph.cast(outputs, "float64"), std), mean)
    if model.data.outputs == 1:
        number = graph.add("Squeeze", number, np.array([1]))
    graph.output(number, "prediction", "float64", () if model.data.outputs == 1 else (model.data.outputs,))
