"""The run directory: what it keeps, what it refuses, and that nothing is lost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from highwaynet import RunSpec
from highwaynet.base.errors import InputError
from highwaynet.base.files import write_atomically
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network
from highwaynet.runs.spec import read_spec_values, spec_from_values

Run = Callable[..., RunDirectory]


@pytest.fixture
def run(finished_run: Run, tmp_path: Path) -> RunDirectory:
    """A copy that a test may damage."""
    shutil.copytree(finished_run().path, tmp_path / "run")
    return RunDirectory.open(tmp_path / "run")


def test_the_spec_survives_toml(tmp_path: Path) -> None:
    spec = RunSpec(seed=7, network={"name": "fc-plain", "init": "normal"}, training={"learning_rate": 1e-3, "threads": 1})
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    assert spec_from_values(read_spec_values(tmp_path / "spec.toml")) == spec


def test_the_network_comes_back_to_the_bit(run: RunDirectory) -> None:
    tensors, _ = run.checkpoints.load("final")
    network = load_network(run)
    assert not network.training
    for name, value in network.state_dict().items():
        assert torch.equal(value, tensors[name])


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("spec.toml", b"depth = ", "is not valid TOML"),
        ("spec.toml", b"\xff\xfe", "is not UTF-8 text"),
        ("spec.toml", b"[network]\nwidht = 3\n", "unknown field of [network] 'widht': did you mean 'width'?"),
        ("spec.toml", b"schema_version = 2\n", "was written by a newer version of highwaynet (schema_version = 2"),
        ("spec.toml", b"[network]\ndepth = 9\n", "belongs to another spec.toml"),
        ("history.jsonl", b'{"epoch": 1, "st\n', "line 1, is damaged"),
        ("history.jsonl", b'{"epoch": 2}\n', "is damaged"),
        ("history.jsonl", b'{"epoch": 2, "step": 1, "learning_rate": 1, "train_loss": 1}\n', "it is about epoch 2"),
        ("history.jsonl", b'{"epoch": 1, "step": 1, "learning_rate": 1, "train_loss": 1}\n', "it has 1 of the run's 2 epochs"),
        ("history.jsonl", b"", "is empty"),
        ("timing.jsonl", b"[1]\n", "is damaged"),
        ("environment.json", b"{", "is damaged"),
        ("environment.json", b"[]", "is damaged"),
        ("data.json", b"{}", "is damaged"),
        ("plan.json", b"{}", "is damaged"),
        ("plan.json", b'{"schema_version": 2}', "was written by a newer version of highwaynet (schema_version = 2"),
        ("data.safetensors", b"nonsense", "checksum"),
        ("checkpoints/final.json", b"{}", "is damaged"),
        ("checkpoints/final.safetensors", b"nonsense", "checksum"),
    ],
)
def test_a_damaged_file_is_named(run: RunDirectory, name: str, damage: bytes, sentence: str) -> None:
    (run.path / name).write_bytes(damage)
    with pytest.raises(InputError) as error:
        read_everything(run)
    assert sentence in str(error.value)
    assert Path(name).name.split(".")[0] in str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        "history.jsonl",
        "timing.jsonl",
        "environment.json",
        "data.json",
        "data.safetensors",
        "checkpoints/final.json",
        "checkpoints/final.safetensors",
    ],
)
def test_a_missing_file_is_named(run: RunDirectory, name: str) -> None:
    (run.path / name).unlink()
    with pytest.raises(InputError, match=Path(name).name.replace(".", r"\.")):
        read_everything(run)


def read_everything(run: RunDirectory) -> None:
    run.read_spec()
    run.read_history()
    run.read_seconds()
    run.read_environment()
    run.load_preparation()
    load_network(run, "final")


def test_one_flipped_bit_in_the_weights_is_found(run: RunDirectory) -> None:
    path = run.path / "checkpoints" / "final.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="checksum"):
        run.checkpoints.load("final")


def test_a_safetensors_file_that_is_none_is_refused_even_with_the_right_checksum(run: RunDirectory) -> None:
    import hashlib
    import json

    content = b"\x80\x04cos\nsystem\n"  # the beginning of a pickle
    (run.path / "checkpoints" / "final.safetensors").write_bytes(content)
    sidecar = run.path / "checkpoints" / "final.json"
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"sha256": hashlib.sha256(content).hexdigest(), "own_sha256": ""}))
    with pytest.raises(InputError, match="not a safetensors file"):
        run.checkpoints.load("final")


def test_an_existing_folder_is_refused_and_left_alone(run: RunDirectory) -> None:
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="already exists"):
        RunDirectory.create(run.path, RunSpec(), {})
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def test_overwriting_removes_the_old_run_and_nothing_else(run: RunDirectory) -> None:
    (run.path / "notes.txt").write_text("mine")
    (run.path / "checkpoints" / "mine.bin").write_text("mine")
    RunDirectory.create(run.path, RunSpec(), {}, overwrite=True).forget_earlier()  # as at the end of training
    assert sorted(str(path.relative_to(run.path)) for path in run.path.rglob("*") if path.is_file()) == [
        "checkpoints/mine.bin",
        "environment.json",
        "notes.txt",
        "spec.toml",
    ]


def test_overwriting_something_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-my-love.txt").write_text("…")
    with pytest.raises(InputError, match="not a run directory"):
        RunDirectory.create(tmp_path / "letters", RunSpec(), {}, overwrite=True)
    (tmp_path / "file").write_text("…")
    with pytest.raises(InputError, match="is a file"):
        RunDirectory.create(tmp_path / "file", RunSpec(), {}, overwrite=True)


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    write_atomically(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="no space left on device"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
