"""The README tells the truth: its Python runs, its commands exist, its numbers have records."""

import json
import re
import runpy
from pathlib import Path

import pytest

from highwaynet.networks.build import build_network, count_parameters
from highwaynet.networks.spec import NetworkSpec
from support import Highway

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


def test_the_layers_example_is_the_papers_network() -> None:
    names: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[0], names)
    assert count_parameters(names["model"]) == 544_660


def test_the_demo_table_is_the_record() -> None:
    found = re.search(r"<!-- demo: results/demo.json -->\n(.*?)\n<!-- end -->", README, flags=re.DOTALL)
    assert found
    assert found[1] == demo_table()


def test_every_command_in_the_readme_exists(highway: Highway) -> None:
    commands = {line.split()[1] for line in README.splitlines() if line.startswith("highway ")}
    assert commands >= {"train", "evaluate", "report", "networks", "data", "predict"}
    for command in commands:
        assert highway(command, "--help").returncode == 0, command
    flags = {flag for line in README.splitlines() if line.startswith("highway train") for flag in re.findall(r"--[\w-]+", line)}
    text = highway("train", "--help").stdout
    assert all(flag in text for flag in flags)


def test_parameter_table() -> None:
    rows = re.findall(r"\| `(fc-\w+)`, width \d+ \|(.*)", README)
    assert len(rows) == 3
    for name, counts in rows:
        expected = [count_parameters(build_network(NetworkSpec(name=name, depth=depth), (784,), 10)) for depth in (10, 20, 50, 100)]
        assert [int(count.replace(",", "")) for count in counts.split("|")[:4]] == expected


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
