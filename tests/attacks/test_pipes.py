"""Files that are pipes, links that lead to themselves, and names that steer terminals: one sentence, at once."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from attacking.repacking import seal_again
from highwaynet.base.errors import InputError
from highwaynet.base.files import read_bytes
from highwaynet.base.specs import validated
from highwaynet.data.archives import unpack_tar
from highwaynet.data.array_files import read_arrays
from highwaynet.runs.spec import RunSpec
from highwaynet.search.address import Address
from highwaynet.training.loop import train
from support import Highway, Runs, small_spec


@pytest.mark.parametrize(
    "name",
    [
        "plan.json",
        "data.json",
        "history.jsonl",
        "environment.json",
        "checkpoints/final.json",
        "checkpoints/final.safetensors",
        "seals.json",
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "verify", "runs"])
def test_pipes_in_a_run(name: str, command: str, finished_run: Runs, highway: Highway) -> None:
    run = finished_run("fc-highway")
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    done = highway(command, run.path)  # waited for ever
    assert done.returncode in ((0,) if command == "runs" else (0, 2))
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["history.jsonl", "timing.jsonl", "plan.json", "data.json", "environment.json", "seals.json"])
def test_one_run_without_a_file_does_not_hide_the_others(name: str, finished_run: Runs, highway: Highway, tmp_path: Path) -> None:
    for folder in ("good", "bad"):
        shutil.copytree(finished_run("fc-highway").path, tmp_path / "runs" / folder)
    (tmp_path / "runs" / "bad" / name).unlink()
    done = highway("runs", "runs", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 2


def test_pipes_elsewhere(tmp_path: Path, highway: Highway) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("x.npy", "t.parquet", "t.csv", "a.tar.gz", "run.toml"):
        os.mkfifo(tmp_path / "folder" / name)
    for arguments in (["data", "describe", "folder"], ["data", "describe", "folder/t.parquet"], ["train", "folder/run.toml"]):
        done = highway(*arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
    with pytest.raises(InputError, match="not a regular file"):
        unpack_tar(tmp_path / "folder" / "a.tar.gz", tmp_path / "new", size_limit=1, member_limit=1)
    with pytest.raises(InputError):
        read_arrays(tmp_path / "folder")


def test_a_pipe_of_the_shell_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"seed = 1")
    os.close(writing)
    assert read_bytes(Path(f"/dev/fd/{reading}")) == b"seed = 1"
    os.close(reading)


def test_a_link_that_leads_to_itself(tmp_path: Path, highway: Highway) -> None:
    (tmp_path / "study.db").symlink_to("study.db")
    with pytest.raises(InputError, match="where this link leads"):
        Address.of_file(tmp_path / "study.db")
    done = highway("search", "show", tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_names_cannot_steer_a_terminal(tmp_path: Path, highway: Highway) -> None:
    (tmp_path / "t.csv").write_text("\x1b[2Ja,y\n" + "1,\x1b[31mx\n2,z\n" * 20)
    for arguments in (["data", "describe", "t.csv", "--target", "y"], ["data", "describe", "\x1b[2J.csv"]):
        done = highway(*arguments)
        assert "\x1b" not in done.stdout + done.stderr
        assert "\\x1b[" in done.stdout + done.stderr


def test_a_thousand_wrong_fields_are_one_sentence() -> None:
    with pytest.raises(InputError, match="and 995 more errors") as raised:
        validated(RunSpec, {f"a{number}": 1 for number in range(1000)})
    assert len(str(raised.value)) < 1000


def test_a_run_that_was_killed_before_it_wrote_its_plan_has_one_in_the_end(tmp_path: Path) -> None:
    calm = train(small_spec(), tmp_path / "calm")
    killed = tmp_path / "killed"
    killed.mkdir()
    (killed / "spec.toml").write_bytes((calm.path / "spec.toml").read_bytes())  # all that it had written
    train(small_spec(), killed, resume=True)
    assert (killed / "plan.json").read_bytes() == (calm.path / "plan.json").read_bytes()


def test_a_long_name_in_a_damaged_file_is_cut_in_the_message(tmp_path: Path, highway: Highway) -> None:
    (tmp_path / "run.toml").write_text(f"{'pace' * 2000} = 1\n")
    done = highway("train", "run.toml")
    assert done.returncode == 2
    assert 100 < len(done.stderr) < 1500


def test_a_forged_number_of_classes_is_one_sentence(finished_run: Runs, highway: Highway) -> None:
    run = finished_run("fc-highway")
    stored = json.loads((run.path / "data.json").read_text())
    stored["record"]["class_names"] = ["0"]
    (run.path / "data.json").write_text(json.dumps(stored))
    seal_again(run.path)
    np.save(run.path.parent / "new.npy", np.zeros((2, 1, 8, 8), np.float32))
    done = highway("predict", run.path, run.path.parent / "new.npy")
    assert done.returncode == 2, done.stdout
    assert "classes" in done.stderr
