"""README and docs/ are true and readable: Python runs, commands exist, numbers have records, links lead somewhere, lines are short."""

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
from highwaynet.experiments.choice import Choice
from highwaynet.experiments.claim_records import load_claim, load_plan
from highwaynet.experiments.keys import key_of
from highwaynet.experiments.race import validated
from highwaynet.experiments.registry import CLAIMS
from highwaynet.experiments.reproduce import judged, stored_evidence
from highwaynet.experiments.specs import FIRST_SEED
from highwaynet.networks.build import count_parameters
from highwaynet.networks.description import describe
from highwaynet.networks.presets import PRESETS
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.run_records import EpochRecord
from highwaynet.runs.spec import spec_from_values

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = {path.name: path for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))}
PYTHON = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
# tests/test_api.py is about API.md; the recipes in PYTHON.md build on one another.
BLOCKS = [
    pytest.param(block, id=f"{name}-{number}")
    for name, path in DOCUMENTS.items()
    if name not in {"API.md", "EXPORT.md", "PYTHON.md"}  # tests of their own run the others
    for number, block in enumerate(PYTHON.findall(path.read_text()), start=1)
]


def page(name: str) -> str:
    return DOCUMENTS[name].read_text()


def between(mark: str, name: str, end: str = "<!-- end -->") -> str:
    """What stands on a page between two marks."""
    found = re.search(rf"<!-- {mark} -->\n(.*?)\n{end}", page(name), flags=re.DOTALL)
    assert found, f"{name} has no {mark}"
    return found[1]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_lines_are_short(name: str) -> None:
    assert [line for line in page(name).splitlines() if len(line) > 120] == []


def test_the_first_pages_are_short() -> None:
    assert len(README.splitlines()) <= 160
    assert len(page("ARCHITECTURE.md").splitlines()) <= 220


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    text = re.sub(r"```.*?```", "", page(name), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[\w-]+\]: (\S+)$", text, flags=re.MULTILINE)
    for target in targets:
        path, _, anchor = target.partition("#")
        if path.startswith("https:"):
            continue
        file = DOCUMENTS[name].parent / path if path else DOCUMENTS[name]
        assert file.exists(), f"{name}: {target}"
        if anchor:
            assert anchor in anchors(file.read_text()), f"{name}: {target}"


def anchors(text: str) -> list[str]:
    """Where links into a page may lead: its headings, and anchors that are set by hand."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings] + re.findall(r'<a id="(.*?)">', text)


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "DECISIONS.md"])
def test_files_that_a_page_names_exist(name: str) -> None:
    named = re.findall(r"`([a-z]\w*/[\w./-]+\.\w+)`", page(name))
    assert len(named) > 3
    for file in named:
        places = (ROOT / file, ROOT / "src" / "highwaynet" / file)
        assert "NAME" in file or any(place.exists() for place in places), file


# The text of the other pages comes from the code and from records.
@pytest.mark.parametrize("name", sorted(DOCUMENTS.keys() - {"API.md", "RESULTS.md", "INSIDE.md", "SETTINGS.md"}))
def test_paragraphs_are_short(name: str) -> None:
    text = re.sub(r"```.*?```|<!--.*?-->", "\n", page(name), flags=re.DOTALL)
    text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) |\[[\w-]+\]: )", text):
        assert len(paragraph.strip().splitlines()) <= 5, paragraph


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {Path(target).name for target in re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", README)}
    assert linked >= set(DOCUMENTS) - {"README.md"}


def demo_table() -> str:
    """The README's table, made from the record of the demo."""
    lines = ["| 50 layers | parameters | training loss | test loss | test accuracy |", "|---|---|---|---|---|"]
    for network in json.loads((ROOT / "results" / "demo.json").read_text())["networks"]:
        loss, test, accuracy = (network["summary"][name] for name in ("train_loss", "test_loss", "test_accuracy"))
        numbers = [f"{value['mean']:.3f} ± {value['std']:.3f}" for value in (loss, test)]
        numbers.append(f"{100 * accuracy['mean']:.1f} ± {100 * accuracy['std']:.1f} %")
        lines.append(f"| {network['network']} | {network['parameters']:,} | {' | '.join(numbers)} |")
    return "\n".join(lines)


@pytest.mark.parametrize("block", BLOCKS)
def test_python_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(block, "page", "exec"), names)
    assert len(names) > 2


def test_the_recipes_in_python_run_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    for block in PYTHON.findall(page("PYTHON.md")):
        lines = [line for line in block.splitlines() if line.strip() and not line.startswith(("import ", "from "))]
        assert len(lines) <= 10
        exec(compile(block, "PYTHON.md", "exec"), {})
    said = capsys.readouterr().out
    assert "runs/deep already exists" in said
    assert "test accuracy: best" in said
    code = f"import numpy, highwaynet; print(highwaynet.load({str(tmp_path / 'runs/short')!r}).predict(numpy.ones((2, 1, 8, 8))).tolist())"
    other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert other.strip() == str(load(tmp_path / "runs/short").predict(np.ones((2, 1, 8, 8))).tolist())


@pytest.mark.parametrize("name", ["README.md", "LAYERS.md"])
def test_the_first_example_is_the_papers_network(name: str) -> None:
    names: dict[str, object] = {}
    exec(PYTHON.findall(page(name))[0], names)
    assert count_parameters(names["model"]) == 544_660


def test_the_demo_table_is_the_record() -> None:
    assert between("demo: results/demo.json", "README.md") == demo_table()


def bench_table() -> str:
    """The table of speeds, made from the record of `highway bench` with two threads."""
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
    table = bench_table()
    assert between("bench: results/bench-2-threads.json", "SPEED.md") == table
    cells = table.splitlines()[2].split(" | ")
    said = re.search(r"of 50 layers takes ([\d.]+ ms) on two cores, ([\d.]+) times as fast", README)
    assert said
    assert (said[1], f"{said[2]} |") == (cells[1], cells[-1])


def test_the_page_of_settings_is_up_to_date() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "settings.py"))["page"]
    assert page("SETTINGS.md") == written(), "run python docs/settings.py"


def test_the_page_about_the_inside_is_up_to_date() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "inside.py"))["page"]
    assert page("INSIDE.md") == written(), "run python docs/inside.py"


MEASURED = runpy.run_path(str(ROOT / "docs" / "measured.py"))


@pytest.mark.parametrize("mark", MEASURED["TABLES"])
def test_tables_of_measured_numbers_are_those_of_the_records(mark: str) -> None:
    name, _, make = MEASURED["TABLES"][mark]
    assert page(name) == MEASURED["written"](mark, page(name), make()), "run python docs/measured.py"


RESULTS = runpy.run_path(str(ROOT / "docs" / "results.py"))
RECORDED = sorted(path.parent for path in (ROOT / "results").glob("*/record.json"))


def test_the_page_of_results_is_the_records() -> None:
    assert page("RESULTS.md") == RESULTS["page"](), "run python docs/results.py"


def test_the_table_of_the_paper_s_study_is_its_record() -> None:
    text = page("SEARCH.md")
    assert RESULTS["search_page"](text) == text, "run python docs/results.py"
    assert text.count("| highway, ") == text.count("| plain, ") == 4


def test_the_table_of_results_is_the_records() -> None:
    assert RESULTS["BEGIN"] in README
    assert RESULTS["readme"](README) == README, "run python docs/results.py"


def test_a_table_of_results_is_put_between_its_marks() -> None:
    text = f"before\n{RESULTS['BEGIN']}\nold\n{RESULTS['END']}\nafter\n"
    new = RESULTS["readme"](text)
    assert new.startswith(f"before\n{RESULTS['BEGIN']}\n| claim | the paper | here |")
    assert new.endswith(f"names the commit.\n{RESULTS['END']}\nafter\n")
    assert "old" not in new
    assert RESULTS["readme"](new) == new
    whole = RESULTS["page"]()
    for name in CLAIMS:
        shown = [f"][{name}] |" in whole, f"\n[{name}]: #{name}\n" in whole, f"`{name}`" not in new]
        assert shown in ([True] * 3, [False] * 3), "in the table, or named below it"
    assert RESULTS["readme"]("no marks\n") == "no marks\n"


def test_verdicts_say_if_they_are_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    record = load_claim(ROOT / "results" / "fig1")
    assert record
    old = record.model_copy(update={"rules": tuple(rule.model_copy(update={"fresh": False}) for rule in record.rules)})
    new = record.model_copy(update={"rules": tuple(rule.model_copy(update={"fresh": True, "seeds": 3}) for rule in record.rules)})
    for changed, word, note in ((old, "", "No verdict is *fresh* yet"), (new, " (fresh)", "Fresh: the rules were committed")):
        monkeypatch.setitem(RESULTS["overview"].__globals__, "records", lambda known={"fig1": changed}: known)
        line = next(line for line in RESULTS["overview"]() if line.startswith("| [Figure 1]"))
        assert f"| {record.headline} | {changed.verdict}{word}" in line
        below = " ".join(RESULTS["overview"]())
        assert f". {note}" in below
        assert "Not run yet: `convergence`, `carry`" in below
        assert f"{sum(rule.fresh for rule in changed.rules)} are fresh." in "\n".join(RESULTS["coverage"]())
        assert "Not run yet: `convergence`, `carry`" in "\n".join(RESULTS["coverage"]()), "claims without a record"


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_records_of_claims_follow_from_what_is_stored_with_them(folder: Path) -> None:
    record, plan = load_claim(folder), load_plan(folder)
    assert record
    assert plan
    claim, evidence = CLAIMS[record.claim], stored_evidence(folder, record)
    runs = {run.label: run for run in claim.plan(record.scale, None)}
    choice = Choice([runs[label] for label in plan.runs if label in runs], lambda run: validated(evidence[run.label]))
    made = {label: key for label, key in plan.runs.items() if label not in runs or choice.made(runs[label])}
    assert made == {run.label: key_of(run.spec) for run in evidence}, "what was run is what had been planned"
    if any(rule.fresh for rule in record.rules):
        planned = {run.label: key_of(run.spec) for run in claim.plan(record.scale, None)}
        assert plan.runs == planned, "what would be run now is what was run"
        assert all(run.spec.seed >= FIRST_SEED for run in evidence)
        assert plan.commit
    again = judged(claim, evidence, plan)
    assert again.model_copy(update={"figures": record.figures}) == record
    assert all((folder / "figures" / name).is_file() for name in record.figures)


def said_commands() -> list[tuple[str, str]]:
    """Every `highway …` of a block in the documents, with the flags that its comment names, and of a line of text."""
    found: list[tuple[str, str]] = []
    for name, path in DOCUMENTS.items():
        blocks = re.findall(r"```\w*\n(.*?)```", path.read_text(), flags=re.DOTALL)
        parts = [part.strip() for block in blocks for line in block.splitlines() for part in line.split("&&")]
        found += [(name, part) for part in parts if part.startswith("highway ")]
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        found += [(name, command) for command in re.findall(r"`(highway [a-z][^`]*)`", text)]
    return found


def test_every_command_on_our_pages_exists_with_its_flags() -> None:
    said = said_commands()
    assert {line.split()[1] for _, line in said} == {*typer.main.get_command(app).commands}
    for name, line in said:
        command, words = typer.main.get_command(app), line.split()[1:]
        while words and hasattr(command, "commands"):
            command = command.commands[words.pop(0) if words[0] in command.commands else "run"]
        known = {"--help", *(flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts))}
        assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", line)) <= known, f"{name}: {line}"


def test_parameter_counts_in_the_table_of_networks() -> None:
    rows = between("networks", "NETWORKS.md").splitlines()[2:]
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
    "highway-a": "89.18 %",
    "resnet-20": "91.25 % (He et al.), 164 epochs",
}


def quick_table() -> str:
    """The table of real runs, made from their records."""
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
    assert between("quick: results/quick", "NETWORKS.md") == quick_table()


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
