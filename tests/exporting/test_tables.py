"""Tables as exported files: categories, dates and gaps, as text that only a reader of files knows, or as numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from exporting.made_models import model_of, shaken
from highwaynet import InputError, NetworkSpec, TrainedModel, build_network, export
from highwaynet.data.columns import recognise
from highwaynet.data.preprocessing import Preprocessing
from highwaynet.data.table_files import Table, table_of
from highwaynet.data.tables import TableEncoder
from highwaynet.exporting import onnx_inputs, torch_program
from highwaynet.exporting.checking import onnx_answer
from highwaynet.exporting.made_up import made_up
from highwaynet.exporting.onnx_graph import OnnxGraph
from highwaynet.exporting.onnx_inputs import write_preprocessing

ROWS: dict[str, list[Any]] = {
    "age": [31.5, None, 44.0, 1e6, 12.25, 7.0],
    "town": ["Ulm", "Bonn", None, "Ulm", "Köln", "Bonn"],
    "code": ["1", "2", "x", "1", "2", "1"],
    "flag": ["True", "false", "TRUE", "true", "False", "False"],
    "born": ["3.4.1999", "28.2.2001", "1.1.1970", None, "31.12.2020", "5.5.1955"],
    "hour": ["6:30", "23:59", "0:00", "12:00", "7:07", "18:45"],
    "price (€)": [0.001, 0.002, 0.0015, 0.003, 0.0025, 0.001],
}


def table_model(task: str = "classification", rows: dict[str, list[Any]] = ROWS) -> TrainedModel:
    table = table_of(rows)
    found = recognise(table, np.zeros(table.rows), "classification", rows=table.rows)
    encoder = TableEncoder.fit(table, found)
    size, outputs = len(encoder.feature_names), 3 if task == "classification" else 1
    network = build_network(NetworkSpec(name="fc-highway", depth=6, width=20), (size,), outputs, generator=torch.Generator().manual_seed(0))
    return model_of(shaken(network), task, "table", encoder=encoder.to_json(), input_shape=(size,))


def days(day: int, month: int, year: int) -> float:
    return float((np.datetime64(f"{year:04}-{month:02}-{day:02}") - np.datetime64("1970-01-01")).astype(int))


GIVEN = {
    "age": np.array([31.5, np.nan, 44.0, 1e6, 12.25, 7.0]),
    "town": np.array(["Ulm", "Bonn", "", "Ulm", "Köln", "Bonn"], dtype=object),
    "code": np.array(["1", "2.0", "x", "1.0", "2", "1"], dtype=object),
    "flag": np.array(ROWS["flag"], dtype=object),
    "born": np.array([days(3, 4, 1999), days(28, 2, 2001), 0, np.nan, days(31, 12, 2020), days(5, 5, 1955)]),
    "hour": np.array([6.5, 23 + 59 / 60, 0, 12, 7 + 7 / 60, 18.75]) / 24,
    "price (€)": np.array(ROWS["price (€)"]),
}


def test_the_columns_are_what_they_should_be() -> None:
    kinds = {rule.name: (rule.kind, rule.gaps) for rule in TableEncoder.from_json(table_model().data.encoder or {}).rules}
    assert kinds == {
        "age": ("number", True),
        "town": ("category", True),
        "code": ("category", False),
        "flag": ("category", False),
        "born": ("date", True),
        "hour": ("date", False),
        "price (€)": ("number", False),
    }


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_cells_of_a_file_and_what_the_exported_file_takes(task: str, tmp_path: Path) -> None:
    model = table_model(task)
    answer = onnx_answer(export(model, tmp_path / "file.onnx").path.read_bytes())
    found = answer(GIVEN)
    if task == "regression":
        np.testing.assert_allclose(found["prediction"], model.predict(ROWS), rtol=1e-6)
    else:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(ROWS), atol=1e-6)
        assert found["label"].tolist() == model.predict(ROWS).tolist()
    single = answer({name: values[1:2] for name, values in GIVEN.items()})
    for name, values in single.items():
        np.testing.assert_allclose(values, found[name][1:2], rtol=1e-5) if name != "label" else None
    samples = made_up(model, 1000, seed=3)
    expected = model.predict(samples.own) if task == "regression" else model.predict_proba(samples.own)
    got = answer(samples.given)["prediction" if task == "regression" else "probabilities"]
    scale = model.data.target_std if task == "regression" else 1.0
    assert np.abs(got - expected).max() < 1e-4 * scale


@pytest.mark.parametrize("gap", ["", "NA", "?", "None", "null", "n/a", "none"])
def test_gaps_and_unknown_categories(gap: str, tmp_path: Path) -> None:
    model = table_model()
    answer = onnx_answer(export(model, tmp_path / "file.onnx").path.read_bytes())
    given = GIVEN | {"town": np.array([gap] * 6, dtype=object), "code": np.array(["new"] * 6, dtype=object)}
    rows = ROWS | {"town": [gap] * 6, "code": ["new"] * 6}
    np.testing.assert_allclose(answer(given)["probabilities"], model.predict_proba(rows), atol=1e-6)


def test_a_column_with_the_name_of_an_output(tmp_path: Path) -> None:
    model = table_model(rows={"label": [1.0, 2.0, 3.0], "probabilities": ["a", "b", "a"]})
    path = export(model, tmp_path / "file.onnx").path
    graph = onnx.load(path).graph
    assert [value.name for value in graph.input] == ["label", "probabilities"]
    assert [value.name for value in graph.output] == ["label_", "probabilities_"]


def test_one_column(tmp_path: Path) -> None:
    for rows in ({"a": [1.0, 2.0, 4.0]}, {"a": ["x", "y", "x"]}, {"a": [1.0, None, 3.0]}):
        assert export(table_model(rows=rows), tmp_path / "file.onnx").difference < 1e-6


def test_the_torch_program_of_a_table(tmp_path: Path) -> None:
    model = table_model()
    path = export(model, tmp_path / "file.pt2", "torch").path
    facts = {torch_program.FACTS: ""}
    program = torch.export.load(path, extra_files=facts)
    told = json.loads(facts[torch_program.FACTS])
    assert told["categories"]["town"] == ["Bonn", "Köln", "Ulm"]
    assert "place in `categories`" in told["inputs"]["town"]
    codes = {"town": [2, 0, -1, 2, 1, 0], "code": [0, 1, 2, 0, 1, 0], "flag": [1, 0, 1, 1, 0, 0]}
    inputs = {name: torch.tensor(codes.get(name, values if name not in codes else None)) for name, values in GIVEN.items()}
    found = program.module()(inputs)
    np.testing.assert_allclose(found["probabilities"].detach().numpy(), model.predict_proba(ROWS), atol=1e-6)


@pytest.mark.parametrize("to", ["onnx", "torch"])
def test_an_unknown_encoding_is_named(to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(onnx_inputs.KINDS, "category", ("category", {"kind", "name", "categories", "gaps", "embedding"}))
    monkeypatch.setitem(torch_program.RULES, "category", (lambda rule, codes: codes, {"kind"}))
    with pytest.raises(InputError, match="the column 'town' is encoded in a way that cannot be exported to"):
        export(table_model(), tmp_path / "file", to)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_the_bins_of_a_piecewise_encoding() -> None:
    graph = OnnxGraph()
    state = {"feature": torch.tensor([0, 0, 1]), "low": torch.tensor([0.0, 1.0, -2.0]), "inverse_width": torch.tensor([1.0, 0.5, 0.25])}
    steps = Preprocessing(("piecewise",), 1.0, {f"piecewise.{name}": value for name, value in state.items()})  # type: ignore[arg-type]
    graph.output(write_preprocessing(steps, graph, graph.input("x", "float32", (2,)), (2,)), "y", "float32", (5,))
    found = onnx_answer(graph.serialised("bins", "", {}))({"x": np.array([[2, -1], [0.5, 9]], np.float32)})
    assert found["y"].tolist() == [[2, -1, 1, 0.5, 0.25], [0.5, 9, 0.5, 0, 1]]


def test_an_unknown_step_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(table_model().network, kind="features", preprocessing=("standardise",))
    monkeypatch.delitem(onnx_inputs.STEPS, "standardise")
    with pytest.raises(InputError, match="the preprocessing step 'standardise' cannot be exported to ONNX"):
        export(model, tmp_path / "file.onnx")


def test_made_up_rows_have_gaps_and_unknown_categories() -> None:
    table = made_up(table_model(), 200).own
    assert isinstance(table, Table)
    assert all(column.missing().any() for column in table.columns)
    assert "a category that is not in the training data" in table.column("town").values


def test_white_space_is_left_to_the_program_that_uses_the_file(tmp_path: Path) -> None:
    """Where tables are read it is removed; an exported file cannot do that, and says so."""
    model = table_model()
    exported = export(model, tmp_path / "file.onnx")
    assert exported.about["inputs"]["town"] == "category, string (batch) without white space around it; an empty text is a gap"
    spaced = [None if text is None else f"  {text}\t" for text in ROWS["town"]]
    np.testing.assert_array_equal(model.predict_proba(ROWS | {"town": spaced}), model.predict_proba(ROWS))
    answer = onnx_answer(exported.path.read_bytes())
    unknown = answer(GIVEN | {"town": np.array([f"  {text}" for text in GIVEN["town"]], dtype=object)})["probabilities"]
    np.testing.assert_allclose(unknown, model.predict_proba(ROWS | {"town": ["new"] * 6}), atol=1e-6)
    stripped = {"town": np.array([(text or "").strip() for text in spaced], dtype=object)}
    np.testing.assert_allclose(answer(GIVEN | stripped)["probabilities"], model.predict_proba(ROWS), atol=1e-6)
