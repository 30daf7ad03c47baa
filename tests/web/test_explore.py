"""What a page holds, and what `highway explore` says; without a browser."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from highwaynet import DataSpec, InputError, NetworkSpec, RunSpec, TrainingSpec, explore, inspect, load_dataset, train
from highwaynet.analysis.closing import closing, score_routes
from highwaynet.networks.description import describe_plan
from highwaynet.runs.directory import RunDirectory
from highwaynet.web import contents, page
from highwaynet.web.contents import input_contents, sample_contents
from highwaynet.web.explore import page_path, pages_about
from holding import PATIENCE
from support import Highway

Finished = Callable[[str], RunDirectory]


def parts_of(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The description and the arrays inside a page."""
    text = path.read_text()
    found = dict(re.findall(r'<script type="text/plain" id="bytes-([^"]+)">([^<]*)</script>', text))
    facts = re.search(r'<script type="application/json" id="facts">(.*?)</script>', text)
    assert facts
    return json.loads(facts[1]), {name: base64.b64decode(content) for name, content in found.items()}


def test_the_page_holds_the_network_and_its_means(finished_run: Finished) -> None:
    run = finished_run("fc-highway")
    facts, arrays = parts_of(explore(run.path, samples=25))
    (network,) = facts["networks"]
    assert (network["title"], network["kind"], len(network["rows"]), network["columns"]) == ("6-layer highway", "highway", 6, 12)
    numbers = np.frombuffer(arrays["network-0"], "<f4")
    study = inspect(run.path)
    weight = study.network.stack.weight[2].detach().numpy()  # type: ignore[union-attr]
    start = network["steps"][3]["w"]
    assert np.array_equal(numbers[start : start + weight.size].reshape(weight.shape), weight)
    gates = numbers[network["meanGates"] : network["meanGates"] + 72].reshape(6, 12)
    assert np.isnan(gates[0]).all(), "the first layer has no gates"
    assert gates[1:] == pytest.approx(_mean_gates(study), abs=1e-6)
    assert (facts["samples"]["count"], len(arrays["samples"])) == (25, 25 * 64 * facts["samples"]["bytes"])


def _mean_gates(study: Any) -> Any:
    inputs, _ = next(study.data.train.spread(1000).batches(1000))
    with torch.inference_mode():
        _, gates = study.network(inputs, return_gates=True)
    return gates.mean(dim=1).numpy()


def test_idle_layers_can_be_closed_together(finished_run: Finished) -> None:
    study = inspect(finished_run("fc-highway").path)
    idle = contents._idle(study, describe_plan(study.network.plan).multiply_adds)
    part = study.data.validation
    routes = [closing(5, set()), closing(5, set(idle))]
    scores = score_routes(study.network, part, routes)
    assert scores[routes[1]].percent >= scores[routes[0]].percent - contents.IDLE_LOSS


def test_samples_come_from_every_class() -> None:
    data = load_dataset("digits")
    facts, values = sample_contents(data, 40)
    assert sorted(facts["targets"]) == sorted(list(range(10)) * 4)
    assert (facts["part"], facts["count"]) == ("test", 40)
    first = np.frombuffer(values, np.uint8 if facts["bytes"] == 1 else "<f4")[:64]
    row = int(re.findall(r"\d+", facts["names"][0])[0])
    assert np.array_equal(first, data.test.inputs[row].flatten().numpy())
    assert sample_contents(data, 5000)[0]["count"] == 359


def test_strokes_are_described_as_they_lie_in_the_images() -> None:
    ink = input_contents(load_dataset("digits"))["ink"]
    assert (ink["bright"], ink["size"]) == (False, 8.0)
    assert ink["x"] == pytest.approx(4, abs=0.3)
    dark = contents._ink(1 - torch.zeros(3, 20, 20).index_fill(1, torch.arange(5, 12), 0.9))
    assert (dark["bright"], dark["size"], dark["y"]) == (True, 20.0, 8.5)


def test_columns_of_a_table(tmp_path: Path) -> None:
    lines = [
        "size,kind,day,y",
        *(f"{number * 0.7 % 50:.2f},{'ab'[number % 2]},2024-01-{number % 28 + 1:02},{2 * number}" for number in range(80)),
        ",a,,5",
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    data = load_dataset(DataSpec(name=str(tmp_path / "t.csv"), target="y", task="regression"))
    columns = {column["name"]: column for column in input_contents(data)["columns"]}
    assert columns["kind"]["categories"] == ["a", "b"]
    assert columns["size"]["low"] == pytest.approx(0, abs=3)
    assert columns["size"]["high"] == pytest.approx(50, abs=3)
    assert columns["day"]["kind"] == "date"


def test_samples_of_a_default_table_run_have_their_raw_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 3))
    lines = [f"{a:.3f},{b:.3f},{c:.3f},{'yes' if a + b > 0 else 'no'}" for a, b, c in values]
    (tmp_path / "table.csv").write_text("a,b,c,answer\n" + "\n".join(lines) + "\n")
    spec = RunSpec.for_data(tmp_path / "table.csv", data={"target": "answer"}, training={"epochs": 2})
    facts, arrays = parts_of(explore(train(spec, tmp_path / "run").path, samples=20))
    assert any(step["name"] == "piecewise" for step in facts["networks"][0]["preprocessing"]), "the recipe has bins"
    assert facts["networks"][0]["inputs"] == 3
    assert len(arrays["samples"]) == facts["samples"]["count"] * 3 * facts["samples"]["bytes"]


def test_nothing_in_the_page_ends_a_script_or_asks_for_something() -> None:
    names = [*page.WORKER_SCRIPTS, "worker.js", *page.PAGE_SCRIPTS]
    for name in names:
        source = page.page_source(name)
        assert "</script" not in source.lower()
        assert not re.search(r"\b(fetch|XMLHttpRequest|importScripts|eval|innerHTML|outerHTML|document\.write)\b", source), name
    text = page.render_explorer("a</title><script>x()</script>", {"name": "</script>\u2028<!--"}, {}, [])
    assert "<title>a&lt;/title&gt;" in text
    assert text.count("</script>") == len(names) + 1
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert "unsafe" not in policy[1]
    assert policy[1].startswith("default-src &#x27;none&#x27;; script-src &#x27;sha256-")


def test_files_of_the_page_are_short() -> None:
    folder = Path(page.__file__).parent
    for path in [path for path in folder.iterdir() if path.suffix in {".js", ".css", ".html"}]:
        lines = path.read_text().splitlines()
        assert len(lines) <= 400, path.name
        assert path.suffix == ".css" or [line for line in lines if len(line) > 140] == [], path.name


def test_too_large_networks_are_refused(finished_run: Finished, monkeypatch: pytest.MonkeyPatch, highway: Highway) -> None:
    run = finished_run("fc-highway")
    monkeypatch.setattr(contents, "MOST_NUMBERS", 1000)
    with pytest.raises(InputError, match=r"fc-highway has 2,\d{3} weights, 0 MB in a page; the limit is 1,000: explore a smaller network"):
        explore(run.path)
    monkeypatch.setattr(contents, "MOST_NUMBERS", 10**7)
    monkeypatch.setattr(contents, "MOST_MULTIPLY_ADDS", 1000)
    with pytest.raises(InputError, match=r"takes 2,\d{3} multiply-adds, too slow in a browser; the limit is 1,000"):
        explore(run.path)
    assert not page_path([run.path]).exists()


def test_the_command(finished_run: Finished, highway: Highway, tmp_path: Path) -> None:
    run, other = finished_run("fc-highway"), finished_run("fc-plain")
    result = highway("explore", run.path, "--samples", 20, fresh=True)
    assert result.returncode == 0, result.stderr
    path = run.path.with_name(f"{run.path.name}-explore.html")
    assert result.stdout.startswith(f"page: {path} (0.")
    answer = json.loads(highway("explore", run.path, other.path, "--out", "two.html", "--json").stdout)
    assert answer["bytes"] == (tmp_path / "two.html").stat().st_size
    assert [network["title"] for network in parts_of(tmp_path / "two.html")[0]["networks"]] == ["6-layer highway", "6-layer plain"]
    assert "Example: highway explore" in highway("explore", "--help").stdout

    (tmp_path / "mine.html").write_text("mine")
    for arguments, sentence in {
        (run.path, "--out", "mine.html"): "the file exists and is not a page of highwaynet",
        (run.path, "--out", "no/page.html"): "the folder no does not exist",
        (run.path, "--out", tmp_path): "this is a folder",
        (run.path, run.path): "this is the same run twice",
        (run.path, run.path, other.path): "a page shows one run or two",
        ("nowhere",): "nowhere: no such run directory",
    }.items():
        wrong = highway("explore", *arguments)
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert sentence in wrong.stderr
    assert (tmp_path / "mine.html").read_text() == "mine"


def test_runs_on_other_data_do_not_share_a_page(finished_run: Finished, tmp_path: Path) -> None:
    inputs, targets = np.random.default_rng(0).normal(size=(60, 64)), np.arange(60) % 10
    spec = RunSpec(network=NetworkSpec(name="fc-highway", depth=3, width=8), data=DataSpec(name="memory"), training=TrainingSpec(epochs=1))
    other = train(spec, tmp_path / "memory", data=(inputs, targets))
    facts, _ = parts_of(explore(other.path, data=(inputs, targets)))
    assert len(facts["input"]["columns"]) == 64
    with pytest.raises(InputError, match=r"another form"):
        explore(finished_run("fc-highway").path, other.path, data=(inputs, targets))


def test_the_example_writes_two_pages(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / "explore" / "make_pages.py"
    command = [sys.executable, str(script), "--data", "digits", "--epochs", "1", "--out", str(tmp_path)]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    pages = [Path(line.removeprefix("page: ")) for line in result.stdout.splitlines()]
    assert [parts_of(path)[0]["title"] for path in pages] == ["50-layer highway on digits", "mnist-highway-16 on digits"]


def test_the_report_links_to_the_page(finished_run: Finished, highway: Highway, tmp_path: Path) -> None:
    run = finished_run("fc-highway")
    assert pages_about(run) == []
    path = explore(run.path, samples=10)
    assert pages_about(run) == [path]
    assert highway("report", run.path, "--quick").returncode == 0
    (address,) = re.findall(r'<a href="([^"]+)">fc-highway-explore.html</a>', (tmp_path / "report.html").read_text())
    assert (tmp_path / address).resolve() == path.resolve()
    path.write_text(path.read_text().replace(run.fingerprint(run.answer), "0" * 64))
    assert pages_about(run) == [], "a page of other weights is not linked"
