"""Hints: the objective against formulas, the two runs, and what is refused."""

import copy
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed import HashStore

from highwaynet import (
    Batch,
    DataSpec,
    InputError,
    InterruptedRunError,
    Interruption,
    NetworkSpec,
    TeacherSpec,
    Watcher,
    build_network,
    evaluate,
    explore,
    export,
    inspect,
    load,
    load_dataset,
    train_seeds,
)
from highwaynet.networks.hidden import find_hidden, hidden_state
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import RunSpec, parse_spec, spec_from_values
from highwaynet.runs.stages import check_begun, first_stage, hints_path, stages_of
from highwaynet.runs.teacher_spec import FIRST_OPTIMISER, FIRST_STAGE
from highwaynet.shrinking.shrink import Shrinking
from highwaynet.shrinking.shrink_record import ShrinkSettings
from highwaynet.training.distribution import World
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.hints import Hints, regressor_for
from highwaynet.training.loop import train
from support import Highway, Notes, mark_logs, small_spec, unmarked_logs

DENSE: dict[str, Any] = {"name": "fc-plain", "depth": 8, "width": 12}


def spec_with(network: dict[str, Any] = DENSE, **sections: Any) -> RunSpec:
    training = {"epochs": 3, "batch_size": 64, "learning_rate": 0.02, "threads": 1} | sections.pop("training", {})
    return spec_from_values({"network": network, "seed": 2, "training": training} | sections)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    network = {"name": "fc-plain", "depth": 3, "width": 30, "activation": "relu"}
    return train(spec_with(network), tmp_path_factory.mktemp("teacher") / "wise")


def hinted(teacher: RunDirectory, hints: str = "4:2", network: dict[str, Any] = DENSE, **own: Any) -> RunSpec:
    training = own.pop("training", {})
    return spec_with(network, teacher={"run": str(teacher.path), "hints": hints} | own, training=training)


def start_of(run: RunDirectory) -> dict[str, Tensor]:
    return dict(run.checkpoints.load("start")[0])


def test_stage_2_starts_from_stage_1_to_the_bit_and_the_teacher_is_untouched(teacher: RunDirectory, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in teacher.path.rglob("*") if path.is_file()}
    spec = hinted(teacher, training={"weight_decay": 1e-3})
    run = train(spec, tmp_path / "thin")
    first = RunDirectory.open(tmp_path / "hints-thin")
    losses = [line.validation_loss for line in first.read_history()]
    assert losses[-1] < losses[0], "stage 1 lowers the distance to the hint"
    assert first.read_history()[0].train_accuracy is None
    assert json.loads((first.path / "history.jsonl").read_text().splitlines()[0]).keys() == {
        *("epoch", "step", "learning_rate", "train_loss", "validation_loss")
    }
    answer, start, fresh = load(first.path).network.state_dict(), start_of(run), stage_1_start(first)
    assert start.keys() == answer.keys()
    for name, tensor in answer.items():
        assert torch.equal(start[name], tensor), name
    # Three of seven layers of the stack are below the guided layer, which is the fourth.
    for name in ("entry.weight", "entry.bias"):
        assert not torch.equal(start[name], fresh[name])
    for name in ("stack.weight", "stack.bias"):
        assert not any(torch.equal(*pair) for pair in zip(start[name][:3], fresh[name][:3], strict=True))
        assert torch.equal(start[name][3:], fresh[name][3:]), "layers above the guided one keep their initial weights"
    for name in ("head.weight", "head.bias"):
        assert torch.equal(start[name], fresh[name])
    assert {path: path.read_bytes() for path in teacher.path.rglob("*") if path.is_file()} == before
    stored = run.read_spec()
    assert stored.start is not None
    assert stored.teacher is not None
    assert (stored.start.run, stored.teacher.stage) == (str(first.path.resolve()), "distillation")
    assert evaluate(run).accuracy > 0.15


def stage_1_start(first: RunDirectory) -> dict[str, Tensor]:
    from highwaynet.runs.load import load_start

    return dict(load_start(first, first.load_preparation().record).state_dict())


def test_the_layers_of_a_convolutional_student(tmp_path: Path) -> None:
    teacher = train(spec_with({"name": "mnist-highway-16"}, training={"epochs": 1, "learning_rate": 0.05}), tmp_path / "wise")
    spec = hinted(teacher, "3:3", {"name": "mnist-plain-16"}, training={"epochs": 1, "max_kernel_norm": 1.2})
    run = train(spec, tmp_path / "thin")
    first = RunDirectory.open(tmp_path / "hints-thin")
    start, fresh = start_of(run), stage_1_start(first)
    same = {name for name, tensor in start.items() if torch.equal(tensor, fresh[name])}
    lower = {name for name in start if name.startswith(("layers.0.", "layers.1.", "layers.2."))}
    assert same == start.keys() - lower
    assert not any("regressor" in name for name in start), "the regressor is dropped"
    assert any("regressor" in name for name in first.checkpoints.load("objective")[0])
    kernels = [tensor.flatten(1).norm(dim=1).max() for name, tensor in start.items() if name in lower and tensor.dim() == 4]
    assert max(kernels) <= 1.2 * (1 + 1e-6)


def test_the_distance_by_hand_and_its_gradients_in_float64() -> None:
    generator = torch.Generator().manual_seed(4)
    wise = build_network(NetworkSpec(name="mnist-maxout", dropout=(0.0,) * 4), (1, 28, 28), 10, generator=generator)
    thin = build_network(NetworkSpec(name="mnist-fitnet"), (1, 28, 28), 10, generator=generator)
    hint, guided = find_hidden(wise.plan, 2), find_hidden(thin.plan, 4)
    assert (hint.shape, guided.shape) == ((48, 4, 4), (16, 4, 4))
    regressor = regressor_for(guided, hint, None, generator)
    inputs = torch.rand(3, 1, 28, 28, generator=generator)

    # A reference of torch's own layers in float64.
    def conv(x: Tensor, layer: Any, padding: int) -> Tensor:
        weight, bias = (one.detach().double().requires_grad_() for one in (layer.weight, layer.bias))
        leaves.extend([weight, bias])
        y = torch.nn.functional.conv2d(x, weight, bias, padding=padding)
        return y.view(len(y), layer.pieces, -1, *y.shape[2:]).amax(1)

    def pool(x: Tensor) -> Tensor:
        return torch.nn.functional.max_pool2d(x, 4, 2, ceil_mode=True)

    leaves: list[Tensor] = []
    x = inputs.double()
    wanted = pool(conv(pool(conv(x, wise.layers[0], 0)), wise.layers[2], 3)).detach()
    leaves.clear()
    below = pool(conv(conv(x, thin.layers[0], 0), thin.layers[1], 0))
    guess = conv(pool(conv(conv(below, thin.layers[3], 3), thin.layers[4], 0)), regressor, 0)
    distance = ((wanted - guess) ** 2).sum() / 2 / 3
    reference = torch.autograd.grad(distance, leaves)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        network, objective = copy.deepcopy(thin).to(dtype), Hints(copy.deepcopy(wise), hint, guided, copy.deepcopy(regressor)).to(dtype)
        objective.prepare(network, None)  # type: ignore[arg-type]
        found = objective(network, Batch(inputs.to(dtype), torch.zeros(3, dtype=torch.long)))
        assert found.outputs is None
        assert found.loss.item() == pytest.approx(distance.item(), rel=tolerance)
        trained = [one for one in (*network.parameters(), *objective.parameters()) if one.requires_grad]
        assert len(trained) == len(reference)
        for mine, theirs in zip(torch.autograd.grad(found.minimised, trained), reference, strict=True):
            torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=tolerance * float(theirs.abs().max()))


@pytest.mark.parametrize(
    ("name", "number", "teacher_name", "hint", "form"),
    [
        ("fitnet-a", 6, "maxout-teacher", 2, ("ConvMaxout", (384, 32, 3, 3))),
        ("fitnet-b", 11, "maxout-teacher", 2, ("ConvMaxout", (384, 80, 3, 3))),
        ("highway-a", 6, "resnet-20", 15, ("ConvPlain", (64, 32, 1, 1))),
        ("fc-highway", 3, "maxout-teacher", 4, ("DenseMaxout", (2500, 50))),
        ("fc-highway", 3, "fc-plain", 2, ("DensePlain", (1, 71, 50))),
        ("highway-a", 9, "fc-plain", 2, ("DensePlain", (1, 71, 4096))),
    ],
)
def test_regressors(name: str, number: int, teacher_name: str, hint: int, form: tuple[str, tuple[int, ...]]) -> None:
    student, wise = (build_network(NetworkSpec(name=one), (3, 32, 32), 10) for one in (name, teacher_name))
    layers = find_hidden(student.plan, number), find_hidden(wise.plan, hint)
    regressor = regressor_for(*layers, 0.05, torch.Generator().manual_seed(1))
    layer = regressor[1] if isinstance(regressor, torch.nn.Sequential) else regressor
    assert (type(layer).__name__, tuple(layer.weight.shape)) == form
    assert 0.049 < float(layer.weight.detach().abs().max()) <= 0.05
    x = torch.rand(2, 3, 32, 32)
    guess = regressor(hidden_state(student.eval(), x, layers[0]))
    assert guess.flatten(1).shape == hidden_state(wise.eval(), x, layers[1]).flatten(1).shape


@pytest.mark.parametrize("name", ["fc-highway", "fc-residual", "mnist-highway-16"])
def test_the_last_hidden_layer_leads_to_the_outputs(name: str) -> None:
    own: dict[str, Any] = {"depth": 5, "width": 9} if name.startswith("fc") else {}
    network = build_network(NetworkSpec(name=name, **own), (1, 28, 28), 10).eval()
    x, last = torch.rand(4, 1, 28, 28), 9 if name.startswith("mnist") else 5
    state = hidden_state(network, x, find_hidden(network.plan, last))
    head = network.get_submodule(network.head_name)
    torch.testing.assert_close(head(state), network(x))
    for number in range(1, last):
        assert torch.isfinite(hidden_state(network, x, find_hidden(network.plan, number))).all()


class Stop(Watcher):
    """Interrupts a run after some steps of a stage."""

    def __init__(self, stage: int, steps: int) -> None:
        self.interruption, self.stages, self._place = Interruption(), [], (stage, steps)

    def stage(self, title: str, epochs: int) -> None:
        self.stages.append((title, epochs))
        self.steps = 0

    def step(self, samples: int) -> None:
        self.steps += 1
        self.interruption.requested = 130 if (len(self.stages), self.steps) == self._place else 0


@pytest.mark.parametrize(("stage", "steps"), [(1, 25), (2, 30)])
def test_interrupted_runs_are_resumed_to_the_bit(stage: int, steps: int, teacher: RunDirectory, tmp_path: Path) -> None:
    spec = hinted(teacher, hint_epochs=2, final_weight=0.2, training={"optimiser": "rmsprop", "learning_rate": 0.002})
    calm = train(spec, tmp_path / "calm")
    stop = Stop(stage, steps)
    with pytest.raises(InterruptedRunError):
        train(spec, tmp_path / "shaken", watcher=stop, interruption=stop.interruption)
    assert [epochs for _, epochs in stop.stages] == [2, 3][:stage]
    train(spec, tmp_path / "shaken", resume=True)
    for folder, other in ((calm.path, tmp_path / "shaken"), (hints_path(calm.path), tmp_path / "hints-shaken")):
        for name in ("history.jsonl", "checkpoints/final.safetensors"):
            assert (folder / name).read_bytes() == (other / name).read_bytes(), name
    again = train(calm.read_spec(), tmp_path / "again")
    assert again.read_history() == calm.read_history(), "a repetition of the second stage starts from the same first stage"


def test_several_seeds_have_a_first_stage_each(teacher: RunDirectory, tmp_path: Path) -> None:
    record = train_seeds(hinted(teacher, training={"epochs": 1}), tmp_path / "runs", 2)
    assert [score.seed for score in record.runs] == [2, 3]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["hints-seed2", "hints-seed3", "seed2", "seed3", "seeds.json"]


def test_an_interrupted_replacement_of_several_seeds_begins_their_first_stages_anew(teacher: RunDirectory, tmp_path: Path) -> None:
    spec, place, stop = hinted(teacher, training={"epochs": 1}), tmp_path / "runs", Stop(1, 1)
    train_seeds(spec, place, 2)
    mark_logs(place)
    with pytest.raises(InterruptedRunError):
        train_seeds(spec, place, 2, overwrite=True, watcher=stop, interruption=stop.interruption)
    names = sorted(path.name for path in place.glob("*seed*") if path.is_dir())
    assert names == ["hints-seed2", "hints-seed2.before", "hints-seed3.before", "seed2.before", "seed3.before"]
    train_seeds(spec, place, 2, resume=True)
    assert unmarked_logs(place) == ["hints-seed2", "hints-seed3", "seed2", "seed3"], "all are new"


class DiesIn(Watcher):
    """Ends the process in a stage, all runs counted."""

    def __init__(self, stage: int) -> None:
        self.left = stage

    def stage(self, title: str, epochs: int) -> None:
        self.left -= 1

    def step(self, samples: int) -> None:
        if self.left == 0:
            raise SystemExit(9)


@pytest.mark.parametrize("overwrite", [False, True])
def test_processes_that_are_restarted_in_the_first_stage_of_a_later_seed_go_on(
    overwrite: bool, teacher: RunDirectory, tmp_path: Path
) -> None:
    spec, place, store = hinted(teacher, training={"epochs": 1}), tmp_path / "runs", HashStore()
    if overwrite:
        train_seeds(spec, place, 2)
        mark_logs(place)
    with pytest.raises(SystemExit):
        train_seeds(spec, place, 2, overwrite=overwrite, watcher=DiesIn(3), world=World(store=store))
    train_seeds(spec, place, 2, overwrite=overwrite, world=World(store=store, restarts=1))
    assert unmarked_logs(place) == ["hints-seed2", "hints-seed3", "seed2", "seed3"]


@pytest.mark.parametrize("what", ["a first stage", "another run", "no run"])
def test_folders_of_all_first_stages_are_checked_before_the_first_run(what: str, teacher: RunDirectory, tmp_path: Path) -> None:
    spec, place = hinted(teacher, training={"epochs": 1}), tmp_path / "runs"
    if what == "no run":
        (place / "hints-seed3").mkdir(parents=True)
        (place / "hints-seed3" / "mine.txt").write_text("a note")
    else:
        train(hinted(teacher, stage="hints") if what == "a first stage" else small_spec(), place / "hints-seed3")
    sentence = {"a first stage": "already exists", "another run": "this is another run", "no run": "is not a run directory"}[what]
    with pytest.raises(InputError, match=f"hints-seed3.*{sentence}"):
        train_seeds(spec, place, 2, overwrite=what != "a first stage")
    assert [path.name for path in place.iterdir()] == ["hints-seed3"]


def test_what_the_stages_inherit(teacher: RunDirectory) -> None:
    spec = hinted(teacher, hint_epochs=0.5, training={"epochs": 9, "label_smoothing": 0.1, "optimiser": "sgd", "nesterov": True})
    first, second = stages_of(spec, Path("runs/x"))
    assert (first.spec.training.epochs, second.spec.training.epochs) == (4, 9)
    assert (first.spec.training.optimiser, first.spec.training.learning_rate) == ("adamw", 0.002)
    assert (first.spec.training.label_smoothing, second.spec.training.label_smoothing) == (0.0, 0.1)
    assert second.spec.training == spec.training
    assert spec_from_values(first.spec.model_dump(exclude_none=True)) == first.spec
    fast = hinted(teacher, hint_rate=0.5, training={"optimiser": "rmsprop"})
    assert stages_of(fast, Path("x"))[0].spec.training.learning_rate == 0.5
    assert stages_of(fast, Path("x"))[0].spec.training.optimiser == "rmsprop"


@pytest.mark.parametrize(
    ("hints", "own", "sentence"),
    [
        (
            "9:2",
            {},
            r"teacher.hints = '9:2': the student: fc-plain has no hidden layer 9; choose one from 1 to 8 \(`highway networks fc-plain`",
        ),
        ("4:4", {}, r"teacher.hints = '4:4': the teacher: fc-plain has no hidden layer 4; choose one from 1 to 3"),
        ("6", {}, r"teacher.hints = '6': should be .*for instance 6:2"),
        ("0:1", {}, r"teacher.hints = '0:1': should be"),
        ("4:2", {"stage": "hint"}, r"teacher.stage = 'hint': should be 'hints' or 'distillation'"),
        ("4:2", {"run": "nowhere"}, r"teacher.run = .*nowhere': there is no run directory"),
    ],
)
def test_hints_that_do_not_fit(hints: str, own: dict[str, Any], sentence: str, teacher: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        train(hinted(teacher, hints, **own), tmp_path / "thin")
    assert list(tmp_path.iterdir()) == []


def test_maps_that_do_not_fit(tmp_path: Path) -> None:
    teacher = train(spec_with({"name": "highway-a"}, training={"epochs": 1}), tmp_path / "wise")
    for hints, sentence in (
        ("4:1", r"layer 4 of mnist-plain-16 and layer 1 of the teacher, highway-a, do not fit: the student's maps of 2×2 are smaller than"),
        ("10:1", r"the student: mnist-plain-16 has no hidden layer 10; choose one from 1 to 9"),
    ):
        with pytest.raises(InputError, match=rf"teacher.hints = '{hints}': {sentence}"):
            train(hinted(teacher, hints, {"name": "mnist-plain-16"}, training={"epochs": 1}), tmp_path / "thin")
    assert [path.name for path in tmp_path.iterdir()] == ["wise"]


def test_a_first_stage_is_no_teacher_and_gives_a_second_one_its_weights_only(teacher: RunDirectory, tmp_path: Path) -> None:
    first = train(stages_of(hinted(teacher), tmp_path / "thin")[0].spec, tmp_path / "hints")
    assert first.read_spec().training.optimiser == "adamw"
    with pytest.raises(
        InputError, match=r"teacher.run = .*: it is the first stage of a training with hints, .*; name the run of the second"
    ):
        train(hinted(first), tmp_path / "thin")
    again = RunSpec.from_run(first.path, teacher={"run": str(teacher.path)})
    usual = RunSpec(network=again.network)
    for setting in ("optimiser", "learning_rate", "momentum", "epochs"):
        assert getattr(again.training, setting) == getattr(usual.training, setting)
    assert again.training.batch_size == first.read_spec().training.batch_size
    assert set(first_stage(hinted(teacher))) <= {*FIRST_STAGE, *FIRST_OPTIMISER}
    slow = train(stages_of(hinted(teacher, training={"optimiser": "rmsprop"}), tmp_path / "thin")[0].spec, tmp_path / "slow")
    assert RunSpec.from_run(slow.path).training.optimiser == "rmsprop"


def test_a_first_stage_that_diverges_says_which_rate_to_change(teacher: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(DivergenceError, match=r"try a teacher.hint_rate below 1e\+06, or"):
        train(hinted(teacher, "2:2", DENSE | {"activation": "relu"}, hint_rate=1e6), tmp_path / "wild")


def test_the_second_folder_is_checked_before_the_first_stage(teacher: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "thin").mkdir()
    (tmp_path / "thin" / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="thin already exists"):
        train(hinted(teacher), tmp_path / "thin")
    assert [path.name for path in tmp_path.iterdir()] == ["thin"]


def test_a_start_and_hints_exclude_each_other(teacher: RunDirectory) -> None:
    with pytest.raises(InputError, match=r"teacher.hints = '4:2': training with hints begins with new weights; omit start"):
        spec_from_values({"network": DENSE, "start": {"run": str(teacher.path)}, "teacher": {"run": str(teacher.path), "hints": "4:2"}})


def test_validation_measures_the_distance(teacher: RunDirectory, tmp_path: Path) -> None:
    run = train(hinted(teacher, stage="hints", training={"epochs": 1}), tmp_path / "only")
    assert not (tmp_path / "hints-only").exists(), "a run that is one stage is one run"
    trained, wise = load(run.path, "final").network, load(teacher.path).network
    learned = run.checkpoints.load("objective")[0]
    guided, hint = find_hidden(trained.plan, 4), find_hidden(wise.plan, 2)
    regressor = regressor_for(guided, hint, None, torch.Generator())
    regressor.load_state_dict({name.removeprefix("regressor."): tensor for name, tensor in learned.items()})
    data = load_dataset(run.read_spec().data).validation
    inputs = torch.cat([inputs for inputs, _ in data.batches(64)])
    with torch.no_grad():
        far = (hidden_state(wise, inputs, hint) - regressor(hidden_state(trained, inputs, guided))).square().sum(1).mean() / 2
    assert math.isclose(run.read_history()[0].validation_loss, far.item(), rel_tol=1e-5)


def test_a_first_stage_gives_no_answers_but_can_be_looked_into(teacher: RunDirectory, tmp_path: Path) -> None:
    second = train(hinted(teacher, "3:2", {"name": "fc-highway", "depth": 6, "width": 12}), tmp_path / "thin")
    first, test = hints_path(second.path), load_dataset(DataSpec()).test.inputs[:2]
    what = "it is the first stage of a training with hints, without trained outputs"
    sentence = rf"{first}: {what}; name the run of the second stage, {second.path}$"
    study = inspect(first)
    for answer in (
        lambda: evaluate(first),
        study.evaluation,
        lambda: load(first).predict(test),
        lambda: export(first, tmp_path / "first.onnx"),
        lambda: explore(first),
        Shrinking(study, ShrinkSettings(keep=2), tmp_path / "small").check,
    ):
        with pytest.raises(InputError, match=sentence):
            answer()
    assert study.reason_against("lesions") == study.reason_against("mistakes") == study.reason_against("flow")
    with pytest.raises(InputError, match="lesions does not apply to this network: it is from the first stage of a training with hints"):
        study.lesions()
    assert study.gates().mean.shape == (5, 12)
    assert load(first).network.plan == second.load_plan()
    for name in ("other", "hints-"):
        shutil.copytree(first, tmp_path / name)
        with pytest.raises(InputError, match=r"name the run of the second stage$"):
            evaluate(tmp_path / name)


def test_settings_for_hints_need_hints(teacher: RunDirectory, tmp_path: Path) -> None:
    for field, value in (("hint_epochs", 4.0), ("hint_rate", 0.1), ("regressor_range", 0.05)):
        with pytest.raises(InputError, match=rf"teacher.{field} = {value}: needs teacher.hints, for instance 6:2; add it, or omit this$"):
            spec_with(teacher={"run": str(teacher.path), field: value})
    # Recipes name such settings for all runs with a teacher, and stored specs have them.
    spec = RunSpec(network=NetworkSpec(name="mnist-fitnet"), teacher=TeacherSpec(run=str(teacher.path)))
    assert spec.teacher is not None
    assert spec.teacher.hint_epochs is not None
    assert spec_from_values(parse_spec(spec.to_toml(), tmp_path)) == spec


def test_next_steps_after_a_first_stage(highway: Highway, teacher: RunDirectory, tmp_path: Path) -> None:
    size = ("--network", "fc-plain", "--depth", "6", "--width", "12", "--epochs", "1")
    begun = ("train", *size, "--teacher", str(teacher.path), "--hints", "3:2", "--out", "thin")
    assert "next: highway evaluate thin\n" in highway(*begun, cwd=tmp_path).stdout
    way = f"highway train --start hints-thin --teacher {teacher.path} --out RUN  (the second stage, with its usual settings)\n"
    assert highway("train", "hints-thin", "--resume", cwd=tmp_path).stdout.endswith(f"next: {way}")
    shutil.rmtree(tmp_path / "thin")  # as if stopped between the stages
    lost = highway("train", "thin", "--resume", cwd=tmp_path)
    assert (
        lost.stderr == "highway: thin: only the first stage has begun, hints-thin; continue with the command that began it, with --resume\n"
    )
    assert lost.returncode == 2
    seen = highway("inspect", "hints-thin", "--what", "flow", cwd=tmp_path).stderr
    assert "does not apply to hints-thin, because it is from the first stage of a training with hints, and its outputs" in seen
    seen = highway("inspect", "hints-thin", cwd=tmp_path).stderr
    assert "is the first stage of a training with hints: the layers after layer 3 have their initial weights" in seen
    told = highway("train", "hints-thin", "--resume", cwd=tmp_path).stdout
    assert told.endswith(f"next: the command that began both stages, with --out thin --resume\n      {way}")
    assert "next: highway evaluate thin\n" in highway(*begun, "--resume", cwd=tmp_path).stdout


def test_an_interrupted_replacement_is_continued_and_not_mistaken_for_the_earlier_run(teacher: RunDirectory, tmp_path: Path) -> None:
    path, new = tmp_path / "thin", hinted(teacher, "5:2")
    train(hinted(teacher, "3:2"), path)
    (path / "mine.txt").write_text("mine")
    with pytest.raises(InterruptedRunError):
        train(new, path, overwrite=True, interruption=asked_at_once())
    assert not (path / "spec.toml").exists()
    assert RunDirectory.open(tmp_path / "thin.before").finished
    with pytest.raises(InterruptedRunError):  # a second attempt replaces the first, and the earlier run stays
        train(new, path, overwrite=True, interruption=asked_at_once())
    with pytest.raises(
        InputError, match=r"thin: only the first stage has begun, .*hints-thin; continue with .* --resume and .*thin.before in"
    ):
        check_begun(path)
    again, calm = train(new, path, resume=True), train(new, tmp_path / "calm")
    assert again.read_history() == calm.read_history()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["calm", "hints-calm", "hints-thin", "thin"]
    assert (path / "mine.txt").read_text() == "mine"


def test_a_replacement_that_was_interrupted_is_replaced_by_one_with_hints(teacher: RunDirectory, tmp_path: Path) -> None:
    path = tmp_path / "thin"
    train(spec_with(), path)
    (path / "mine.txt").write_text("mine")
    for spec in (spec_with(), hinted(teacher)):
        notes = Notes()
        with pytest.raises(InterruptedRunError):
            train(spec, path, overwrite=True, interruption=asked_at_once(), watcher=notes)
        assert f"the earlier run, which this one has not replaced, is {tmp_path / 'thin.before'}" in notes.all
    assert sorted(one.name for one in tmp_path.iterdir()) == ["hints-thin", "thin.before", "thin.before-2"]
    assert train(hinted(teacher), path, resume=True).finished
    assert sorted(one.name for one in tmp_path.iterdir()) == ["hints-thin", "thin"]
    assert (path / "mine.txt").read_text() == "mine"


def test_a_student_does_not_replace_its_teacher(tmp_path: Path) -> None:
    wise = train(spec_with({"name": "fc-plain", "depth": 3, "width": 30}, training={"epochs": 1}), tmp_path / "wise")
    with pytest.raises(InputError, match=r"teacher.run = .*: a run cannot be its own teacher; name another folder"):
        train(hinted(wise), wise.path, overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == ["wise"]
    assert wise.finished


def test_several_first_stages_are_refused_before_training(teacher: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"teacher.stage = 'hints': first stages have no score; train them one by one, or omit it"):
        train_seeds(hinted(teacher, stage="hints"), tmp_path / "all", 2)
    assert not (tmp_path / "all").exists()


def test_restarted_processes_continue_the_second_stage(teacher: RunDirectory, tmp_path: Path) -> None:
    """As with torchrun: a store outlives the processes."""
    store, spec = HashStore(), hinted(teacher)
    for overwrite in (False, True):
        path = tmp_path / f"thin-{overwrite}"
        if overwrite:
            train(spec_with(), path)
        with pytest.raises(InterruptedRunError):
            train(spec, path, overwrite=overwrite, interruption=Interruption(), watcher=AtStage2(), world=World(store=store))
        begun = (tmp_path / f"thin-{overwrite}/events.log").read_text()
        run = train(spec, path, overwrite=overwrite, world=World(store=store, restarts=1))
        assert run.finished
        assert (run.path / "events.log").read_text().startswith(begun)


class AtStage2(Watcher):
    """Stops the run at the first step of the second stage."""

    def __init__(self) -> None:
        self.stages = 0

    def stage(self, title: str, epochs: int) -> None:
        self.stages += 1

    def step(self, samples: int) -> None:
        if self.stages == 2:
            raise InterruptedRunError("stopped", 130)


def asked_at_once() -> Interruption:
    interruption = Interruption()
    interruption.request()
    return interruption


def test_a_run_that_stands_in_the_place_of_a_first_stage_stays(teacher: RunDirectory, tmp_path: Path) -> None:
    mine = train(spec_with(), tmp_path / "hints-thin")
    for way in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(InputError, match=r"hints-thin: this is another run, and the first stage would be written there; rename it"):
            train(hinted(teacher), tmp_path / "thin", **way)
    assert mine.finished
    assert not (tmp_path / "thin").exists()


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ({"hint_epochs": 2.5}, r"teacher.hint_epochs = 2.5: give a whole number of epochs, or a share below 1"),
    ],
)
def test_settings_that_would_be_ignored(own: dict[str, Any], sentence: str, teacher: RunDirectory) -> None:
    with pytest.raises(InputError, match=sentence):
        hinted(teacher, **own)


def test_a_second_stage_needs_a_first(teacher: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"teacher.stage = 'distillation': the second stage starts from a first one; name it with start.run"
    ):
        train(hinted(teacher, stage="distillation"), tmp_path / "run")
    known = load(train(spec_with(training={"epochs": 1}), tmp_path / "known").path).network
    assert train(hinted(teacher, stage="distillation"), tmp_path / "run", network=known).finished


def test_settings_of_a_stored_spec_stay_readable(teacher: RunDirectory, tmp_path: Path) -> None:
    spec = hinted(teacher, hint_epochs=3.0)
    text = spec.to_toml().replace("hint_epochs = 3.0", "hint_epochs = 2.5")
    assert spec_from_values(parse_spec(text, tmp_path)).teacher.hint_epochs == 2.5
    run = train(spec_with(training={"epochs": 1}), tmp_path / "run")
    with pytest.raises(InputError, match=r"teacher.hint_rate = 0.1: needs teacher.hints"):
        RunSpec.from_run(run.path, teacher={"run": str(teacher.path), "hint_rate": 0.1})
    fitnet = RunSpec(network=NetworkSpec(name="mnist-fitnet"), teacher=TeacherSpec(run=str(teacher.path)))
    assert RunSpec(teacher=fitnet.teacher).teacher == fitnet.teacher
