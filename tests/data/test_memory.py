"""Data from memory: the same samples as from files, and one sentence for what cannot be trained on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from highwaynet import DataSpec, InputError, load_dataset
from highwaynet.data.memory import as_table

RANDOM = np.random.default_rng(0)
FEATURES = RANDOM.normal(size=(40, 3)).astype(np.float32)
CLASSES = np.array([0, 1, 2, 1] * 10)
COLUMNS: dict[str, Any] = {
    "size": np.linspace(1, 5, 40),
    "colour": ["red", "blue", None, "red"] * 10,
    "price": np.linspace(10, 20, 40),
}


class Frame:
    """As much of a data frame as is asked of one."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def to_dict(self) -> dict[str, Any]:
        return self._columns


def same(one: Any, two: Any) -> None:
    """Two data sets are alike: samples, division, statistics, fingerprint."""
    records = [data.preparation.record.model_copy(update={"label_kind": "text"}) for data in (one, two)]
    assert records[0] == records[1]
    for part in ("train", "validation", "test"):
        assert torch.equal(one.part(part).rows, two.part(part).rows)
        for mine, other in zip(one.part(part).batches(100), two.part(part).batches(100), strict=True):
            assert torch.equal(mine[0], other[0])
            assert torch.equal(mine[1], other[1])


@pytest.mark.parametrize(
    "form",
    [
        lambda x, y: (x, y),
        lambda x, y: [torch.from_numpy(x), torch.from_numpy(y)],
        lambda x, y: {"x": x, "y": y.tolist()},
        lambda x, y: {"x_train": x, "y_train": y},
        lambda x, y: (x, [str(label) for label in y]),
        lambda x, y: (torch.from_numpy(x).requires_grad_(), np.eye(3)[y]),
    ],
)
def test_arrays_are_the_same_as_from_a_file(form: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=FEATURES, y=CLASSES)
    same(load_dataset(str(tmp_path / "data.npz")), load_dataset(data=form(FEATURES, CLASSES)))


def test_float64_is_the_same_from_a_file_and_from_lists(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=FEATURES.astype(np.float64), y=CLASSES)
    found = load_dataset(str(tmp_path / "data.npz"))
    same(found, load_dataset(data=(FEATURES.tolist(), CLASSES.tolist())))
    assert found.preparation.record.exact


def test_a_frame_is_the_same_as_a_csv_file(tmp_path: Path) -> None:
    rows = zip(*COLUMNS.values(), strict=True)
    lines = [",".join(COLUMNS), *(",".join("" if cell is None else str(cell) for cell in row) for row in rows)]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    spec = DataSpec(name=str(tmp_path / "data.csv"), target="price")
    from_file, memory = load_dataset(spec), DataSpec(name="memory", target="price")
    for data in (COLUMNS, Frame(COLUMNS), {name: list(values) for name, values in COLUMNS.items()}):
        loaded = load_dataset(memory, data=data)
        assert loaded.preparation.record.input_shape == from_file.preparation.record.input_shape
        assert loaded.preparation.record.task == "regression"
        for mine, other in zip(loaded.train.batches(100), from_file.train.batches(100), strict=True):
            torch.testing.assert_close(mine, other)


def test_a_frame_with_its_target() -> None:
    named = load_dataset(data=(Frame(COLUMNS), "price"))
    same(named, load_dataset(DataSpec(name="memory", target="price"), data=COLUMNS))
    rest = {name: values for name, values in COLUMNS.items() if name != "price"}
    apart = load_dataset(data=(Frame(rest), COLUMNS["price"]))
    assert apart.preparation.record.target_name == "target"
    assert torch.equal(apart.train.targets, named.train.targets)
    with pytest.raises(InputError, match="the data frame has 40 rows and the target has 39"):
        load_dataset(data=(Frame(rest), COLUMNS["price"][:-1]))
    with pytest.raises(InputError, match="a column 'target', which is also the name of the target"):
        load_dataset(data=(Frame(rest | {"target": COLUMNS["size"]}), COLUMNS["price"]))
    with pytest.raises(InputError, match="the data were given with the target 'price'"):
        load_dataset(DataSpec(name="memory", target="size"), data=(Frame(COLUMNS), "price"))


def test_frames_of_libraries() -> None:
    arrow = pytest.importorskip("pyarrow")
    table = as_table(arrow.table({name: list(values) for name, values in COLUMNS.items()}))
    assert [(column.name, column.kind) for column in table.columns] == [("size", "number"), ("colour", "category"), ("price", "number")]
    assert table.columns[1].missing().sum() == 10


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    expected = load_dataset(data=(COLUMNS, "price"))
    same(load_dataset(data=(frame, "price")), expected)
    frame["colour"] = frame["colour"].astype("category")
    same(load_dataset(data=(frame, "price")), expected)
    frame["age"] = pandas.array([1, None, 3, 4] * 10, dtype="Int64")
    frame["seen"] = pandas.to_datetime(["2026-01-01", None, "2026-01-02", "2026-01-03"] * 10)
    apart = load_dataset(data=(frame.drop(columns="price"), frame["price"]))
    assert apart.preparation.record.target_name == "price"
    rules = {rule["name"]: rule for rule in apart.preparation.record.encoder["columns"]}
    assert rules["age"]["kind"] == "number"
    assert rules["age"]["gaps"]
    days = [20454, 20455, 20456]  # from 1970 to 1 January 2026, and so on
    assert (rules["seen"]["kind"], rules["seen"]["form"], rules["seen"]["gaps"]) == ("date", "year first", True)
    assert min(days) < rules["seen"]["mean"] < max(days)


def test_images_and_a_test_part() -> None:
    images = RANDOM.integers(0, 256, (30, 8, 8), dtype=np.uint8)
    data = load_dataset(data=(images, CLASSES[:30], images[:6], CLASSES[:6]))
    record = data.preparation.record
    assert (record.kind, record.input_shape, record.full_scale) == ("images", (1, 8, 8), 255.0)
    assert (record.train + record.validation, record.test) == (30, 6)
    assert load_dataset(data=(torch.rand(30, 3, 8, 8), CLASSES[:30])).preparation.record.input_shape == (3, 8, 8)


def test_the_range_of_pixels_is_that_of_the_data() -> None:
    for most, scale in ((1.0, 1.0), (16.0, 16.0), (255.0, 255.0), (200.0, 255.0), (4000.0, 4000.0)):
        images = np.zeros((30, 4, 4), np.float32)
        images[0] = most
        assert load_dataset(data=(images, CLASSES[:30])).preparation.record.full_scale == scale


def test_labels_keep_their_kind() -> None:
    kinds = {"whole number": CLASSES, "truth value": CLASSES > 0, "text": CLASSES.astype(str)}
    for kind, labels in kinds.items():
        assert load_dataset(data=(FEATURES, labels)).preparation.record.label_kind == kind
    assert load_dataset(data=(COLUMNS | {"class": CLASSES}, "class")).preparation.record.label_kind == "whole number"


def test_settings_of_own_data_need_no_name() -> None:
    assert DataSpec(test=0.3).name == "memory"
    assert load_dataset(DataSpec(test=0.3), data=(FEATURES, CLASSES)).preparation.record.test == 12
    with pytest.raises(InputError, match="pass them in Python, with data="):
        load_dataset(DataSpec(task="regression"))


def test_columns_that_are_none() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    same(
        load_dataset(data=(frame.drop(columns="price"), frame["price"])), load_dataset(data=(frame.drop(columns="price"), frame[["price"]]))
    )
    for data, sentence in (
        ((frame, frame[["price", "size"]]), "the target has 2 columns"),
        ((frame.drop(columns="price"), frame["price"].sample(frac=1, random_state=0)), "the target has another index than the data frame"),
        ((frame, None), "name the column of the data frame to predict"),
        (({"a": 5, "b": [1, 2]}, "b"), "the column 'a' is a int; give a list of values"),
        (({"a": np.zeros((2, 2)), "b": [1, 2]}, "b"), "the column 'a' has shape (2, 2)"),
        ((torch.eye(3).to_sparse(), [0, 1, 2]), "inputs: a Tensor of this kind cannot be converted to an array"),
        ((FEATURES, np.linspace(0, 1, 40) * 1e300), "give it in another unit"),
    ):
        with pytest.raises(InputError) as error:
            load_dataset(data=data)
        assert sentence in str(error.value)


def test_bfloat16_and_regression() -> None:
    data = load_dataset(data=(torch.rand(30, 4).bfloat16(), torch.rand(30)))
    assert data.preparation.record.task == "regression"
    assert (
        load_dataset(DataSpec(name="memory", task="classification"), data=(FEATURES, CLASSES.astype(float))).preparation.record.outputs == 3
    )


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ((FEATURES, CLASSES[:-1]), "inputs has 40 samples and targets has 39: the numbers must be equal"),
        ((np.where(FEATURES > 1, np.nan, FEATURES), CLASSES), "inputs has a value that is not a finite float32 number in row"),
        ((FEATURES, np.where(CLASSES > 1, np.nan, 0.5)), "targets is not a finite float32 number in 10 of its 40 rows"),
        (([[1.0, 2.0], [3.0]], [0, 1]), "inputs: rows of different lengths cannot be converted to an array"),
        ((FEATURES.astype(complex), CLASSES), "inputs has elements of type complex128"),
        ((FEATURES[:0], CLASSES[:0]), "inputs has shape (0, 3): at least one sample"),
        ((FEATURES, np.zeros(40, int)), "targets has only the class 0"),
        ((FEATURES[:, 0], CLASSES), "inputs has shape (40,)"),
        (FEATURES, "data of type ndarray: give a pair (inputs, targets)"),
        ({"a": FEATURES, "b": CLASSES}, "data with the names 'a', 'b'"),
        (Frame(COLUMNS), "data: name the column of the data frame to predict, (frame, column); it has size, colour, price"),
        ((FEATURES, CLASSES, FEATURES), "data of type tuple"),
    ],
)
def test_what_cannot_be_trained_on(data: Any, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        load_dataset(data=data)
    assert sentence in str(error.value)


def test_tables_that_cannot_be_trained_on() -> None:
    spec = DataSpec(name="memory", target="price")
    with pytest.raises(InputError, match="columns of the same length"):
        load_dataset(spec, data=COLUMNS | {"size": [1.0]})
    with pytest.raises(InputError, match="two columns 'size'"):
        load_dataset(
            spec, data=type("Twice", (Frame,), {"columns": property(lambda self: ["size", "size"], lambda self, value: None)})(COLUMNS)
        )
    with pytest.raises(InputError, match="a table is needed"):
        load_dataset(spec, data=(FEATURES, CLASSES))
    with pytest.raises(InputError, match="wage"):
        load_dataset(DataSpec(name="memory", target="wage"), data=COLUMNS)


def test_a_name_and_data_contradict_each_other() -> None:
    with pytest.raises(InputError, match=r"data\.name = 'mnist': the data were given in memory"):
        load_dataset("mnist", data=(FEATURES, CLASSES))


def test_without_the_data_the_sentence_says_what_is_needed() -> None:
    data = load_dataset(data=(FEATURES, CLASSES))
    with pytest.raises(InputError, match=r"arrays of 40 samples of 3 values; 3 classes \(0, 1, 2\)\) were given in memory"):
        load_dataset(DataSpec(name="memory"), data.preparation)
    with pytest.raises(InputError, match="the data have changed since the run was trained"):
        load_dataset(DataSpec(name="memory"), data.preparation, data=(FEATURES + 1, CLASSES))
