"""`highway reproduce` as people type it: list, plan, smoke, what is refused, and going on after Ctrl-C and kills."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest

import forked
from experiments.fakes import claim_files
from forked import Forked
from highwaynet.base.errors import InputError
from highwaynet.cli.reproduce import NOT_JUDGED, _duration, reproduce_command
from highwaynet.experiments import estimate, reproduce
from highwaynet.experiments.claim_records import load_claim, load_plan
from highwaynet.experiments.registry import CLAIMS
from highwaynet.training.suitability import SpecChecks
from holding import PATIENCE, Gate, wait_for
from support import Highway

ENVIRONMENT = {"HIGHWAYNET_DATA": "/nowhere"}
"""The data cannot be found: smoke must not need any."""


def start(name: str, out: Path, *flags: str) -> Forked:
    return forked.start("reproduce", name, "--scale", "smoke", "--out", out, *flags, cwd=out.parent, **ENVIRONMENT)


def start_fresh(name: str, out: Path, *flags: str, **more: str) -> subprocess.Popen[str]:
    """A process with children: workers are started as they are for people."""
    command = [sys.executable, "-W", "error", "-m", "highwaynet", "reproduce", name, "--scale", "smoke", "--out", str(out), *flags]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=os.environ | ENVIRONMENT | more, cwd=out.parent, **pipes)


def finish(process: "Forked | subprocess.Popen[str]") -> tuple[str, str]:
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    return output, errors


def workers_of(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(folder.name))
    return found


def refused(result: Any, sentence: str) -> None:
    assert sentence in result.stderr
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("highway: ")
    assert result.stderr.count("\n") == 1, "one sentence"


@pytest.fixture(scope="module")
def fig1(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Figure 1 at scale smoke, in peace: the folder of all claims, and what was said; tests must not change it."""
    out = tmp_path_factory.mktemp("calm") / "out"
    return out, *finish(start("fig1", out, "--workers", "2"))


@pytest.fixture(scope="module")
def fig2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of figure 2, whose runs are asked about their gates."""
    out = tmp_path_factory.mktemp("inside") / "out"
    output, errors = finish(start("fig2", out))
    assert "analysing mnist-1: gates" in errors
    assert "gates above 0.5" in " ".join(output.split())
    return out


@pytest.mark.parametrize(
    "name",
    [
        "convergence",
        "shallow",
        "thousand",
        "initialisation",
        "table1",
        "table2",
        "report2016",
        "report2021",
        "carry",
        "rmsprop",
        "supervision",
    ],
)
def test_every_other_claim_at_its_smallest(name: str, fig1: tuple[Path, str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    output, _ = finish(start(name, out, "--workers", "2", "--reuse", str(fig1[0])))
    assert "verdict: not judged (scale smoke)" in output
    assert NOT_JUDGED in output
    record = load_claim(out / f"{name}-smoke")
    assert record
    assert {run.status for run in record.runs} <= {"finished", "diverged"}
    assert {rule.verdict for rule in record.rules} == {"not judged"}
    assert record.figures
    assert all((out / f"{name}-smoke" / "figures" / figure).stat().st_size > 5000 for figure in record.figures)


def test_a_plan_says_what_would_be_run_even_without_data(highway: Highway, tmp_path: Path) -> None:
    result = highway("reproduce", "table1", "--plan", HIGHWAYNET_DATA=str(tmp_path / "nothing"))
    assert result.returncode == 2
    assert "  5 × mnist-highway-16 on mnist, epochs: 30\n" in result.stdout
    assert "rule: 16 wide: " in result.stdout
    assert result.stderr.startswith("highway: ")
    assert "not found below" in result.stderr
    result = highway("reproduce", "table1", "--plan", "--json", HIGHWAYNET_DATA=str(tmp_path / "nothing"))
    assert (result.returncode, result.stdout) == (2, "")
    assert not list(tmp_path.iterdir())


def test_what_is_damaged_is_named_with_a_way_out(highway: Highway, fig1: tuple[Path, str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(fig1[0], out)
    again = ("reproduce", "fig1", "--scale", "smoke", "--out", out)
    record = (out / "fig1-smoke" / "record.json").read_bytes()
    (out / "fig1-smoke" / "record.json").write_bytes(record[:100])
    result = highway("reproduce", "list", "--out", out)
    assert result.returncode == 0, result.stderr
    assert "smoke: damaged record" in result.stdout
    assert highway(*again).returncode == 0
    assert (out / "fig1-smoke" / "record.json").read_bytes() == record

    run = next(path for path in sorted((out / "runs").iterdir()) if (path / "history.jsonl").is_file())
    for name in ("history.jsonl", "spec.toml"):
        content = (run / name).read_bytes()
        (run / name).write_bytes(content[:40])
        result = highway(*again)
        assert result.returncode == 2
        assert result.stderr.splitlines()[-1].startswith("highway: ")
        assert result.stderr.endswith(f" (remove {run}, and the same command makes this run again)\n")
        (run / name).write_bytes(content)
    (out / "fig1-smoke" / "plan.json").write_text("{")
    refused(highway(*again), f"(remove {out / 'fig1-smoke'}, and the same command writes it again; this does not remove runs)")


def test_list_says_what_there_is(highway: Highway, fig1: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    result = highway("reproduce", "list", "--out", fig1[0])
    assert result.returncode == 0, result.stderr
    assert all(name in result.stdout for name in CLAIMS)
    assert "smoke: not judged" in result.stdout
    assert "next: highway reproduce NAME --plan" in result.stdout
    reproduce_command("list", as_json=True, out=fig1[0])
    answer = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in answer] == list(CLAIMS)
    assert [one["done"] for one in answer] == [{"smoke": "not judged"}] + [{}] * (len(CLAIMS) - 1)


def test_plan_says_what_it_takes_and_writes_nothing(highway: Highway, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = highway("reproduce", "fig1", "--scale", "smoke", "--plan", "--workers", "2")
    assert result.returncode == 0, result.stderr
    assert "runs: 12\n" in result.stdout
    assert "  2 × 20-layer plain on digits, epochs: 4\n" in result.stdout
    assert "at scale smoke nothing is judged\n" in result.stdout
    assert "100" not in result.stdout, "depths that are not run"
    assert re.search(r"this takes about \d+ (s|minutes) here with 2 runs at a time\n$", result.stdout)
    assert not list(tmp_path.iterdir())
    reproduce_command("thousand", scale="smoke", plan=True, as_json=True, workers=1, out=tmp_path / "out")
    answer = json.loads(capsys.readouterr().out)
    assert answer["runs"] == [{"label": "highway-1000-1", "epochs": 3, "done": False}]
    assert 0 < answer["seconds"] < math.inf
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("known", [True, False])
def test_plan_compares_the_number_formats(
    known: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "knows_bfloat16", lambda: known)
    monkeypatch.setattr(estimate, "seconds_of", lambda spec: ({"float32": 60.0, "bfloat16": 30.0}[spec.training.precision], 10))
    monkeypatch.setattr(SpecChecks, "check", lambda self, spec: None)
    slow = "this processor has no instructions for bfloat16: --precision float32 is faster"

    def plan(claim: str, scale: Literal["smoke", "laptop"], precision: Literal["float32", "bfloat16"] = "float32") -> tuple[str, Any]:
        ways: dict[str, Any] = {"scale": scale, "plan": True, "workers": 1, "out": tmp_path / "out", "precision": precision}
        reproduce_command(claim, **ways)
        output = capsys.readouterr().out
        reproduce_command(claim, as_json=True, **ways)
        return output, json.loads(capsys.readouterr().out)

    output, answer = plan("table2", "laptop", "bfloat16")
    assert "epochs: 100, bfloat16\n" in output
    assert (slow in output) == (not known)
    assert "with --precision float32, it would take about" in output
    assert answer["seconds_by_precision"] == pytest.approx({"bfloat16": answer["seconds"], "float32": 2 * answer["seconds"]})
    for scale in ("smoke", "laptop"):
        output, answer = plan("table2", scale)
        assert "bfloat16\n" not in output
        assert ("with --precision bfloat16, it would take about" in output) == known
        times = {"float32": answer["seconds"]} | ({"bfloat16": answer["seconds"] / 2} if known else {})
        assert answer["seconds_by_precision"] == pytest.approx(times)
    output, answer = plan("thousand", "smoke")
    assert "--precision" not in output
    assert answer["seconds_by_precision"] == {}


def test_smoke_says_what_it_is(fig1: tuple[Path, str, str]) -> None:
    out, output, errors = fig1
    assert "note: digits, networks 20 and 28 wide" in errors
    assert "says nothing about the paper" in errors
    assert re.search(r"this takes about \d+ (s|minutes) here with 2 runs at a time; Ctrl-C stops, and the same command continues\n", errors)
    assert "12 of 12 runs done" in errors
    assert "verdict: not judged (scale smoke)" in output
    folder = out / "fig1-smoke"
    assert f"figure: {folder / 'figures' / 'fig1.png'}\nrecord: {folder / 'record.json'}\n" in output
    assert sorted(path.name for path in out.iterdir()) == ["fig1-smoke", "runs"]
    assert sorted(path.name for path in folder.iterdir()) == ["figures", "plan.json", "record.json", "runs.zip"]
    assert len(list((out / "runs").iterdir())) == 12
    record = load_claim(folder)
    assert record
    assert [(run.status, run.epochs) for run in record.runs] == [("finished", 10 if "left" in run.label else 4) for run in record.runs]
    with zipfile.ZipFile(folder / "runs.zip") as archive:  # anybody can open it
        assert {name.partition("/")[0] for name in archive.namelist()} == {run.label for run in record.runs}
    assert (folder / "figures" / "fig1.png").read_bytes().startswith(b"\x89PNG")


def test_neither_ctrl_c_nor_kills_change_anything(fig1: tuple[Path, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, gate = tmp_path / "out", Gate(tmp_path / "gate", runs="runs/*")
    process = start_fresh("fig1", out, "--workers", "2", **gate.environment)
    gate.wait(process)
    workers = workers_of(process.pid)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "highway: interrupted; what was trained is saved; continue with: the same command"
    assert "Traceback" not in errors
    assert output == ""
    assert workers
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert not (out / "fig1-smoke" / "record.json").exists()

    process = start_fresh("fig1", out, "--workers", "1", **gate.environment)
    wait_for(lambda: workers_of(process.pid), process)
    workers = workers_of(process.pid)
    os.kill(workers[0], signal.SIGKILL)
    wait_for(lambda: set(workers_of(process.pid)) - set(workers), process)  # another one is there
    process.kill()
    process.communicate(timeout=PATIENCE)

    output, _ = finish(start("fig1", out, "--workers", "2", "--json"))
    assert claim_files(out / "fig1-smoke") == claim_files(fig1[0] / "fig1-smoke")
    assert json.loads(output)["folder"] == str(out / "fig1-smoke")
    assert not list(out.rglob("*.tmp"))
    reproduce_command("fig1", scale="smoke", out=out)
    errors = capsys.readouterr().err
    assert "runs: 12, 12 of them already done\n" in errors
    assert "timing" not in errors
    assert claim_files(out / "fig1-smoke") == claim_files(fig1[0] / "fig1-smoke")


def test_runs_are_shared_by_claims_and_taken_from_other_folders(fig2: Path, tmp_path: Path) -> None:
    runs = sorted(path.name for path in (fig2 / "runs").iterdir())
    output, errors = finish(start("fig4", tmp_path / "out", "--reuse", str(fig2 / "runs")))
    assert "runs: 2, 2 of them already done (2 from --reuse)\n" in errors
    assert "verdict: not judged" in output
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["fig4-smoke"]
    record, plan = load_claim(tmp_path / "out" / "fig4-smoke"), load_plan(tmp_path / "out" / "fig4-smoke")
    assert record
    assert plan
    assert plan.there == tuple(plan.runs) == ("mnist-1", "cifar-100-1")
    assert record.made_before == 2
    assert record.figures == ("fig4-mnist.png", "fig4-cifar-100.png")
    _, errors = finish(start("fig3", fig2))
    assert "runs: 2, 2 of them already done\n" in errors
    assert sorted(path.name for path in (fig2 / "runs").iterdir()) == runs


def test_what_is_refused_is_refused_in_a_sentence(highway: Highway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(highway("reproduce", "fig5", HIGHWAYNET_DATA="/nowhere"), "unknown claim 'fig5': Allowed: fig1, ")
    refused(highway("reproduce", "fig2", HIGHWAYNET_DATA="/nowhere"), "data.name = 'mnist': not found below /nowhere; get it with")
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("fig2").mkdir()
    Path("fig2", "mine").touch()
    cases: list[tuple[str, dict[str, Any]]] = [
        ("file is a file: name another folder with --out", {"out": Path("file")}),
        ("fig2 is not empty and has no plan.json: name another folder", {"out": Path()}),
        ("--reuse nothing: no such folder", {"reuse": [Path("nothing")]}),
        ("--reuse file: no such folder", {"reuse": [Path("file")]}),
    ]
    for sentence, arguments in cases:
        with pytest.raises(InputError, match=sentence):
            reproduce_command("fig2", **arguments)
    with pytest.raises(InputError, match=r"table3 is not run at scale smoke: there is no small version of it; table2 runs the same code"):
        reproduce_command("table3", scale="smoke")
    with pytest.raises(InputError, match="--out file: this is a file; name a folder"):
        reproduce_command("list", out=Path("file"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fig2", "file"]


def test_times_as_people_say_them() -> None:
    assert [_duration(seconds) for seconds in (0.1, 89, 100, 3600, 7300)] == ["1 s", "89 s", "2 minutes", "60 minutes", "2.0 hours"]
