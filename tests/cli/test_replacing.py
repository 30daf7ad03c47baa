"""`highway predict --out` and `highway export --out` replace only what they wrote, and the ending of a file says what it is."""

import json
from collections.abc import Callable
from pathlib import Path
from zipfile import is_zipfile

import numpy as np
import pytest

from cli.test_table_columns import QUICK, clean, written
from highwaynet import RunDirectory
from highwaynet.base.files import hold
from highwaynet.data.digits import read_digits
from support import Highway


def test_files_of_others_are_kept(highway: Highway, tmp_path: Path) -> None:
    for name in ("set.csv", "new.csv", "notes.csv"):
        written(tmp_path / name, clean(60))
    before = (tmp_path / "set.csv").read_bytes()
    trained = highway("train", "--data", "set.csv", "--target", "y", *QUICK, "--out", "run")
    assert trained.returncode == 0, trained.stderr
    (tmp_path / "link.csv").symlink_to("set.csv")
    other = "the file exists and is not an output of predict; name another file, or replace it with --overwrite"
    own = "this is the data file of the run; name another file"
    for arguments, sentence in (
        (("predict", "run", "new.csv", "--out", "set.csv"), f"--out set.csv: {own}"),
        (("predict", "run", "new.csv", "--out", "link.csv", "--overwrite"), f"--out link.csv: {own}"),
        (("predict", "run", "new.csv", "--out", "notes.csv"), f"--out notes.csv: {other}"),
        (("predict", "run", "new.csv", "--csv", "--overwrite"), "--overwrite: there is no file to replace; leave it out, or add --out"),
        (("export", "run", "--out", "set.csv", "--to", "onnx", "--overwrite"), f"--out set.csv: {own}"),
        (("export", "run", "--out", "notes.csv", "--to", "onnx"), "--out notes.csv: the file exists and is not an earlier export to onnx"),
    ):
        refused = highway(*arguments)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused.stderr
        assert sentence in refused.stderr
    assert all((tmp_path / name).read_bytes() == before for name in ("set.csv", "new.csv", "notes.csv"))
    assert highway("predict", "run", "new.csv", "--out", "notes.csv", "--overwrite").returncode == 0
    assert (tmp_path / "notes.csv").read_text().startswith("input,class,probability,")


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "parquet"])
def test_earlier_predictions_are_replaced(ending: str, highway: Highway, finished_run: Callable[..., RunDirectory], tmp_path: Path) -> None:
    run = finished_run("fc-highway").path
    np.save(tmp_path / "rows.npy", read_digits().inputs[:5])
    for _ in range(2):
        assert highway("predict", run, "rows.npy", "--out", f"out.{ending}").stderr == f"out.{ending}: 5 predictions\n"
    (tmp_path / f"out.{ending}").write_text(json.dumps({"run": 1}))
    refused = highway("predict", run, "rows.npy", "--out", f"out.{ending}")
    assert (refused.returncode, "is not an output of predict" in refused.stderr) == (2, True), refused.stderr
    assert (tmp_path / f"out.{ending}").read_text() == '{"run": 1}'


@pytest.mark.parametrize("to", ["onnx", "torch", "safetensors"])
def test_earlier_exports_are_replaced(to: str, highway: Highway, finished_run: Callable[..., RunDirectory], tmp_path: Path) -> None:
    run = finished_run("fc-highway").path
    for _ in range(2):
        exported = highway("export", run, "--to", to, "--out", "file.bin")
        assert exported.returncode == 0, exported.stderr
    (tmp_path / "file.bin").write_bytes(b"PK\x03\x04 precious")
    refused = highway("export", run, "--to", to, "--out", "file.bin")
    assert (refused.returncode, f"is not an earlier export to {to}; name another file" in refused.stderr) == (2, True), refused.stderr
    assert (tmp_path / "file.bin").read_bytes() == b"PK\x03\x04 precious"
    assert highway("export", run, "--to", to, "--out", "file.bin", "--overwrite").returncode == 0


def test_the_ending_chooses_the_form(highway: Highway, finished_run: Callable[..., RunDirectory], tmp_path: Path) -> None:
    run = finished_run("fc-highway").path
    assert ", torch" in highway("export", run, "--out", "file.pt2").stdout
    assert is_zipfile(tmp_path / "file.pt2")
    assert json.loads(highway("export", run, "--out", "file.safetensors", "--json").stdout)["to"] == "safetensors"
    for arguments, sentence in (
        (("--to", "torch", "--out", "a.onnx"), "a.onnx: the ending .onnx is that of onnx, not of torch; change one of them"),
        (("--out", "a.txt"), "a.txt: the name should end in .onnx, .pt2 or .safetensors; or choose the form with --to (in Python, to=...)"),
        (("--out", "a"), "a: the name should end in .onnx, .pt2 or .safetensors; or choose the form with --to (in Python, to=...)"),
    ):
        refused = highway("export", run, *arguments)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused.stderr
        assert sentence in refused.stderr
    assert not list(tmp_path.glob("a*"))


def test_what_killed_writers_of_the_file_left_is_removed(
    highway: Highway, finished_run: Callable[..., RunDirectory], tmp_path: Path
) -> None:
    run = finished_run("fc-highway").path
    np.save(tmp_path / "rows.npy", read_digits().inputs[:5])
    for arguments, name in ((("export", run, "--to", "safetensors"), "file.safetensors"), (("predict", run, "rows.npy"), "out.csv")):
        odd, gone, held = (tmp_path / f".{name}.{number}-{'0a' * 8}.tmp" for number in (1, 12, 123))
        odd.mkdir()
        others = tmp_path / f".other-{name}.12-{'0a' * 8}.tmp"
        for path in (gone, held, others):
            path.write_text("half")
        with held.open("rb+") as stream:
            assert hold(stream)
            assert highway(*arguments, "--out", name).returncode == 0
        assert [path.exists() for path in (gone, held, others)] == [False, True, True], "only those for this file that nobody writes"
