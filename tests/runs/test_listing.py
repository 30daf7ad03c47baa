"""Which runs are listed, and what is said about them."""

import shutil
from collections.abc import Callable
from pathlib import Path

from highwaynet import DataSpec, RunSpec, TrainingSpec, train
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.listing import find_runs, summarise


def test_of_a_shrunken_network_only_the_result_is_listed(finished_run: Callable[[str], RunDirectory], tmp_path: Path) -> None:
    run = finished_run("fc-highway").path
    for place in ("deep", "deep-small/network", "deep-small/healed/keep-3-seed-0", "deep-small/cut/keep-3"):
        shutil.copytree(run, tmp_path / place)
    (tmp_path / "deep-small" / "shrink.json").write_text("{}")
    assert [Path(found.run).relative_to(tmp_path).as_posix() for found in find_runs(tmp_path)] == ["deep", "deep-small/network"]


def test_the_metrics_are_those_of_the_weights_that_are_used(tmp_path: Path) -> None:
    network = NetworkSpec(depth=4, width=10)
    training = {"epochs": 6, "learning_rate": 0.3}
    spec = RunSpec(network=network, data=DataSpec(validation=0.1), training=TrainingSpec(**training))
    run = train(spec, tmp_path / "best")
    history, found = run.read_history(), summarise(tmp_path / "best")
    best = min(history, key=lambda record: record.validation_loss or 0.0)
    assert found.answer == best
    assert found.last == history[-1]
    spec = RunSpec(network=network, data=DataSpec(validation=0.1), training=TrainingSpec(**training, answer="final"))
    assert summarise(train(spec, tmp_path / "final").path).answer == history[-1]
