"""`highway search` as people type it: run, show, best, and what is refused."""

import json
import os
import re
import sqlite3
import statistics
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forked
from highwaynet.base.errors import InputError
from highwaynet.cli import search
from highwaynet.cli.search_output import opening
from highwaynet.search.results import collect
from highwaynet.search.spec import read_study
from highwaynet.search.study import locate, open_stored, prepare
from highwaynet.search.trials import Trials
from search.kill_search import start
from support import Highway

STUDY = """
name = "small"
seed = 3
trials = 20
[run.network]
depth = 3
width = 5
[run.training]
epochs = 2
batch_size = 128
[axes]
network.name = ["fc-highway", "fc-plain"]
[space]
training.learning_rate = { kind = "log-uniform", low = 0.001, high = 1 }
training.momentum = { kind = "uniform", low = 0, high = 0.9 }
network.activation = { kind = "choice", choices = ["tanh", "relu"] }
"""
SECRET = "t0psecret"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study; tests must not change it."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "study.toml").write_text(STUDY)
    process = start(folder / "study.toml", folder / "small")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return folder / "small"


def refused(result: Any, sentence: str, code: int = 2) -> None:
    assert sentence in result.stderr
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("highway: ")
    assert result.stderr.count("\n") == 1, "one sentence"
    assert "Traceback" not in result.stderr
    assert SECRET not in result.stderr


@pytest.fixture(scope="module")
def answer(finished: Path) -> Any:
    """What `show --json` says about it."""
    spec, storage = open_stored(locate(str(finished), None, None))
    result = collect(spec, storage)
    storage.engine.dispose()
    return result.model_dump(mode="json")


def created(study: Path, out: Path) -> None:
    """A study of which no trial was run yet."""
    place = locate(str(study), None, out)
    spec, attributes = prepare(place, join=False)
    trials = Trials(spec, place.storage, out, attributes)
    trials.create()
    trials.storage.engine.dispose()


def test_show_says_what_came_out(finished: Path, answer: Any, highway: Highway) -> None:
    assert [one["label"] for one in answer["configurations"]] == ["fc-highway", "fc-plain"]
    for one in answer["configurations"]:
        results = one["results"]
        assert [result["index"] for result in results] == list(range(20))
        histories = [(finished / "runs" / one["label"] / f"{index:05}" / "history.jsonl").read_text().splitlines() for index in range(20)]
        losses = [[json.loads(line)["train_loss"] for line in history] for history in histories]
        assert [result["curve"] for result in results] == losses
        assert [result["value"] for result in results] == [min(loss) for loss in losses]
        ranked = sorted(min(loss) for loss in losses)
        assert [result["value"] for result in one["top"]] == ranked[:10]
        assert one["top_mean"] == pytest.approx(statistics.fmean(ranked[:10]))
        assert one["top_std"] == pytest.approx(statistics.stdev(ranked[:10]))
        assert one["trained_share"] == sum(loss < 0.5 for loss in ranked) / 20
        assert set(one["importance"]) == {"training.learning_rate", "training.momentum", "network.activation"}
        assert sum(one["importance"].values()) == pytest.approx(1)
    result = highway("search", "show", finished, fresh=True)
    assert result.returncode == 0, result.stderr
    rows = {line.split("│")[1].strip(): line for line in result.stdout.splitlines() if line.startswith("│")}
    assert set(rows) == {"fc-highway", "fc-plain"}
    assert "20/20" in rows["fc-plain"]
    assert "whose lowest training loss is below 0.5" in result.stdout
    assert "importance for the best tenth (PED-ANOVA): " in result.stdout
    assert f"next: highway search best {finished} > run.toml" in result.stdout


def test_best_repeats_the_trial_to_the_bit(finished: Path, answer: Any, highway: Highway, tmp_path: Path) -> None:
    best = {one["label"]: one["top"][0] for one in answer["configurations"]}
    label = min(best, key=lambda label: best[label]["value"])
    text = highway("search", "best", finished, fresh=True).stdout
    assert text.startswith(f"# Study small, configuration {label}, trial {best[label]['index']}: train-loss {best[label]['value']!r}\n")
    (tmp_path / "run.toml").write_text(text)
    assert highway("train", "run.toml", "--out", "again").returncode == 0
    run = finished / "runs" / label / f"{best[label]['index']:05}"
    for name in ("history.jsonl", "checkpoints/final.safetensors", "spec.toml"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes(), name
    other = next(name for name in best if name != label)
    text = highway("search", "best", finished, "--configuration", other).stdout
    assert text.startswith(f"# Study small, configuration {other}, trial {best[other]['index']}:")


def test_the_best_ones_become_files(finished: Path, answer: Any, highway: Highway, tmp_path: Path) -> None:
    assert highway("search", "best", finished, "--top", 3, "--to", "files").returncode == 0
    for one in answer["configurations"]:
        for rank, trial in enumerate(one["top"][:3], start=1):
            text = (tmp_path / "files" / f"{one['label']}-{rank:02}.toml").read_text()
            assert text.startswith(f"# Study small, configuration {one['label']}, trial {trial['index']}:")
    assert len(list((tmp_path / "files").iterdir())) == 6
    with pytest.raises(InputError, match="--top 3: also name a folder for the files with --to"):
        search.best_command(str(finished), top=3)
    with pytest.raises(InputError, match=r"unknown configuration 'fc-plan': did you mean 'fc-plain'\?"):
        search.best_command(str(finished), configuration="fc-plan")


def test_figures_are_drawn(finished: Path, highway: Highway, tmp_path: Path) -> None:
    result = highway("search", "show", finished, "--figures", "figures", "--format", "png,svg")
    assert result.returncode == 0, result.stderr
    names = ["best", *(f"{kind}-fc-{name}" for kind in ("curves", "settings") for name in ("highway", "plain"))]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == sorted(
        f"{name}.{form}" for name in names for form in ("png", "svg")
    )
    assert result.stdout.count("figure: figures/") == 10
    refused(highway("search", "show", finished, "--figures", finished / "study.toml"), "this is a file; name a folder")


def test_a_finished_study_is_left_as_it_is(finished: Path, highway: Highway) -> None:
    before = {path: path.stat().st_mtime_ns for path in (finished / "runs").rglob("*")}
    result = highway("search", "--join", finished.parent / "study.toml", "--out", finished, "--workers", 1, "--json")
    assert result.returncode == 0, result.stderr
    assert "40 of 40 done" in result.stderr
    assert json.loads(result.stdout)["name"] == "small"
    assert {path: path.stat().st_mtime_ns for path in (finished / "runs").rglob("*")} == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("trials = 20", "trials = 10"), "was made with another trials (20, now 10): choose another name for the changed study"),
        (("high = 0.9", "high = 0.8"), "was made with another [space] training.momentum ("),
        (('["fc-highway", "fc-plain"]', '["fc-plain"]'), "was made with another [axes] network.name ("),
        (("depth = 3", "depth = 4"), "was made with another [run] network ("),
        (
            ('name = "small"', 'name = "other"'),
            'belongs to the study small, with another name ("small", now "other"): name another folder with',
        ),
    ],
)
def test_a_changed_study_is_refused(finished: Path, highway: Highway, tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    (tmp_path / "study.toml").write_text(STUDY.replace(*change))
    for join in (False,) if "name another folder" in sentence else (True, False):
        with pytest.raises(InputError) as caught:
            prepare(locate(str(tmp_path / "study.toml"), None, finished), join=join)
        assert sentence in str(caught.value)
    if "trials" in change[0]:
        refused(highway("search", "study.toml", "--out", finished), sentence)


def test_other_data_and_other_versions_are_refused(highway: Highway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)

    def write(shift: float) -> None:
        rows = "".join(f"{x + shift:.3f},{x * y:.3f},{'ab'[int(x > y)]}\n" for x, y in rng.normal(size=(60, 2)))
        (tmp_path / "own.csv").write_text("x,y,kind\n" + rows)

    write(0)
    text = (
        STUDY.replace("trials = 20", "trials = 1")
        .replace("batch_size = 128", "batch_size = 16")
        .replace('["fc-highway", "fc-plain"]', '["fc-plain"]')
    )
    (tmp_path / "study.toml").write_text(text + '[run.data]\nname = "own.csv"\ntarget = "kind"\n')
    monkeypatch.chdir(tmp_path)
    created(Path("study.toml"), Path("out"))
    write(1)
    refused(
        highway("search", "study.toml", "--out", "out"), "was made with other data, and own.csv has changed: use the same data, or choose"
    )
    with sqlite3.connect(tmp_path / "out" / "study.db") as database:
        database.execute("UPDATE study_user_attributes SET value_json = '99' WHERE key = 'format'")
    database.close()
    for arguments in (["study.toml", "--out", "out"], ["show", "out"]):
        refused(highway("search", *arguments), "was made by another version of highwaynet (format 99, here 1): use that version")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing.toml"], "missing.toml: no such study; give its file, its folder, or its name"),
        (["empty.toml"], "empty.toml: [space] is empty: name at least one field with the values that it may take"),
        (["field.toml"], "field.toml: [space] training.momentm: unknown field of [training] 'momentm': did you mean 'momentum'?"),
        (
            ["batch.toml"],
            "batch.toml: configuration fc-highway: training.batch_size = 5000: digits has 1294 training samples",
        ),
        (["accuracy.toml"], "objective = 'validation-accuracy': digits has no validation samples; set data.validation"),
        (["study.toml", "--out", "study.toml"], "--out study.toml: this is a file"),
        (["--join", "small"], "small: there is no study to join ("),
        (["tiny-digts"], "tiny-digts: no such file, and no built-in study with this name (inside-cifar-100, paper-mnist"),
        (["shwo", "small"], "unknown command 'shwo': did you mean 'show'?"),
        (["orphans"], "orphans: there is no study in this folder"),
        (["run.toml"], "run.toml is a run file, not a study: run it with highway train run.toml"),
        (["show", "study.toml", "--format", "pdf"], "--format pdf: also name a folder for the figures with --figures"),
        (["study.toml", "--out", "what?"], "a question mark in its name"),
        (["small", "--storage", f"postgresql://me:{SECRET}@127.0.0.1:1/db"], "small: no such file; to join a study with this name"),
        (
            ["study.toml", "--storage", f"postgresql://me:{SECRET}@127.0.0.1:1/db"],
            "cannot reach the storage postgresql://me:***@127.0.0.1:1/db (",
        ),
        (
            ["--join", "small", "--storage", f"postgresql://me:{SECRET}@127.0.0.1:1/db"],
            "check that the server runs and accepts this machine, and check host, port, user, password and database in --storage",
        ),
        (["show", "small", "--storage", f"postgresql://me:{SECRET}@127.0.0.1:1/db"], "cannot reach the storage postgresql://me:***@"),
        (["study.toml", "--storage", f"postgresql://me:{SECRET}@host:port/db"], "postgresql://me:***@host:port/db: write it as"),
        (["study.toml", "--out", "text"], "as the storage of a study (file is not a database): choose another folder"),
        (["study.toml", "--out", "orphans"], "orphans has runs of a study that"),
        (["study.toml", "--out", "run"], "--out run: this is a run directory; name another folder for the study"),
        (["show", "nothing"], "nothing: there is no study here ("),
        (["best", "study.toml"], "studies/small/study.db); start it with highway search STUDY.toml"),
        (["show"], "Missing argument"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(highway: Highway, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    files = {
        "study.toml": STUDY,
        "empty.toml": 'name = "a"\n[space]\n',
        "field.toml": STUDY.replace("training.momentum", "training.momentm"),
        "batch.toml": STUDY.replace("batch_size = 128", "batch_size = 5000"),
        "accuracy.toml": 'objective = "validation-accuracy"\n' + STUDY + "[run.data]\nvalidation = 0\n",
        "text/study.db": "this is no database, but a text that is long enough to be one" * 20,
        "orphans/runs/fc-plain/00000/spec.toml": "",
        "run/spec.toml": "",
        "run.toml": "[network]\ndepth = 3\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    refused(highway("search", *arguments), sentence)
    assert sorted(tmp_path.rglob("*")) == before


def test_optuna_is_an_extra(highway: Highway, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "optuna.py").write_text("raise ModuleNotFoundError(\"No module named 'optuna'\", name='optuna')")
    (tmp_path / "study.toml").write_text(STUDY)
    result = highway("search", "study.toml", fresh=True, PYTHONPATH=str(tmp_path / "hidden"))
    refused(result, "search needs optuna: install it with `pip install 'highwaynet[search]'`", code=1)
    assert highway("search", "--help", fresh=True, PYTHONPATH=str(tmp_path / "hidden")).returncode == 0


def test_help_has_all_forms(highway: Highway) -> None:
    text = " ".join(highway("search", "--help").stdout.split())
    for form in ("highway search tiny-digits", "highway search --join STUDY", "show STUDY", "best STUDY > run.toml"):
        assert form in text
    assert "Example: highway search tiny-digits" in highway("search", "run", "--help").stdout
    assert highway("search").returncode == 0


def test_an_order_that_matters_is_said(highway: Highway, tmp_path: Path) -> None:
    text = 'sampler = "tpe"\npruner = "median"\n' + STUDY.replace("trials = 20", "trials = 1")
    (tmp_path / "study.toml").write_text(text.replace('["fc-highway", "fc-plain"]', '["fc-plain"]'))
    created(tmp_path / "study.toml", tmp_path / "studies" / "small")
    assert "with sampler tpe and pruner median, results depend on the order" in highway("search", "show", "small").stdout
    refused(highway("search", "best", "small"), "small: no trial is done yet; run the study first")
    sentence = opening(read_study(tmp_path / "study.toml"), 2, "somewhere")
    assert sentence == (
        "study small: 1 configuration of 1 trials, 2 workers, storage somewhere; with sampler tpe and pruner median, results depend on the "
        "order in which trials end"
    )


def test_a_terminal_shows_a_table(finished: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = forked.start("search", finished.parent / "study.toml", "--out", finished, stderr=theirs, TERM="xterm")
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # how a terminal ends
        while more := os.read(ours, 65536):
            seen += more
    os.close(ours)
    process.communicate()
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert re.search(r"configuration\s+┃\s+done\s+┃\s+running\s+┃\s+pruned\s+┃\s+failed\s+┃\s+best", text), text
    assert re.search(r"fc-highway\s+│ 20/20 │\s+0 │\s+0 │\s+0 │ \d", text), text


def test_a_study_can_get_more_trials(highway: Highway, tmp_path: Path) -> None:
    text = STUDY.replace('["fc-highway", "fc-plain"]', '["fc-plain"]')
    for trials in (2, 3):
        (tmp_path / "study.toml").write_text(text.replace("trials = 20", f"trials = {trials}"))
        result = highway("search", "study.toml", "--out", "out", "--workers", 1, "--json", fresh=trials == 2)
        assert result.returncode == 0, result.stderr
        assert [one["index"] for one in json.loads(result.stdout)["configurations"][0]["results"]] == list(range(trials))
    assert read_study(tmp_path / "out" / "study.toml").trials == 3
    assert "3/3" in highway("search", "show", "out").stdout
    longer = highway("search", "finals", "out", "--top", 2, "--epochs", 3)
    assert longer.returncode == 0, longer.stderr
    (tmp_path / "finals.toml").write_text(longer.stdout)
    assert (read_study(tmp_path / "finals.toml").trials, read_study(tmp_path / "finals.toml").run["training"]["epochs"]) == (2, 3)
    refused(highway("search", "finals", "out"), "--top 10: fc-plain has 3 trials that finished and did not diverge; ask for --top 3")


def test_files_mean_the_same_from_everywhere(highway: Highway, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("x,y,kind\n" + "".join(f"{x % 7},{x % 5},{'ab'[x % 2]}\n" for x in range(60)))
    text = STUDY.replace("trials = 20", "trials = 1").replace('["fc-highway", "fc-plain"]', '["fc-plain"]')
    (tmp_path / "study.toml").write_text(text.replace("= 128", "= 16") + '[run.data]\nname = "own.csv"\ntarget = "kind"\n')
    assert highway("search", "study.toml", "--workers", 1).returncode == 0
    (tmp_path / "elsewhere").mkdir()
    for place in (
        tmp_path / "studies" / "small",
        tmp_path / "studies" / "small" / "study.toml",
        tmp_path / "studies" / "small" / "study.db",
    ):
        found = highway("search", "best", place, cwd=tmp_path / "elsewhere")
        assert found.returncode == 0, found.stderr
        assert f'name = "{tmp_path / "own.csv"}"' in found.stdout


def test_an_unfinished_study_says_so(highway: Highway, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    created(tmp_path / "study.toml", tmp_path / "studies" / "small")
    shown = highway("search", "show", "small")
    assert "0/20" in shown.stdout
    assert "not finished; continue with: highway search" in shown.stdout
    (tmp_path / "study.toml").write_text(STUDY.replace("seed = 3", "seed = 4"))
    assert "study.toml was changed after the study was made" in highway("search", "show", "study.toml").stderr
