"""Runs that start from another run, or from a network in memory."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from highwaynet import (
    InputError,
    InterruptedRunError,
    Interruption,
    NetworkSpec,
    RunSpec,
    StartSpec,
    TrainingSpec,
    Watcher,
    build_network,
    evaluate,
    inspect,
    lesion,
    load,
    train,
)
from highwaynet.experiments.keys import key_of
from highwaynet.runs.directory import RunDirectory

Run = Callable[..., RunDirectory]
IMAGES = np.linspace(0, 16, 20 * 64).reshape(20, 1, 8, 8)


def test_layers_are_removed_and_weights_taken_over(finished_run: Run, tmp_path: Path) -> None:
    parent = finished_run()
    child = train(RunSpec.from_run(parent, without=[2, 4], training={"epochs": 0}), tmp_path / "child")
    whole = load(parent)
    with lesion(whole.network, [2, 4]):
        expected = whole.predict_proba(IMAGES)
    assert np.array_equal(load(child).predict_proba(IMAGES), expected)
    assert child.load_plan() == whole.network.plan.without([2, 4])
    assert child.read_history() == []
    assert evaluate(child).samples == 359
    assert inspect(child).lesions(samples=50).about.network == "4-layer highway"


def test_a_shortened_run_trains_on_and_is_loaded_in_another_process(finished_run: Run, tmp_path: Path) -> None:
    parent = finished_run()
    child = train(RunSpec.from_run(parent, without=[1], training={"epochs": 2, "learning_rate": 0.05}), tmp_path / "child")
    assert [line.epoch for line in child.read_history()] == [1, 2]
    assert child.read_history()[-1].train_loss < load_history_end(parent)
    np.save(tmp_path / "x.npy", IMAGES)
    code = "import sys, numpy, highwaynet; numpy.save(sys.argv[3], highwaynet.load(sys.argv[1]).predict_proba(numpy.load(sys.argv[2])))"
    paths = [tmp_path / "child", tmp_path / "x.npy", tmp_path / "p.npy"]
    subprocess.run([sys.executable, "-c", code, *map(str, paths)], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), load(child).predict_proba(IMAGES), rtol=1e-6)
    shutil.rmtree(parent.path)  # the child needs nothing of it any more
    assert load(child).predict(IMAGES).shape == (20,)
    assert inspect(child).flow().start.loss is not None


def load_history_end(run: RunDirectory) -> float:
    return run.read_history()[-1].train_loss


@pytest.mark.parametrize("name", ["fc-plain", "fc-residual", "fc-lstm", "highway-a", "resnet-20"])
def test_every_family_is_shortened(name: str, tmp_path: Path) -> None:
    network = {"name": name} | ({"depth": 5, "width": 8} if name.startswith("fc") else {})
    data = (np.random.default_rng(0).random((40, 3, 32, 32), np.float32), np.arange(40) % 2)
    parent = train(RunSpec(network=network, training={"epochs": 1, "threads": 1}), tmp_path / "parent", data=data)
    child = train(RunSpec.from_run(parent, without=[1], training={"epochs": 1}), tmp_path / "child", data=data)
    grandchild = train(RunSpec.from_run(child, without=[1], training={"epochs": 0}), tmp_path / "grandchild", data=data)
    plans = [run.load_plan() for run in (parent, child, grandchild)]
    assert [plan.removable for plan in plans] == [plans[0].removable - gone for gone in range(3)]
    assert np.array_equal(load(grandchild).predict_proba(data[0]), load(child).without([1]).predict_proba(data[0]))


def test_a_model_without_layers_is_saved_as_a_run(finished_run: Run, tmp_path: Path) -> None:
    model = load(finished_run()).without([3])
    run = model.save(tmp_path / "short")
    assert np.array_equal(load(run).predict_proba(IMAGES), model.predict_proba(IMAGES))
    assert run.finished
    assert run.read_spec().training.epochs == 0
    with pytest.raises(InputError, match="already exists"):
        model.save(tmp_path / "short")
    again = train(RunSpec.from_run(run, training={"epochs": 1}), tmp_path / "again")
    assert again.load_plan() == run.load_plan()
    with pytest.raises(InputError, match=r"layers = \[9\]: the network has 5 layers that can be removed"):
        load(finished_run()).without([9])


def test_a_network_in_memory(tmp_path: Path) -> None:
    network = build_network(NetworkSpec(depth=6, width=8), (1, 8, 8), 10, generator=torch.Generator().manual_seed(3)).without([2])
    spec = RunSpec(network=NetworkSpec(depth=6, width=8), training=TrainingSpec(epochs=1))
    run = train(spec, tmp_path / "run", network=network)
    assert run.load_plan() == network.plan
    start = run.read_spec().start
    assert start is not None
    assert start.given
    with pytest.raises(InputError, match=r"start\.given = true: the run started with a network in memory; pass it again"):
        train(run.read_spec(), tmp_path / "repeated")
    assert not (tmp_path / "repeated").exists()
    repeated = train(run.read_spec(), tmp_path / "repeated", network=network)
    assert (repeated.path / "history.jsonl").read_bytes() == (run.path / "history.jsonl").read_bytes()
    with torch.no_grad():
        network.head.bias.add_(1)
    with pytest.raises(InputError, match="its weights are not those that the run started with"):
        train(run.read_spec(), tmp_path / "other", network=network)
    with pytest.raises(InputError, match=r"network\.name = 'fc-plain': the given network is a fc-highway"):
        train(RunSpec(network=NetworkSpec(name="fc-plain", depth=6)), tmp_path / "other", network=network)
    with pytest.raises(InputError, match="neither 9-layer highway nor one with layers removed"):
        train(RunSpec(network=NetworkSpec(depth=9, width=7)), tmp_path / "other", network=network)
    with pytest.raises(InputError, match="pass a network of highwaynet"):
        train(spec, tmp_path / "other", network=torch.nn.Linear(3, 4))
    broken = network.without([1])
    broken.head = torch.nn.Linear(8, 10, bias=False)
    with pytest.raises(InputError, match="the given network was changed: its modules do not match its plan"):
        train(spec, tmp_path / "other", network=broken)
    with pytest.raises(InputError, match="a network was also passed with network="):
        train(RunSpec.from_run(run), tmp_path / "other", network=network)
    assert not (tmp_path / "other").exists()


class StopAfter(Watcher):
    """Asks for a stop after some steps."""

    def __init__(self, steps: int) -> None:
        self.interruption, self._left = Interruption(), steps

    def step(self, samples: int) -> None:
        self._left -= 1
        if self._left == 0:
            self.interruption.requested = 130


@pytest.mark.parametrize("steps", [1, 30])
def test_an_interrupted_child_ends_the_same_without_its_parent(steps: int, finished_run: Run, tmp_path: Path) -> None:
    parent = finished_run()
    spec = RunSpec.from_run(parent, without=[2], training={"epochs": 2})
    calm = train(spec, tmp_path / "calm")
    stop = StopAfter(steps)
    with pytest.raises(InterruptedRunError):
        train(spec, tmp_path / "run", watcher=stop, interruption=stop.interruption)
    shutil.rmtree(parent.path)
    run = train(RunDirectory.open(tmp_path / "run").read_spec(), tmp_path / "run", resume=True)
    for name in ("history.jsonl", "checkpoints/final.safetensors", "plan.json"):
        assert (run.path / name).read_bytes() == (calm.path / name).read_bytes()


def test_a_child_that_diverges_goes_back_to_its_parents_weights(tmp_path: Path) -> None:
    network = NetworkSpec(name="fc-residual", depth=6, width=12, activation="identity")
    parent = train(RunSpec(network=network, training=TrainingSpec(epochs=1, learning_rate=1e-4)), tmp_path / "parent")
    training = {"epochs": 1, "learning_rate": 1e3, "on_divergence": "rewind", "max_rewinds": 60, "checkpoint": "1 epoch"}
    run = train(RunSpec.from_run(parent, training=training), tmp_path / "run")
    assert any("back to the beginning" in event for event in run.read_events())
    assert run.finished


def test_a_child_that_was_killed_before_its_plan_was_written(finished_run: Run, tmp_path: Path) -> None:
    spec = RunSpec.from_run(finished_run(), without=[2], training={"epochs": 1})
    calm = train(spec, tmp_path / "calm")
    stop = StopAfter(1)
    with pytest.raises(InterruptedRunError):
        train(spec, tmp_path / "run", watcher=stop, interruption=stop.interruption)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    (tmp_path / "run" / "plan.json").unlink()
    run = train(spec, tmp_path / "run", resume=True)
    assert np.array_equal(load(run).predict_proba(IMAGES), load(calm).predict_proba(IMAGES))


def test_the_parents_data_are_not_divided_anew(finished_run: Run, tmp_path: Path) -> None:
    for field, value in (("split_seed", 7), ("validation", 0.2)):
        with pytest.raises(InputError, match=rf"data\.{field} = {value}: the parent run divided the same data with"):
            train(RunSpec.from_run(finished_run(), data={field: value}), tmp_path / "run")
    with pytest.raises(InputError, match=r"data\.preprocessing = \['gcn'\]: the parent run has \['scale'\]"):
        train(RunSpec.from_run(finished_run(), data={"preprocessing": ("gcn",)}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_plan_beside_an_old_run_is_refused(finished_run: Run, tmp_path: Path) -> None:
    old = shutil.copytree(Path(__file__).parents[1] / "runs" / "before" / "dense", tmp_path / "old")
    RunDirectory(old).save_plan(RunDirectory(old).load_plan())
    with pytest.raises(InputError, match=r"belongs to another plan\.json"):
        load(old)


def test_a_saved_model_is_trained_on_for_the_usual_epochs(finished_run: Run, tmp_path: Path) -> None:
    saved = load(finished_run()).without([1]).save(tmp_path / "saved")
    assert RunSpec.from_run(saved).training.epochs == TrainingSpec().epochs
    with pytest.raises(InputError, match="is the run that the model comes from"):
        load(saved).save(tmp_path / "saved", overwrite=True)
    with pytest.raises(InputError, match="a run cannot start from itself"):
        train(RunSpec.from_run(saved), tmp_path / "saved", overwrite=True)
    assert load(saved).predict(IMAGES).shape == (20,)


def test_numbers_of_layers(finished_run: Run) -> None:
    run = finished_run()
    assert RunSpec.from_run(run, without=np.array([3, 2])).start == RunSpec.from_run(run, without=[3, 2]).start
    for wrong in (3, None, "3,5", [2.5]):
        with pytest.raises(InputError, match="give the numbers of layers"):
            RunSpec.from_run(run, without=wrong)
        with pytest.raises(InputError, match="give the numbers of layers"):
            load(run).without(wrong)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"without": [9]}, "start.without: layers = [9]: the network has 5 layers that can be removed, numbered from 1"),
        ({"network": {"depth": 9}}, "network.depth = 9: the parent run has 6, and its network is used unchanged: omit the setting"),
        ({"network": {"name": "fc-plain"}}, "network.name = 'fc-plain': the parent run has 'fc-highway'"),
        ({"checkpoint": "last"}, "start.checkpoint = 'last'"),
    ],
)
def test_starts_that_cannot_be(options: dict[str, object], sentence: str, finished_run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        train(RunSpec.from_run(finished_run(), **options), tmp_path / "run")
    assert sentence in str(error.value)
    assert not (tmp_path / "run").exists()


def test_parents_that_cannot_be(finished_run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no run directory"):
        RunSpec.from_run(tmp_path / "nothing")
    parent = finished_run()
    spec = RunSpec.from_run(parent, training={"epochs": 1})
    (parent.path / "checkpoints" / "final.json").unlink()
    with pytest.raises(InputError, match=r"start\.run = .*has no checkpoint 'final'"):
        train(spec, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_data_of_another_form_are_refused(finished_run: Run, tmp_path: Path) -> None:
    spec = RunSpec.from_run(finished_run(), data={"name": "memory"}, training={"epochs": 1})
    for data, what in (
        ((np.zeros((40, 1, 7, 7), np.float32), np.arange(40) % 10), r"its shape: \(1, 8, 8\), here: \(1, 7, 7\)"),
        ((np.zeros((40, 64), np.float32), np.arange(40) % 10), "its kind: images, here: features"),
        ((np.zeros((40, 1, 8, 8), np.float32), np.arange(40) % 3), "its class names: "),
        ((np.zeros((40, 1, 8, 8), np.float32), np.linspace(0, 1, 40)), "its task: classification, here: regression"),
    ):
        with pytest.raises(InputError, match=what):
            train(spec, tmp_path / "run", data=data)
    assert not (tmp_path / "run").exists()


def test_other_data_of_the_same_form_keep_the_parents_statistics(finished_run: Run, tmp_path: Path) -> None:
    parent = finished_run()
    images = np.random.default_rng(0).integers(0, 17, (60, 1, 8, 8)).astype(np.float32)
    spec = RunSpec.from_run(parent, data={"name": "memory"}, training={"epochs": 1, "batch_size": 10})
    child = train(spec, tmp_path / "child", data=(images, np.arange(60) % 10))
    one, two = parent.load_preparation(), child.load_preparation()
    assert two.record.full_scale == one.record.full_scale == 16
    assert two.record.train == 43
    assert two.record.fingerprint != one.record.fingerprint


def test_the_identity_of_runs_does_not_change_by_a_field_at_its_default() -> None:
    # As they were before there was a start or an objective.
    assert key_of(RunSpec()) == "ceb31d02366957ebcb0f3e3f76c88efd0a4655fbe159e6d679a887646b4570dd"
    other = RunSpec(seed=3, network=NetworkSpec(name="highway-a"), training=TrainingSpec(epochs=7, threads=1))
    assert key_of(other) == "aa14b7183d56f577f1e2170f2b5ec69ad80b2b22ec155d6decddb91f5d95e3d5"
    assert "start" not in RunSpec().to_toml()
    assert "objective" not in RunSpec().to_toml()


def test_no_epochs_are_for_starts_only(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"training\.epochs = 0: should be at least 1"):
        RunSpec(training=TrainingSpec(epochs=0))
    with pytest.raises(ValueError, match=r"start\.run is missing"):
        StartSpec()
    with pytest.raises(ValueError, match=r"start\.given = true"):
        StartSpec(given=True, without=(1,))
