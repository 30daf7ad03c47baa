"""Arrays in .npz and .npy files: shapes, types, labels, mapping, and one sentence for every bad file."""

import io
import os
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from highwaynet.base.errors import InputError
from highwaynet.data import array_files
from highwaynet.data.array_files import read_arrays, stored_inputs

FUZZ = settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
X = np.arange(8, dtype=np.float32).reshape(4, 2)
Y = np.array([0, 1, 1, 0])


def read_inputs(path: Path) -> NDArray[Any]:
    """Inputs as training gets them."""
    return array_files._as_inputs(*stored_inputs(path))


def npz(folder: Path, **arrays: Any) -> Path:
    path = folder / "data.npz"
    np.savez_compressed(path, **arrays)
    return path


def npy_folder(folder: Path, **arrays: Any) -> Path:
    path = folder / "arrays"
    path.mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


def npy_bytes(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def header(text: str, version: bytes = b"\1\0", length: int | None = None) -> bytes:
    """The start of an .npy file with any header."""
    form = "<H" if version == b"\1\0" else "<I"
    return b"\x93NUMPY" + version + struct.pack(form, len(text) if length is None else length) + text.encode("latin1")


def zipped(path: Path, content: bytes, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("x.npy", content)
    return path


def refusal(path: Path, reader: Callable[..., Any] = read_arrays, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        reader(path, **options)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("store", [npz, npy_folder])
@pytest.mark.parametrize("names", array_files.PAIRS)
def test_every_pair_of_names(tmp_path: Path, store: Callable[..., Path], names: tuple[str, str]) -> None:
    data = read_arrays(store(tmp_path, **{names[0]: X, names[1]: Y}, something_else=np.zeros(3)))
    assert np.array_equal(data.train.inputs, X)
    assert data.train.inputs.dtype == np.float32
    assert data.train.targets.dtype == np.int64
    assert data.train.targets.tolist() == [0, 1, 1, 0]
    assert (data.test, data.task, data.class_names) == (None, "classification", ("0", "1"))


@pytest.mark.parametrize("store", [npz, npy_folder])
@pytest.mark.parametrize("names", array_files.QUADRUPLES)
def test_every_name_of_a_test_part(tmp_path: Path, store: Callable[..., Path], names: tuple[str, str, str, str]) -> None:
    data = read_arrays(store(tmp_path, **dict(zip(names, (X, Y + 5, X[:2] + 1, np.array([[6], [6]])), strict=True))))
    assert data.test is not None
    assert np.array_equal(data.test.inputs, X[:2] + 1)
    assert data.test.targets.tolist() == [1, 1]
    assert data.class_names == ("5", "6")
    (tmp_path / "no-test").mkdir()
    assert read_arrays(store(tmp_path / "no-test", **dict(zip(names, (X, Y), strict=False)))).test is None


def test_names_that_do_not_match_are_listed(tmp_path: Path) -> None:
    said = refusal(npz(tmp_path, x=X, z=Y))
    assert "no pair of inputs and targets among its arrays 'x', 'z': expected x and y, X and y, inputs and targets" in said
    assert "(there are none)" in refusal(npz(tmp_path))
    assert "and 10 more" in refusal(npz(tmp_path, **{f"a{i}": Y for i in range(30)}))
    assert "more than one set of samples among its arrays 'inputs', 'targets', 'x', 'y'" in refusal(
        npz(tmp_path, x=X, y=Y, inputs=X, targets=Y)
    )
    assert "has only x_test: a test part needs both x_test and y_test" in refusal(npz(tmp_path, x_train=X, y_train=Y, x_test=X))


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ((5, 7), (5, 7)),
        ((5, 6, 7), (5, 1, 6, 7)),
        ((5, 3, 6, 7), (5, 3, 6, 7)),
        ((5, 6, 7, 3), (5, 3, 6, 7)),
        ((5, 6, 7, 1), (5, 1, 6, 7)),
        ((5, 1, 6, 3), (5, 1, 6, 3)),
        ((5, 2, 6, 7), (5, 2, 6, 7)),
    ],
)
@pytest.mark.parametrize("mapped", [False, True])
def test_shapes(tmp_path: Path, stored: tuple[int, ...], expected: tuple[int, ...], mapped: bool) -> None:
    array = np.arange(np.prod(stored), dtype=np.uint8).reshape(stored)
    np.save(tmp_path / "x.npy", array)
    inputs = read_inputs(tmp_path / "x.npy" if mapped else npz(tmp_path, x=array))
    assert inputs.shape == expected
    assert inputs.dtype == np.uint8
    assert isinstance(inputs, np.memmap) == mapped
    if stored[1:] != expected[1:] and len(stored) == 4:
        array = np.moveaxis(array, 3, 1)
    assert np.array_equal(inputs, array.reshape(expected))


@pytest.mark.parametrize("shape", [(5,), (), (5, 2, 2, 2, 2), (0, 3), (5, 0), (0,)])
def test_other_shapes_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    said = refusal(npz(tmp_path, x=np.zeros(shape, np.float32)), read_inputs)
    assert f"shape {shape}" in said or "5 dimensions" in said


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint16", ">i4", "float16", "float64", ">f4", ">f8", "longdouble"])
def test_other_numbers_become_float32_or_float64(tmp_path: Path, dtype: str) -> None:
    """Features keep all their digits; images, which have few, become float32."""
    array = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    inputs = read_inputs(tmp_path / "x.npy")
    assert inputs.dtype == np.dtype(np.float64 if dtype in {"int64", ">i4", "float64", ">f8", "longdouble"} else np.float32)
    assert isinstance(inputs, np.memmap) == (dtype == "float64")
    assert inputs.tolist() == [[0, 1], [1, 0], [1, 1]]
    np.save(tmp_path / "x.npy", array[:, None])
    inputs = read_inputs(tmp_path / "x.npy")
    assert inputs.dtype == np.dtype(np.float32)
    assert not isinstance(inputs, np.memmap)


def test_what_needs_no_change_stays_mapped(tmp_path: Path) -> None:
    images = np.arange(96, dtype=np.uint8).reshape(4, 2, 4, 3)
    data = read_arrays(npy_folder(tmp_path, x_train=images, y_train=Y, x_test=images, y_test=Y))
    assert data.test is not None
    for samples in (data.train, data.test):
        assert isinstance(samples.inputs, np.memmap)
        assert not samples.inputs.flags.writeable
        assert np.array_equal(samples.inputs, images.transpose(0, 3, 1, 2))
    assert isinstance(read_arrays(npy_folder(tmp_path / "arrays", x=X, y=Y)).train.inputs, np.memmap)
    assert isinstance(read_inputs(tmp_path / "arrays" / "arrays"), np.memmap)


def test_fortran_order_is_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(X))
    inputs = read_inputs(tmp_path / "x.npy")
    assert not isinstance(inputs, np.memmap)
    assert inputs.flags.c_contiguous
    assert np.array_equal(inputs, X)


def test_a_set_larger_than_memory_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    with path.open("wb") as stream:
        stream.write(header("{'descr': '|u1', 'fortran_order': False, 'shape': (2097152, 3, 128, 128), }\n"))
        stream.truncate(stream.tell() + 2097152 * 3 * 128 * 128)  # 96 GiB with no block on the disk
    inputs = read_inputs(path)
    assert isinstance(inputs, np.memmap)
    assert inputs.shape == (2097152, 3, 128, 128)
    assert inputs[-1].sum() == 0


def test_a_conversion_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_files, "MOST_BYTES", 31)
    np.save(tmp_path / "x.npy", X.astype(np.int64))
    assert "float32 or uint8" in refusal(tmp_path / "x.npy", read_inputs)
    np.save(tmp_path / "x.npy", X)
    assert np.array_equal(read_inputs(tmp_path / "x.npy"), X)
    assert "the limit is" in refusal(npz(tmp_path, x=X), read_inputs)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("chunk", [1, 24, 2**24])
def test_inputs_must_be_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: float, dtype: type, chunk: int) -> None:
    monkeypatch.setattr(array_files, "CHUNK_BYTES", chunk)
    array = np.zeros((9, 2, 3), dtype)
    with np.errstate(over="ignore"):
        array[[7, 8], 1, 2] = np.float64(wrong).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    assert "not a finite float32 number in row 7 (counted from 0)" in refusal(tmp_path / "x.npy", read_inputs)


def test_inputs_and_targets_must_be_equally_many(tmp_path: Path) -> None:
    said = refusal(npz(tmp_path, x=X, y=Y[:3]))
    assert "x in " in said
    assert "has 4 samples and y in " in said
    assert "has 3: the numbers must be equal" in said
    assert "x_test in " in refusal(npz(tmp_path, x_train=X, y_train=Y, x_test=X, y_test=Y[:3]))


def test_the_test_part_must_be_like_the_training_part(tmp_path: Path) -> None:
    said = refusal(npz(tmp_path, x_train=X, y_train=Y, x_test=X[:, :1], y_test=Y))
    assert "float32 samples of shape (2,) and " in said
    assert "float32 samples of shape (1,): shape and type must be the same" in said
    assert "uint8 samples" in refusal(npz(tmp_path, x_train=X, y_train=Y, x_test=X.astype(np.uint8), y_test=Y))


@pytest.mark.parametrize(
    ("stored", "targets", "names"),
    [
        (np.array([7, -2, 7, 100]), [1, 0, 1, 2], ("-2", "7", "100")),
        (np.array([[7], [-2], [7], [7]], np.int8), [1, 0, 1, 1], ("-2", "7")),
        (np.array([True, False, False, True]), [1, 0, 0, 1], ("False", "True")),
        (np.array([2**64 - 1, 0, 1, 2**64 - 1], np.uint64), [2, 0, 1, 2], ("0", "1", str(2**64 - 1))),
        (np.array(["dog", "cat", "ähre", "cat"]), [1, 0, 2, 0], ("cat", "dog", "ähre")),
        (np.array(["dog", "cat", "ähre", "cat"], ">U4"), [1, 0, 2, 0], ("cat", "dog", "ähre")),
        (np.array([b"dog", b"cat", "ähre".encode(), b"cat"]), [1, 0, 2, 0], ("cat", "dog", "ähre")),
        (np.eye(3)[[2, 0, 1, 2]], [2, 0, 1, 2], ("0", "1", "2")),
        (np.eye(3, dtype=np.int64)[[2, 0, 0, 2]], [1, 0, 0, 1], ("0", "2")),
        (np.eye(2, dtype=bool)[[1, 0, 0, 1]], [1, 0, 0, 1], ("0", "1")),
    ],
)
def test_classes(tmp_path: Path, stored: np.ndarray, targets: list[int], names: tuple[str, ...]) -> None:
    for path in (npz(tmp_path, x=X, y=stored), npy_folder(tmp_path, x=X, y=stored)):
        data = read_arrays(path)
        assert data.task == "classification"
        assert data.class_names == names
        assert data.train.targets.dtype == np.int64
        assert data.train.targets.tolist() == targets


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_floats_are_regressed_on(tmp_path: Path, dtype: type) -> None:
    data = read_arrays(npz(tmp_path, x=X, y=np.array([[0.5], [1], [-2], [3]], dtype)))
    assert (data.task, data.class_names) == ("regression", ())
    assert data.train.targets.dtype == np.float64
    assert data.train.targets.tolist() == [0.5, 1, -2, 3]


def test_the_task_can_be_chosen(tmp_path: Path) -> None:
    data = read_arrays(npz(tmp_path, x=X, y=np.array([5, 1, 1, 9])), task="regression")
    assert data.train.targets.dtype == np.float64
    assert (data.task, data.train.targets.tolist()) == ("regression", [5, 1, 1, 9])
    data = read_arrays(npz(tmp_path, x=X, y=np.array([5.0, 1, 1, 9])), task="classification")
    assert (data.train.targets.tolist(), data.class_names) == ([1, 0, 0, 2], ("1", "5", "9"))
    for wrong in (1.5, np.nan, np.inf, 1e300):
        said = refusal(npz(tmp_path, x=X, y=np.array([5, 1, wrong, 9])), task="classification")
        assert f"y in {tmp_path / 'data.npz'} has {wrong} in row 2" in said
    assert "contains strings: a regression needs numbers" in refusal(npz(tmp_path, x=X, y=np.array(list("abcd"))), task="regression")
    assert "expected one target per sample" in refusal(npz(tmp_path, x=X, y=np.eye(4)), task="regression")


def test_targets_to_predict_must_be_finite(tmp_path: Path) -> None:
    said = refusal(npz(tmp_path, x=X, y=np.array([1, np.nan, 2, np.inf])))
    assert "y in " in said
    assert "not a finite float32 number in 2 of its 4 rows, first in row 1 (counted from 0)" in said


@pytest.mark.parametrize(
    "wrong", [np.ones((4, 2)), np.zeros((4, 2), int), np.eye(4) * 2, np.eye(4) * np.nan, np.zeros((4, 1, 1)), [["a", "b"]] * 4]
)
def test_other_targets_are_refused(tmp_path: Path, wrong: Any) -> None:
    assert "expected one target per sample" in refusal(npz(tmp_path, x=X, y=np.array(wrong)))


def test_classes_must_be_several_known_and_not_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has only the class 3: at least two" in refusal(npz(tmp_path, x=X, y=np.full(4, 3)))
    said = refusal(npz(tmp_path, x_train=X, y_train=Y, x_test=X, y_test=Y + 1))
    assert "y_test in " in said
    assert "has the class 2, which does not occur in y_train in " in said
    assert "has the class '0', which" in refusal(npz(tmp_path, x_train=X, y_train=Y, x_test=X, y_test=Y.astype(str)))
    many = np.arange(10_001)
    said = refusal(npz(tmp_path, x=many[:, None], y=many))
    assert "more than 10,000 different values, which are too many for classes: if it is a number to predict, save it as floats" in said
    assert "use fewer different labels" in refusal(npz(tmp_path, x=many[:, None], y=many.astype(str)))
    assert len(read_arrays(npz(tmp_path, x=many[1:, None], y=many[1:])).class_names) == 10_000


@pytest.mark.parametrize("labels", [np.array([b"\xff", b"a", b"a", b"a"]), np.array(["\udc80", "a", "a", "a"]), "beyond"])
def test_labels_that_are_not_unicode_are_refused(tmp_path: Path, labels: Any) -> None:
    if isinstance(labels, str):
        labels = np.array([2**31 - 1, 97, 97, 97], np.uint32).view("<U1")
    assert "y.npy is damaged" in refusal(npy_folder(tmp_path, x=X, y=labels))


def test_pickles_are_not_executed(tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    bomb = f"cos\nmkdir\n(V{trace}\ntR.".encode()  # a pickle that makes a folder
    array = header("{'descr': '|O', 'fortran_order': False, 'shape': (4,)}") + bomb
    (tmp_path / "x.npy").write_bytes(array)
    with suppress(AttributeError):  # what the pickle returns is no array
        np.load(tmp_path / "x.npy", allow_pickle=True)
    trace.rmdir()  # so the bomb is live
    assert "elements of type object" in refusal(tmp_path / "x.npy", read_inputs)
    assert "elements of type object" in refusal(zipped(tmp_path / "x.npz", array), read_inputs)
    folder = npy_folder(tmp_path, x=X)
    (folder / "y.npy").write_bytes(array)
    assert "y.npy has elements of type object" in refusal(folder)
    for name, reader in (("raw.npy", read_inputs), ("raw.npz", read_arrays)):
        (tmp_path / name).write_bytes(bomb)
        assert "is damaged" in refusal(tmp_path / name, reader)
    assert not trace.exists()


@pytest.mark.parametrize(
    "array", [np.zeros((4, 2), complex), np.zeros(4, "M8[s]"), np.zeros(4, [("a", int)]), np.zeros(4, "V3"), np.zeros(4, [("ä", int)])]
)
@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")
def test_other_types_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    said = refusal(npy_folder(tmp_path, x=X, y=array))
    assert "y.npy has elements of type " in said or "version 3.0" in said
    assert "inputs must be numbers" in refusal(npz(tmp_path, x=np.array(["a", "b"])), read_inputs)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is damaged"),
        (b"hello, this is no array at all", "is damaged"),
        (npy_bytes(X)[:-1], "is truncated: its header announces 160 bytes, but it has 159"),
        (npy_bytes(X)[:20], "is damaged"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 1000)}"), "is truncated"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-4, 2)}") + bytes(64), "shape (-4, 2)"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000, 0)}"), "at least one value"),
        (header("{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000000, 2)}"), "elements of type"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 4000 + "," + "9" * 4000 + ")}"), "is damaged"),
        (header("{}"), "is damaged"),
        (header("-" * 9000 + "1"), "is damaged"),
        (header("(" * 9000), "is damaged"),
        (header("{'descr'", b"\2\0", length=2**32 - 1), "is damaged"),
        (header("{}", b"\7\0"), "has version 7.0 of the .npy format"),
    ],
)
def test_damaged_npy_files_give_a_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    assert said in refusal(path, read_inputs)
    np.save(tmp_path / "y.npy", Y)
    with pytest.raises(InputError, match=r"x\.npy "):
        read_arrays(tmp_path)


def test_damaged_members_are_named(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    for content in (b"", b"hello, this is no array at all", npy_bytes(X)[:20], header("{'descr'", b"\2\0", length=2**32 - 1)):
        assert f"x in {path} is damaged" in refusal(zipped(path, content), read_inputs)
    assert "cannot hold" in refusal(zipped(path, npy_bytes(X)[:-1]), read_inputs)
    assert "cannot hold" in refusal(zipped(path, npy_bytes(X) + b"more"), read_inputs)
    huge = header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 1000)}")
    assert "cannot hold" in refusal(zipped(path, huge), read_inputs)
    assert "numpy does not use" in refusal(zipped(path, npy_bytes(X), zipfile.ZIP_BZIP2), read_inputs)
    whole = bytearray(zipped(path, npy_bytes(X), zipfile.ZIP_STORED).read_bytes())
    whole[whole.index(X.tobytes())] ^= 1
    path.write_bytes(whole)
    assert "CRC" in refusal(path, read_inputs)


def test_a_member_that_claims_more_than_its_bytes_is_refused(tmp_path: Path) -> None:
    content = header("{'descr': '<f4', 'fortran_order': False, 'shape': (100000000, 4)}")
    announced = len(content) + 1_600_000_000
    path = zipped(tmp_path / "data.npz", content)
    whole = path.read_bytes().replace(struct.pack("<I", len(content)), struct.pack("<I", announced))
    path.write_bytes(whole)
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo("x.npy").file_size == announced
    assert "cannot hold" in refusal(path, read_inputs)


def test_the_sum_of_the_members_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = npz(tmp_path, x=X, y=Y)
    total = len(npy_bytes(X)) + len(npy_bytes(Y))
    monkeypatch.setattr(array_files, "MOST_BYTES", total)
    assert len(read_arrays(path).train) == 4
    monkeypatch.setattr(array_files, "MOST_BYTES", total - 1)
    assert f"{path} needs" in refusal(path)


def test_other_paths_are_refused(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "gone.npz")
    assert "no such file" in refusal(tmp_path / "gone.npy", read_inputs)
    (tmp_path / "data.txt").touch()
    assert "is neither an .npz file" in refusal(tmp_path / "data.txt")
    os.mkfifo(tmp_path / "pipe.npy")
    assert "is neither an .npz file" in refusal(tmp_path / "pipe.npy", read_inputs)
    (tmp_path / "data.npz").write_bytes(npy_bytes(X))
    assert "not a zip file" in refusal(tmp_path / "data.npz")
    np.save(tmp_path / "x.npy", X)
    assert "is a single array" in refusal(tmp_path / "x.npy")


def test_inputs_for_prediction(tmp_path: Path) -> None:
    for name in ("x", "X", "inputs", "images", "data", "x_test", "X_test", "test_images"):
        assert np.array_equal(read_inputs(npz(tmp_path, **{name: X, "y": Y, "x_train": X + 1})), X)
    assert "expected exactly one of x, X, inputs" in refusal(npz(tmp_path, z=X), read_inputs)
    assert "expected exactly one of" in refusal(npz(tmp_path, x=X, inputs=X), read_inputs)


def check_fuzzed(path: Path, reader: Callable[[Path], Any]) -> None:
    """A result or one sentence that names the file."""
    said = ""
    try:
        reader(path)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    assert not said or str(path) in said


def damaged(data: st.DataObject, content: bytes) -> bytes:
    """Bytes replaced, with a preference for the headers; cut off; or nothing but noise."""
    way = data.draw(st.sampled_from(["flip", "cut", "both", "noise"]))
    if way == "noise":
        return content[: data.draw(st.sampled_from([0, 6, 8, 10]))] + data.draw(st.binary(max_size=200))
    changed = bytearray(content)
    if way != "cut":
        place = st.integers(0, len(content) - 1) | st.integers(0, min(len(content) - 1, 128))
        for position, value in data.draw(st.lists(st.tuples(place, st.integers(0, 255)), min_size=1, max_size=6)):
            changed[position] = value
    return bytes(changed) if way == "flip" else bytes(changed[: data.draw(st.integers(0, len(changed)))])


@FUZZ
@given(data=st.data(), array=st.sampled_from([X, X.astype(">f8"), X.astype(np.uint8).reshape(2, 2, 2)]))
def test_fuzzed_npy_inputs(tmp_path: Path, data: st.DataObject, array: np.ndarray) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(damaged(data, npy_bytes(array)))
    check_fuzzed(path, read_inputs)


@FUZZ
@given(data=st.data(), labels=st.sampled_from([Y, np.array(["a", "b", "b", "c"]), np.array([b"a", b"b", b"b", b"c"]), Y / 2, np.eye(4)]))
def test_fuzzed_npy_targets(tmp_path: Path, data: st.DataObject, labels: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "y.npy").write_bytes(damaged(data, npy_bytes(labels)))
    check_fuzzed(tmp_path, read_arrays)


@FUZZ
@given(data=st.data(), compressed=st.booleans())
def test_fuzzed_npz(tmp_path: Path, data: st.DataObject, compressed: bool) -> None:
    path = tmp_path / "data.npz"
    (np.savez_compressed if compressed else np.savez)(path, x=X, y=Y)
    path.write_bytes(damaged(data, path.read_bytes()))
    check_fuzzed(path, read_arrays)


@FUZZ
@given(data=st.data())
def test_fuzzed_members(tmp_path: Path, data: st.DataObject) -> None:
    check_fuzzed(zipped(tmp_path / "data.npz", damaged(data, npy_bytes(X))), read_inputs)
