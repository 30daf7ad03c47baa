"""Shrinking a network: the result, its parts, resuming, and wrong input."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from highwaynet import NetworkSpec, RunSpec, TrainingSpec, evaluate, load, train
from highwaynet.analysis.collect import Study
from highwaynet.base.errors import InputError
from highwaynet.layers.lesion import lesion
from highwaynet.networks.network import Network
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.run_records import Score
from highwaynet.runs.spec import spec_from_values
from highwaynet.shrinking.latency import latencies
from highwaynet.shrinking.shrink import Shrinking, shrink
from highwaynet.shrinking.shrink_record import ShrinkRecord, ShrinkSettings
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.watcher import Watcher
from support import Highway


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    spec = RunSpec(network=NetworkSpec(depth=9, width=16), training=TrainingSpec(epochs=6, threads=1, learning_rate=0.1))
    return train(spec, tmp_path_factory.mktemp("deep") / "run")


def shrunk(
    run: RunDirectory, out: Path, interruption: Interruption | None = None, watcher: Watcher | None = None, **aims: object
) -> ShrinkRecord:
    settings = ShrinkSettings(**{"heal_epochs": 2, "samples": 300} | aims)
    return shrink(Shrinking(Study(run), settings, out), lambda title: None, lambda title, epochs: watcher, interruption)


def test_the_result_is_a_smaller_network_that_is_as_good(deep: RunDirectory, tmp_path: Path) -> None:
    record = shrunk(deep, tmp_path / "small", loss_of=1.0, from_scratch=True, seeds=2)
    kept = record.layers - len(record.removed)
    small = RunDirectory.open(tmp_path / "small" / "network")
    assert small.load_plan().removable == kept < record.layers == 8
    (validated,) = {one.selection.percent for one in record.tried if (one.kept, one.seed) == (kept, 0)}
    assert validated >= evaluate(deep.path, "validation").percent - 1.0
    assert record.healed[0].test == evaluate(small.path), "the network that is left is the healed one"
    assert [one.seed for one in record.healed] == [one.seed for one in record.scratch] == [0, 1]
    assert record.intact_test == evaluate(deep.path)
    assert record.parameters[1] < record.parameters[0]
    assert set(record.milliseconds) == {1, 256}
    assert json.loads((tmp_path / "small" / "record.json").read_text())["answer"] == record.answer
    spec = small.read_spec()
    assert spec.teacher is not None
    assert spec.start is not None
    assert spec.start.without == record.removed
    scratch = RunDirectory.open(Path(record.scratch[0].run)).read_spec()
    assert (scratch.network.depth, scratch.start, scratch.training.epochs) == (9 - len(record.removed), None, 6)


def test_from_scratch_has_no_settings_of_the_recipe_that_the_run_switched_off(tmp_path: Path) -> None:
    training = {"recipe": "table", "weight_average": None, "epochs": 1, "threads": 1}
    run = train(spec_from_values({"network": {"depth": 4, "width": 8}, "training": training}), tmp_path / "run")
    record = shrunk(run, tmp_path / "small", keep=2, heal_epochs=1, from_scratch=True)
    scratch = RunDirectory.open(Path(record.scratch[0].run)).read_spec()
    assert (scratch.training.recipe, scratch.training.weight_average) == ("table", None)


def test_fewer_layers_would_not_do(deep: RunDirectory, tmp_path: Path) -> None:
    record = shrunk(deep, tmp_path / "small", loss_of=1.0)
    kept = record.layers - len(record.removed)
    below = [one for one in record.tried if one.kept == kept - 1]
    least = evaluate(deep.path, "validation").percent - 1.0
    assert kept == 0 or below[0].selection.percent < least


def test_removal_curves_are_what_lesions_give(deep: RunDirectory, tmp_path: Path) -> None:
    shrunk(deep, tmp_path / "small", keep=4)
    curves = json.loads((tmp_path / "small" / "curves.json").read_text())
    assert {curve["criterion"] for curve in curves["curves"]} == {"greedy", "lesion", "influence", "angular", "gates", "taylor", "random"}
    study = Study(deep)
    for curve in curves["curves"][:2]:
        removed = curve["removed"][3]
        with lesion(study.network, removed):
            expected = study.score("validation")
        assert Score.model_validate(curve["scores"][3]) == expected
        assert study.network.without(removed).plan.removable == 5


def test_keep_and_speed_up(deep: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_layers(networks: list[Network], batch_size: int) -> list[float]:
        """Times that do not depend on what else the machine does: 1 + the number of layers."""
        return [1.0 + network.plan.removable for network in networks]

    monkeypatch.setattr("highwaynet.shrinking.shrink.latencies", by_layers)
    assert len(shrunk(deep, tmp_path / "two", keep=2, heal_epochs=0).removed) == 6
    assert len(shrunk(deep, tmp_path / "none", keep=8, heal_epochs=0).removed) == 0
    record = shrunk(deep, tmp_path / "fast", speed_up=2.0, heal_epochs=0)
    assert len(record.removed) == 5, "9 / 4 is the first factor of at least 2"
    with pytest.raises(InputError, match=r"--speed-up 10: without any of its 8 removable layers the network is 9\.0 times faster"):
        shrunk(deep, tmp_path / "faster", speed_up=10)
    assert not (tmp_path / "faster").exists()


def test_without_healing_the_network_is_the_large_one_without_layers(deep: RunDirectory, tmp_path: Path) -> None:
    record = shrunk(deep, tmp_path / "small", keep=5, heal_epochs=0)
    mine = load(tmp_path / "small" / "network").network.state_dict()
    theirs = load(deep.path).without(record.removed).network.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


class _StopAfter(Watcher):
    def __init__(self, epochs: int, stop: Interruption) -> None:
        self.left, self.stop = epochs, stop

    def epoch(self, record: object, timing: object) -> None:
        self.left -= 1
        if self.left == 0:
            self.stop.requested = 130


def test_interrupted_and_resumed_it_ends_the_same(deep: RunDirectory, tmp_path: Path) -> None:
    calm = shrunk(deep, tmp_path / "calm", loss_of=0.5)
    stop = Interruption()
    with pytest.raises(InterruptedRunError):
        shrunk(deep, tmp_path / "shaken", stop, _StopAfter(3, stop), loss_of=0.5)
    shaken = shrunk(deep, tmp_path / "shaken", loss_of=0.5)
    assert shaken.removed == calm.removed
    assert [one.test for one in shaken.healed] == [one.test for one in calm.healed]


def test_removed_layers_can_be_replaced_by_affine_maps(deep: RunDirectory, tmp_path: Path, highway: Highway) -> None:
    out = tmp_path / "small"
    done = highway("shrink", deep.path, "--keep", 4, "--replace", "--heal-epochs", 0, "--out", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    replaced = ShrinkRecord.model_validate_json((out / "record.json").read_text())
    dropped = shrunk(deep, tmp_path / "dropped", keep=4, heal_epochs=0, samples=4000)
    assert replaced.removed == dropped.removed
    assert replaced.healed[0].selection.loss < dropped.healed[0].selection.loss, "maps are closer to what the layers did"
    spans = replaced.healed[0].spans
    assert sum(span.last - span.first + 1 for span in spans) == 4
    assert "In their place are affine maps" in (out / "shrink.html").read_text()
    assert evaluate(out / "network") == replaced.healed[0].test
    healed = shrunk(deep, tmp_path / "healed", keep=4, replace=True)
    assert healed.healed[0].selection.loss < 1.2 * replaced.healed[0].selection.loss
    again = shrunk(RunDirectory.open(tmp_path / "healed" / "network"), tmp_path / "again", keep=2, replace=True, from_scratch=True)
    assert RunDirectory.open(Path(again.scratch[0].run)).load_plan().removable == 2


def test_the_small_network_can_be_shrunk_again(deep: RunDirectory, tmp_path: Path) -> None:
    shrunk(deep, tmp_path / "small", keep=5, heal_epochs=1)
    again = shrunk(RunDirectory.open(tmp_path / "small" / "network"), tmp_path / "smaller", keep=3, heal_epochs=1)
    assert (again.layers, len(again.removed)) == (5, 2)


def test_a_convolutional_network(tmp_path: Path) -> None:
    spec = RunSpec(network=NetworkSpec(name="mnist-highway-16"), training=TrainingSpec(epochs=1, batch_size=200, threads=1))
    run = train(spec, tmp_path / "run")
    record = shrunk(run, tmp_path / "small", keep=5, heal_epochs=1, from_scratch=True)
    assert (record.layers, len(record.removed)) == (8, 3)
    assert RunDirectory.open(Path(record.scratch[0].run)).load_plan() == RunDirectory.open(tmp_path / "small" / "network").load_plan()


def test_wrong_input(deep: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--keep 9: the network has 8 layers that can be removed; keep fewer"):
        shrunk(deep, tmp_path / "small", keep=9)
    assert not (tmp_path / "small").exists()
    shrunk(deep, tmp_path / "small", keep=7, heal_epochs=0)
    with pytest.raises(InputError, match="holds another result"):
        shrunk(deep, tmp_path / "small", keep=6, heal_epochs=0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    with pytest.raises(InputError, match="is not empty and not a result of shrinking"):
        shrunk(deep, tmp_path / "mine", keep=6)
    plain = train(RunSpec(network=NetworkSpec(name="fc-plain", depth=3), training=TrainingSpec(epochs=1)), tmp_path / "plain")
    with pytest.raises(InputError, match="fc-plain has plain layers"):
        shrunk(plain, tmp_path / "small-plain", keep=1)


def test_latencies_take_turns(deep: RunDirectory) -> None:
    network = load(deep.path).network
    found = latencies([network, network.without([1, 2, 3, 4, 5, 6, 7, 8])], 256)
    assert len(found) == 2
    assert min(found) > 0


def test_the_command(deep: RunDirectory, tmp_path: Path, highway: Highway) -> None:
    plan = highway("shrink", deep.path, "--keep", 3, "--plan", cwd=tmp_path)
    assert "8 layers can be removed" in plan.stdout
    assert "healing: about 1 run of 5 epochs\n" in plan.stdout
    assert re.search(r"training: \d+ s at most", plan.stdout)
    assert not deep.path.with_name("run-small").exists()
    out = tmp_path / "small"
    done = highway("shrink", deep.path, "--keep", 3, "--heal-epochs", 1, "--samples", 200, "--out", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("With 3 of 8 layers: test accuracy ")
    page = (out / "shrink.html").read_text()
    assert "3 of 8 layers are left" in page
    assert not re.search(r"(src|[^:]href)=|@import|url\(http", page), "nothing is loaded from elsewhere"
    assert highway("evaluate", out / "network", cwd=tmp_path).returncode == 0
    for flags, sentence in {
        ("--keep", 9): "--keep 9: the network has 8 layers",
        ("--keep", 3, "--speed-up", 2): "--keep and --speed-up: choose one aim",
        ("--criterion", "luck"): "should be 'greedy'",
    }.items():
        wrong = highway("shrink", deep.path, *flags, "--out", tmp_path / "no", cwd=tmp_path)
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
        assert sentence in wrong.stderr
        assert not (tmp_path / "no").exists()


def test_from_scratch_after_shrinking_twice(deep: RunDirectory, tmp_path: Path) -> None:
    shrunk(deep, tmp_path / "small", keep=5, heal_epochs=1)
    again = shrunk(RunDirectory.open(tmp_path / "small" / "network"), tmp_path / "smaller", keep=3, heal_epochs=1, from_scratch=True)
    scratch = RunDirectory.open(Path(again.scratch[0].run))
    assert scratch.load_plan().removable == RunDirectory.open(tmp_path / "smaller" / "network").load_plan().removable == 3
    assert scratch.read_spec().training.epochs == 6, "the budget of the first network"


def test_a_network_trained_to_be_cut_can_lose_all_layers(tmp_path: Path) -> None:
    spec = RunSpec(network=NetworkSpec(depth=5, width=8), training=TrainingSpec(epochs=2, threads=1, layer_drop=0.5))
    record = shrunk(train(spec, tmp_path / "run"), tmp_path / "small", keep=0, from_scratch=True)
    assert len(record.removed) == 4


def test_a_finished_result_is_not_computed_again(deep: RunDirectory, tmp_path: Path) -> None:
    first = shrunk(deep, tmp_path / "small", keep=6, heal_epochs=0)
    assert shrunk(deep, tmp_path / "small", keep=6, heal_epochs=0) == first, "times included"
    assert first.answer.startswith("With 6 of 8 layers: test accuracy")


def test_a_finished_result_keeps_no_files_of_killed_writers(deep: RunDirectory, tmp_path: Path) -> None:
    shrunk(deep, tmp_path / "small", keep=4)
    left = tmp_path / "small" / f".shrink.html.12-{'0a' * 8}.tmp"
    left.write_text("half")
    shrunk(deep, tmp_path / "small", keep=4)
    assert not left.exists()


def test_nothing_removed_is_the_network_itself(deep: RunDirectory, tmp_path: Path) -> None:
    record = shrunk(deep, tmp_path / "small", keep=8, heal_epochs=3)
    assert record.healed[0].test == record.intact_test
    assert record.answer.startswith("All 8 layers are kept, as asked: test accuracy stays at ")
    assert evaluate(tmp_path / "small" / "network") == evaluate(deep.path)


@pytest.mark.parametrize(("aim", "line"), [({"keep": 3}, "aim: 3 of them are kept"), ({"speed_up": 2.0}, "at 2 times the speed")])
def test_the_plan_names_the_aim(aim: dict[str, object], line: str, deep: RunDirectory, tmp_path: Path, highway: Highway) -> None:
    flags = [text for name, value in aim.items() for text in (f"--{name.replace('_', '-')}", value)]
    assert line in highway("shrink", deep.path, *flags, "--plan", cwd=tmp_path).stdout


def test_dropout_stays_in_its_place_if_all_layers_are_replaced(tmp_path: Path) -> None:
    spec = RunSpec(network=NetworkSpec(depth=4, width=8, dropout=(0.3, 0.5)), training=TrainingSpec(epochs=1, threads=1))
    record = shrunk(train(spec, tmp_path / "run"), tmp_path / "small", keep=0, replace=True, heal_epochs=0)
    network = load(tmp_path / "small" / "network").network
    assert len(record.removed) == 3
    assert [network.entry_dropout.p, network.head_dropout.p] == [0.3, 0.5]


def test_another_aim_may_follow_one_that_cannot_be_reached(deep: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwaynet.shrinking.shrink.latencies", lambda networks, size: [1.0 + one.plan.removable for one in networks])
    out = tmp_path / "small"
    with pytest.raises(InputError, match="--speed-up 100"):
        shrunk(deep, out, speed_up=100.0)
    out.mkdir()  # nothing was left of it
    (out / ".shrink.json.123.tmp").touch()
    assert len(shrunk(deep, out, speed_up=2.0, heal_epochs=0).removed) == 5
    assert not (out / ".shrink.json.123.tmp").exists()


def test_the_learning_rate_of_healing_follows_from_the_first_run(deep: RunDirectory, tmp_path: Path) -> None:
    shrunk(deep, tmp_path / "small", keep=5, heal_epochs=1)
    small = RunDirectory.open(tmp_path / "small" / "network")
    shrunk(small, tmp_path / "smaller", keep=3, heal_epochs=1)
    rates = [RunDirectory.open(tmp_path / name / "network").read_spec().training.learning_rate for name in ("small", "smaller")]
    assert rates == pytest.approx([0.03, 0.03])


def test_a_missing_first_run_is_said_before_anything_is_trained(deep: RunDirectory, tmp_path: Path) -> None:
    shutil.copytree(deep.path, tmp_path / "first")
    shrunk(RunDirectory.open(tmp_path / "first"), tmp_path / "small", keep=5, heal_epochs=0)
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="--from-scratch: the run of the large network, which has the budget, is not where it was"):
        shrunk(RunDirectory.open(tmp_path / "small" / "network"), tmp_path / "smaller", keep=3, heal_epochs=0, from_scratch=True)


def test_a_removed_network_is_put_back(deep: RunDirectory, tmp_path: Path) -> None:
    first = shrunk(deep, tmp_path / "small", keep=6, heal_epochs=0)
    shutil.rmtree(tmp_path / "small" / "network")
    assert shrunk(deep, tmp_path / "small", keep=6, heal_epochs=0).removed == first.removed
    assert RunDirectory.open(tmp_path / "small" / "network").finished


def test_networks_without_removable_layers_are_reported_without_their_depth(tmp_path: Path, highway: Highway) -> None:
    spec = RunSpec(network=NetworkSpec(name="resnet-20"), training=TrainingSpec(epochs=1, batch_size=400, threads=1))
    run = train(spec, tmp_path / "run")
    shrunk(run, tmp_path / "small", keep=0, heal_epochs=0, samples=50)
    study = Study(RunDirectory.open(tmp_path / "small" / "network"))
    assert study.closable > 0
    assert "no layers that can be removed" in (study.reason_against("depth") or "")
