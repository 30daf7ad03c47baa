"""A trained model as a program of torch.export (.pt2): raw samples in, answers out. It needs torch, but nothing of this package."""

import io
import json
import warnings
from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.data.tables import TableEncoder
from highwaynet.exporting.checking import Answer, check_answers
from highwaynet.exporting.made_up import made_up
from highwaynet.exporting.names import FACTS
from highwaynet.exporting.origin import Export
from highwaynet.runs.model import TrainedModel

GAP, UNKNOWN = -1, -2
"""Codes of gaps and of unknown categories."""


class Answering(nn.Module):
    """Preprocessing, network and answer in one module: takes a dict of raw inputs by name, returns a dict of answers."""

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        self.network = model.network
        self.dtype = next(model.network.parameters()).dtype
        self.preprocessing = model.preparation.preprocessing
        self.record = model.data
        self.encoder = TableEncoder.from_json(self.record.encoder or {}) if self.record.kind == "table" else None
        for rule in self.encoder.rules if self.encoder else ():
            known_rule(rule)

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Map raw inputs to `probabilities` (batch, classes) and `number` (batch,), that of the class; or to `prediction` (batch,)."""
        if self.encoder is None:
            (raw,) = inputs.values()
        else:
            raw = torch.cat([known_rule(rule)(rule, inputs[rule.name]) for rule in self.encoder.rules], dim=1)
        outputs: Tensor = self.network(self.preprocessing.apply(raw).to(self.dtype))
        if self.record.task == "classification":
            return {"probabilities": outputs.softmax(1), "number": outputs.argmax(1)}
        mean, std = (torch.tensor(value, dtype=torch.float64) for value in self.record.target_scale)
        return {"prediction": (outputs if self.record.outputs > 1 else outputs[:, 0]).double() * std + mean}


def known_rule(rule: Any) -> Callable[[Any, Tensor], Tensor]:
    """Return the function that encodes a column; raises InputError if there is none."""
    known = RULES.get(rule.kind)
    if known is None or known[1] != set(type(rule).model_fields):
        raise InputError(f"the column {rule.name!r} is encoded in a way that cannot be exported to torch: export with --to safetensors")
    return known[0]


def _number(rule: Any, values: Tensor) -> Tensor:
    """Encode float64 numbers (batch,), NaN for gaps."""
    gaps = values.isnan()
    scaled = torch.where(gaps, 0.0, (values - rule.mean) / rule.std).float()
    return torch.stack([scaled, gaps.float()] if rule.gaps else [scaled], dim=1)


def _category(rule: Any, codes: Tensor) -> Tensor:
    """Encode int64 codes (batch,): the place of the category, GAP or UNKNOWN."""
    places = torch.arange(len(rule.categories), device=codes.device)
    if rule.gaps:
        places = torch.cat([places, torch.full((1,), GAP, device=codes.device)])
    return (codes[:, None] == places).float()


RULES: dict[str, tuple[Callable[[Any, Tensor], Tensor], set[str]]] = {
    "number": (_number, {"kind", "name", "mean", "std", "gaps", "written", "strays"}),
    "date": (_number, {"kind", "name", "form", "assumed", "mean", "std", "gaps", "strays"}),
    "category": (_category, {"kind", "name", "categories", "gaps"}),
}
"""By kind of rule: the function that encodes its column, and the fields of rules that it knows."""


def torch_program(export: Export, name: str) -> tuple[bytes, float]:
    """Return the content of the .pt2 file, and the largest difference of its answers.

    Raises:
        InputError: If torch cannot export the network.
        HighwayError: If the answers differ.
    """
    model = export.model
    answering = Answering(model).eval()
    facts = export.facts | categories_of(answering.encoder)
    example = as_tensors(answering.encoder, made_up(model, 2).given)
    batch = torch.export.Dim("batch", min=1)
    try:
        with warnings.catch_warnings(action="ignore"), torch.no_grad():
            program = torch.export.export(answering, (example,), dynamic_shapes=({key: {0: batch} for key in example},), strict=False)
            program.example_inputs = None  # they would be stored as a pickle
            for node in program.graph.nodes:
                node.meta.pop("stack_trace", None)  # paths of this machine
            stored = io.BytesIO()
            torch.export.save(program, stored, extra_files={FACTS: json.dumps(facts, ensure_ascii=False)})
    except HighwayError:
        raise
    except Exception as error:  # torch.export raises errors of many types
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"torch.export cannot export this network ({reason}): export with --to onnx or safetensors") from error
    content = stored.getvalue()
    return content, check_answers(model, _answer(content, answering.encoder, model), name)


def categories_of(encoder: TableEncoder | None) -> dict[str, Any]:
    """Return the categories of each category column, whose places are the codes that the program takes."""
    if encoder is None:
        return {}
    return {"categories": {rule.name: list(rule.categories) for rule in encoder.rules if rule.kind == "category"}}


def as_tensors(encoder: TableEncoder | None, given: Any) -> dict[str, Tensor]:
    """Convert arrays by name to the tensors that the program takes; categories become codes."""
    categories = categories_of(encoder).get("categories", {})
    return {name: _codes(values, categories[name]) if name in categories else torch.from_numpy(values) for name, values in given.items()}


def _codes(texts: NDArray[Any], categories: list[str]) -> Tensor:
    places = {"": GAP} | {category: place for place, category in enumerate(categories)}
    return torch.tensor([places.get(text, UNKNOWN) for text in texts.tolist()])


def _answer(content: bytes, encoder: TableEncoder | None, model: TrainedModel) -> Answer:
    with warnings.catch_warnings(action="ignore"):
        module = torch.export.load(io.BytesIO(content)).module()

    def answer(given: Any) -> dict[str, NDArray[Any]]:
        with torch.no_grad():
            found = {name: value.numpy() for name, value in module(as_tensors(encoder, given)).items()}
        return found | ({"label": model.classes[found["number"]]} if "number" in found else {})

    return answer
