"""The README tells the truth: its Python runs, its commands exist, its numbers have records."""

import json
import re
import runpy
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer

from highwaynet import load
from highwaynet.cli.main import app
from highwaynet.experiments.pool import key_of
from highwaynet.experiments.records import load_claim, load_plan
from highwaynet.experiments.registry import CLAIMS
from highwaynet.experiments.reproduce import judged, stored_evidence
from highwaynet.networks.build import count_parameters
from highwaynet.networks.description import describe
from highwaynet.networks.presets import PRESETS
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.records import EpochRecord
from highwaynet.runs.spec import spec_from_values

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def demo_table() -> str:
    """The README's table, made from the record of the demo."""
    lines = ["| 50 layers | parameters | training loss | test loss | test accuracy |", "|---|---|---|---|---|"]
    for network in json.loads((ROOT / "results" / "demo.json").read_text())["networks"]:
        loss, test, accuracy = (network["summary"][name] for name in ("train_loss", "test_loss", "test_accuracy"))
        numbers = [f"{value['mean']:.3f} ± {value['std']:.3f}" for value in (loss, test)]
        numbers.append(f"{100 * accuracy['mean']:.1f} ± {100 * accuracy['std']:.1f} %")
        lines.append(f"| {network['network']} | {network['parameters']:,} | {' | '.join(numbers)} |")
    return "\n".join(lines)


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
def test_python_runs(block: str) -> None:
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert len(names) > 2


def test_the_recipes_in_python_run_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "PYTHON.md").read_text(), flags=re.DOTALL)
    for block in blocks:
        lines = [line for line in block.splitlines() if line.strip() and not line.startswith(("import ", "from "))]
        assert len(lines) <= 10
        exec(compile(block, "PYTHON.md", "exec"), {})
    said = capsys.readouterr().out
    assert "runs/deep exists already" in said
    assert "test accuracy: best" in said
    code = f"import numpy, highwaynet; print(highwaynet.load({str(tmp_path / 'runs/short')!r}).predict(numpy.ones((2, 1, 8, 8))).tolist())"
    other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert other.strip() == str(load(tmp_path / "runs/short").predict(np.ones((2, 1, 8, 8))).tolist())


def test_the_layers_example_is_the_papers_network() -> None:
    names: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[0], names)
    assert count_parameters(names["model"]) == 544_660


def test_the_demo_table_is_the_record() -> None:
    found = re.search(r"<!-- demo: results/demo.json -->\n(.*?)\n<!-- end -->", README, flags=re.DOTALL)
    assert found
    assert found[1] == demo_table()


def bench_table() -> str:
    """The README's table of speeds, made from the record of `highway bench` with two threads."""
    record = json.loads((ROOT / "results" / "bench-2-threads.json").read_text())
    lines = [
        "| layers of a network, width, batch | highwaynet | naive PyTorch | JAX, jit + scan | highwaynet × naive |",
        "|---|---|---|---|---|",
    ]
    rows: dict[str, dict[str, float]] = {}
    for measured in record["steps"]:
        setting = measured["setting"]
        name = f"{setting['layers']} {setting['kind']}, {setting['width']}, {setting['batch']}"
        rows.setdefault(name, {})[measured["peer"]] = measured["milliseconds"]
    for name, times in rows.items():
        cells = [f"{times[peer]:.2f} ms" for peer in ("highwaynet", "naive PyTorch", "JAX, jit + scan")]
        lines.append(f"| {name} | {' | '.join(cells)} | {times['naive PyTorch'] / times['highwaynet']:.1f} |")
    return "\n".join(lines)


def test_the_table_of_speeds_is_the_record() -> None:
    found = re.search(r"<!-- bench: results/bench-2-threads.json -->\n(.*?)\n<!-- end -->", README, flags=re.DOTALL)
    assert found
    assert found[1] == bench_table()


def test_the_page_of_settings_is_up_to_date() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "settings.py"))["page"]
    assert (ROOT / "docs" / "SETTINGS.md").read_text() == page(), "run python docs/settings.py"


def test_the_page_about_the_inside_is_up_to_date() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "inside.py"))["page"]
    assert (ROOT / "docs" / "INSIDE.md").read_text() == page(), "run python docs/inside.py"
    for path in re.findall(r"\]\(\.\./(results/[^)]*)\)", page()):
        assert (ROOT / path).exists()


RESULTS = runpy.run_path(str(ROOT / "docs" / "results.py"))
RECORDED = sorted(path.parent for path in (ROOT / "results").glob("*/record.json"))


def test_the_page_of_results_is_the_records() -> None:
    assert (ROOT / "docs" / "RESULTS.md").read_text() == RESULTS["page"](), "run python docs/results.py"
    for path in re.findall(r"\]\(\.\./(results[^)#]*)\)", RESULTS["page"]()):
        assert (ROOT / path).exists(), path


def test_the_table_of_the_paper_s_study_is_its_record() -> None:
    text = (ROOT / "docs" / "SEARCH.md").read_text()
    assert RESULTS["search_page"](text) == text, "run python docs/results.py"
    assert text.count("| highway, ") == text.count("| plain, ") == 4


def test_the_table_of_results_is_the_records() -> None:
    assert RESULTS["BEGIN"] in README
    assert RESULTS["readme"](README) == README, "run python docs/results.py"


def test_a_table_of_results_is_put_between_its_marks() -> None:
    text = f"before\n{RESULTS['BEGIN']}\nold\n{RESULTS['END']}\nafter\n"
    new = RESULTS["readme"](text)
    assert new.startswith(f"before\n{RESULTS['BEGIN']}\n| claim | the paper | here |")
    assert new.endswith(f"ones were known.\n{RESULTS['END']}\nafter\n")
    assert "old" not in new
    assert RESULTS["readme"](new) == new
    assert all(f"](docs/RESULTS.md#{name})" in new for name in CLAIMS)
    assert RESULTS["readme"]("no marks\n") == "no marks\n"


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_that_need_a_gpu_are_those_without_runs_on_a_laptop(name: str) -> None:
    assert (name in RESULTS["NEEDS_A_GPU"]) == (not CLAIMS[name].plan("laptop", None))


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_records_of_claims_follow_from_what_is_stored_with_them(folder: Path) -> None:
    record, plan = load_claim(folder), load_plan(folder)
    assert record
    assert plan
    claim, evidence = CLAIMS[record.claim], stored_evidence(folder, record)
    planned = {run.label: key_of(run.spec) for run in claim.plan(record.scale, None)}
    assert plan.runs == {run.label: key_of(run.spec) for run in evidence}, "what was run is what had been planned"
    assert plan.runs == planned, "what would be run now is what was run"
    again = judged(claim, evidence, plan)
    assert again.model_copy(update={"figures": record.figures}) == record
    assert all((folder / "figures" / name).is_file() for name in record.figures)


def said_commands() -> list[tuple[str, str]]:
    """Every `highway …` of a block in the README and docs/, with the flags that its comment names."""
    found: list[tuple[str, str]] = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for block in re.findall(r"```\w*\n(.*?)```", page.read_text(), flags=re.DOTALL):
            found += [
                (page.name, part.strip()) for line in block.splitlines() for part in line.split("&&") if part.strip().startswith("highway ")
            ]
    return found


def test_every_command_on_our_pages_exists_with_its_flags() -> None:
    said = said_commands()
    assert {line.split()[1] for page, line in said if page == "README.md"} >= {*typer.main.get_command(app).commands} - {"bench"}
    for page, line in said:
        command, words = typer.main.get_command(app), line.split()[1:]
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0) if words[0] in command.commands else "run"]
        known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", line)) <= known, f"{page}: {line}"


def test_parameter_counts_in_the_table_of_networks() -> None:
    rows = re.search(r"### The networks\n\n(.*?)\n\n", README, flags=re.DOTALL)[1].splitlines()[2:]
    listed = " ".join(name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1]))
    counts = {int(count.replace(",", "")) for row in rows for count in re.findall(r"[\d,]{6,}", row.split("|")[3])}
    known: set[int] = set()
    for name, preset in PRESETS.items():
        stem, _, end = name.rpartition("-")
        assert name in listed.split() or (stem in listed and f"-{end}" in listed.split()), name
        heads = ("gap", "dense") if "head" in preset.settings else (None,)
        depths = (50,) if preset.traits.has_variants else (10, 20, 50, 100)
        for variant in preset.origins if preset.traits.has_variants else (None,):
            for head in heads:
                for depth in depths:
                    values = {"variant": variant, "head": head} | ({} if preset.traits.has_variants else {"depth": depth})
                    known.add(describe(NetworkSpec(name=name, **values), preset.made_for, 10).parameters)
    assert counts <= known
    assert len(counts) > 20


PUBLISHED = {
    "mnist-highway-16": "99.43 (99.40 ± 0.03) %, 300 epochs",
    "mnist-highway-32": "99.55 (99.54 ± 0.02) %, 300 epochs",
    "highway-a": "89.18 %, 400 epochs",
    "resnet-20": "91.25 % (He et al.), 164 epochs",
}


def quick_table() -> str:
    """The README's table of real runs, made from their records."""
    lines = ["| recipe `quick` | data | epochs | test accuracy here | published |", "|---|---|---|---|---|"]
    for network, published in PUBLISHED.items():
        folders = sorted((ROOT / "results" / "quick").glob(f"{network}-seed*"))
        specs = [spec_from_values(tomllib.loads((folder / "spec.toml").read_text())) for folder in folders]
        assert {spec.network.name for spec in specs} == {network}
        assert {spec.training.recipe for spec in specs} == {"quick"}
        scores = [100 * json.loads((folder / "test.json").read_text())["accuracy"] for folder in folders]
        text = f"{statistics.mean(scores):.2f} %"
        if len(scores) > 1:
            text = f"{max(scores):.2f} ({statistics.mean(scores):.2f} ± {statistics.stdev(scores):.2f}) %, {len(scores)} seeds"
        lines.append(f"| `{network}` | {specs[0].data.name} | {specs[0].training.epochs} | {text} | {published} |")
    return "\n".join(lines)


def test_the_table_of_real_runs_is_their_records() -> None:
    found = re.search(r"<!-- quick: results/quick -->\n(.*?)\n<!-- end -->", README, flags=re.DOTALL)
    assert found
    assert found[1] == quick_table()


@pytest.mark.parametrize("folder", sorted((ROOT / "results" / "quick").glob("*")), ids=lambda folder: folder.name)
def test_records_of_real_runs_are_whole(folder: Path) -> None:
    spec = spec_from_values(tomllib.loads((folder / "spec.toml").read_text()))
    history = [EpochRecord.model_validate_json(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [line.epoch for line in history] == list(range(1, spec.training.epochs + 1))
    assert json.loads((folder / "environment.json").read_text())["torch"]
    assert json.loads((folder / "test.json").read_text())["samples"] == 10_000


def test_the_two_commands_exist_and_ci_runs_the_second() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo:", makefile, flags=re.MULTILINE)
    assert re.search(r"^test:", makefile, flags=re.MULTILINE)
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")


def test_the_demo_trains_both_networks_under_one_budget() -> None:
    from highwaynet.runs.spec import read_spec_values, spec_from_values

    plain, highway = (spec_from_values(read_spec_values(ROOT / "examples" / "demo" / f"{name}.toml")) for name in ("plain", "highway"))
    assert plain.network.depth == highway.network.depth == 50
    assert (plain.training.epochs, plain.training.batch_size) == (highway.training.epochs, highway.training.batch_size)
    assert (plain.data, plain.seed) == (highway.data, highway.seed)
    record = json.loads((ROOT / "results" / "demo-search.json").read_text())
    search = runpy.run_path(str(ROOT / "examples" / "demo" / "search.py"))
    for spec in (plain, highway):
        trial = search["best_trial"](spec.network.name, record["trials"], record["finals"])
        assert search["draw"](spec.network.name, trial) == spec, "the demo's settings are the best of the search"
