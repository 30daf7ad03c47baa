"""Hostile texts: huge numbers, endless keys, deep nesting. Each is one sentence and exit code 2, in little time and memory."""

import json
import resource
import shutil
from pathlib import Path

import pytest

from highwaynet.base.errors import InputError
from highwaynet.base.parsing import MOST_TOML, parse_json, parse_toml
from highwaynet.base.specs import parsed
from highwaynet.base.text import visible
from highwaynet.data.record import DataRecord
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import spec_from_values
from highwaynet.search.spec import parse_study
from support import Highway, Runs

DIGITS = "9" * 5000
NESTED = "[" * 100_000


def refused(highway: Highway, *arguments: object, contains: str) -> str:
    done = highway(*arguments)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "error in highwaynet itself" not in done.stderr
    assert contains in done.stderr, done.stderr
    assert len(done.stderr) < 1000
    return done.stderr


@pytest.mark.parametrize(
    ("text", "contains"),
    [
        (f"seed = {DIGITS}", "digits"),
        (f"seed = [{DIGITS}]", "digits"),
        (".".join(["a"] * 20_000) + " = 1", "sections"),
        ("[" + ".".join(["a"] * 20_000) + "]", "sections"),
        ("x = {" + ".".join(['"a b"'] * 20_000) + " = 1}", "sections"),
        ("x = " + NESTED, "nested"),
        ("x = " + "{a = " * 50_000, "nested"),
        ("#" * (MOST_TOML + 1), "too large"),
        ("seed = 1e400", "seed"),
    ],
)
def test_texts_of_specs_are_limited_before_they_are_read(text: str, contains: str, tmp_path: Path, highway: Highway) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    refused(highway, "train", path, contains=contains)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before < 400_000  # KB
    assert not (tmp_path / "runs").exists()


def test_ordinary_texts_are_not_refused() -> None:
    words = ".".join(["part"] * 30)
    assert parse_toml(f'a.b.c = 1\nx = [{", ".join(["1.5"] * 500)}]\ntext = "{words} = 3"\n', Path("x.toml"))["a"] == {"b": {"c": 1}}


@pytest.mark.parametrize("flag", ["--seed", "--set"])
def test_huge_numbers_in_flags(flag: str, highway: Highway) -> None:
    refused(highway, "train", flag, DIGITS if flag == "--seed" else f"seed={DIGITS}", contains="seed = '9999")


def test_one_run_with_a_huge_number_does_not_hide_the_others(finished_run: Runs, highway: Highway, tmp_path: Path) -> None:
    for name in ("good", "huge"):
        shutil.copytree(finished_run("fc-highway").path, tmp_path / "runs" / name)
    spec = tmp_path / "runs" / "huge" / "spec.toml"
    spec.write_text(spec.read_text().replace("seed = ", f"seed = {DIGITS}", 1))
    done = highway("runs", "runs", "--json")
    assert done.returncode == 0, done.stderr
    states = {Path(run["run"]).name: run["state"] for run in json.loads(done.stdout)}
    assert states == {"good": "finished", "huge": "damaged"}


@pytest.mark.parametrize("text", [NESTED, '{"a":' * 100_000, DIGITS, "{", "nul", b"\xff"])
def test_json_is_an_input_error(text: str | bytes) -> None:
    with pytest.raises(InputError, match=r"^x\.json is damaged: "):
        parse_json(text, "x.json")


@pytest.mark.parametrize("name", ["plan.json", "environment.json", "data.json", "history.jsonl", "timing.jsonl", "checkpoints/final.json"])
@pytest.mark.parametrize("command", ["evaluate", "report", "inspect", "runs"])
def test_nested_json_in_a_run(name: str, command: str, finished_run: Runs, highway: Highway) -> None:
    run = finished_run("fc-highway")
    (run.path / name).write_text(NESTED + "\n")
    done = highway(command, run.path)
    assert "Traceback" not in done.stderr
    assert "error in highwaynet itself" not in done.stderr
    assert done.returncode in ((0,) if command == "runs" else (0, 2))


@pytest.mark.parametrize("content", [NESTED.encode(), b"{}", b"", b"\x00" * 10, b'{"fingerprint": 3}'])
def test_damaged_records_are_computed_again(content: bytes, finished_run: Runs, highway: Highway) -> None:
    run = finished_run("fc-highway")
    assert highway("inspect", run.path).returncode == 0
    records = sorted((run.path / "analysis").glob("*.json"))
    assert records
    for path in records:
        path.write_bytes(content)
    done = highway("inspect", run.path)
    assert done.returncode == 0, done.stderr
    assert RunDirectory.open(run.path).has_record(records[0].stem)


@pytest.mark.parametrize("bounds", [f"low = 0.01, high = {'9' * 400}", f"low = 1, high = {'9' * 400}", f"low = -{'9' * 400}, high = 0.5"])
def test_bounds_of_a_study_that_no_float_can_hold(bounds: str) -> None:
    text = f'name = "s"\ntrials = 1\n[space]\n"training.learning_rate" = {{ kind = "uniform", {bounds} }}\n'
    with pytest.raises(InputError, match=r"between −2\*\*53 and 2\*\*53"):
        parse_study(text, Path("study.toml"))


@pytest.mark.parametrize("shape", [[1, 10**400, 8], [1, -8, 8], [3, 8], []], ids=["huge", "negative", "flat", "empty"])
def test_shapes_of_samples_that_cannot_be(shape: list[int]) -> None:
    counts = dict.fromkeys(("train", "validation", "test"), 1)
    with pytest.raises(InputError, match="input_shape"):
        parsed(
            DataRecord, json.dumps({"found": "x", "kind": "images", "task": "classification", "input_shape": shape} | counts), "data.json"
        )


@pytest.mark.parametrize("name", ["\u202e" * 300, "x" * 3000])
def test_unknown_fields_with_endless_names(name: str) -> None:
    record = {"found": "x", "kind": "images", "task": "classification", "input_shape": [1, 8, 8], name: 1}
    for text in (json.dumps(record), json.dumps(record | {"prepared": {name: 1}})):
        with pytest.raises(InputError) as caught:
            parsed(DataRecord, text, "data.json")
        assert len(visible(str(caught.value))) < 400
    with pytest.raises(InputError) as caught:
        spec_from_values({"training": {name: 1}})
    assert len(visible(str(caught.value))) < 1000


def test_sentences_about_endless_names_are_cut_as_they_are_shown(highway: Highway, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        'name = "s"\ntrials = 1\n[space]\n"' + "\u202e" * 900 + '" = { kind = "uniform", low = 0, high = 1 }\n'
    )
    (tmp_path / "run.toml").write_text('[data]\nname = "' + "\u202e" * 200 + '/x.npz"\n', encoding="utf-8")
    for arguments in (("search", "study.toml"), ("train", "run.toml")):
        done = highway(*arguments)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()[-1]) < 1300


def test_suggestions_for_endless_names_take_no_time() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with pytest.raises(InputError, match="unknown field"):
        spec_from_values({"training": {"x" * 1_000_000: 1}})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 1, "of processor time; comparing all of it took 4"
