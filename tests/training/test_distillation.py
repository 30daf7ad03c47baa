"""Distillation against formulas, runs that imitate other runs, and runs that take only the form of another one."""

import copy
import shutil
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from highwaynet import (
    InterruptedRunError,
    Interruption,
    NetworkSpec,
    RunSpec,
    TeacherSpec,
    TrainingSpec,
    Watcher,
    build_network,
    evaluate,
    load,
)
from highwaynet.base.errors import InputError
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import spec_from_values
from highwaynet.runs.teacher_spec import DistanceForm
from highwaynet.training.distillation import Distillation
from highwaynet.training.loop import train
from highwaynet.training.objective import Batch, Classification, Companions, Regression


def spec_with(depth: int = 6, **sections: object) -> RunSpec:
    training = {"epochs": 3, "batch_size": 64, "learning_rate": 0.1, "threads": 1}
    return spec_from_values({"network": {"depth": depth, "width": 12}, "seed": 2, "training": training} | sections)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return train(spec_with(), tmp_path_factory.mktemp("teacher") / "run")


def network_of(depth: int, seed: int) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    return build_network(NetworkSpec(depth=depth, width=8), (1, 8, 8), 10, generator=generator)


def test_the_minimised_value_by_hand() -> None:
    student, wise = network_of(3, 1), network_of(5, 2)
    inputs, targets = torch.rand(7, 1, 8, 8), torch.arange(7)
    found = Distillation(Classification(), wise, temperature=4.0, weight=0.5)(student, Batch(inputs, targets))
    logits, aims = student(inputs), wise(inputs).detach()
    p, q = (aims / 4).softmax(1), (logits / 4).softmax(1)
    divergence = (p * (p.log() - q.log())).sum(1).mean()
    torch.testing.assert_close(found.minimised, F.cross_entropy(logits, targets) + 0.5 * 16 * divergence)
    torch.testing.assert_close(found.loss, F.cross_entropy(logits, targets))
    found.minimised.backward()
    assert all(parameter.grad is not None for parameter in student.parameters())
    assert all(parameter.grad is None for parameter in wise.parameters()), "the teacher is not trained"


def reference(student: torch.nn.Module, wise: torch.nn.Module, batch: Batch, *, form: str, t: float, weight: float) -> list[torch.Tensor]:
    """Gradients of what is minimised, written from the formulas in float64, with softmaxes from exponentials."""
    student, wise = copy.deepcopy(student).double(), copy.deepcopy(wise).double()
    inputs = batch.inputs.double()
    logits, aims = student(inputs), wise(inputs).detach()

    def probabilities(z: torch.Tensor) -> torch.Tensor:
        powers = (z - z.max(1, keepdim=True).values.detach()).exp()
        return powers / powers.sum(1, keepdim=True)

    p, q = probabilities(aims / t), probabilities(logits / t)
    distance = t * t * (p * (p / q).log()).sum(1).mean() if form == "hinton" else -(p * q.log()).sum(1).mean()
    right = probabilities(logits)[torch.arange(len(logits)), batch.targets]
    return list(torch.autograd.grad(-right.log().mean() + weight * distance, list(student.parameters())))


@pytest.mark.parametrize("form", ["hinton", "fitnets"])
@pytest.mark.parametrize("name", ["fc-highway", "fc-plain", "mnist-highway-16"])
def test_gradients_against_a_reference_in_float64(form: DistanceForm, name: str) -> None:
    own = {"depth": 4, "width": 8} if name.startswith("fc") else {"dropout": (0.0,) * 4}
    student, wise = (
        build_network(NetworkSpec(name=name, **own), (1, 28, 28), 10, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)
    )
    batch = Batch(torch.rand(6, 1, 28, 28, generator=torch.Generator().manual_seed(3)), torch.arange(6))
    wanted = reference(student, wise, batch, form=form, t=3.0, weight=4.0)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-4)):
        network = copy.deepcopy(student).to(dtype)
        objective = Distillation(Classification(), copy.deepcopy(wise).to(dtype), temperature=3.0, weight=4.0, form=form)
        found = objective(network, Batch(batch.inputs.to(dtype), batch.targets))
        for mine, theirs in zip(torch.autograd.grad(found.minimised, list(network.parameters())), wanted, strict=True):
            assert mine.dtype == dtype
            largest = float(theirs.abs().max()) + 1e-12
            torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=tolerance * largest)


def test_members_imitate_the_teacher_on_their_own() -> None:
    generator = torch.Generator().manual_seed(1)
    student = build_network(NetworkSpec(depth=3, width=8, members=3), (1, 8, 8), 10, generator=generator)
    wise = network_of(5, 2)
    inputs, targets = torch.rand(7, 1, 8, 8), torch.arange(7)
    found = Distillation(Classification(), wise, temperature=4.0, weight=0.5)(student, Batch(inputs, targets))
    each, aims = student.by_member(inputs), wise(inputs).detach()
    expected = [F.cross_entropy(each[:, member], targets) for member in range(3)]
    p = (aims / 4).softmax(1)
    distances = [(p * (p.log() - (each[:, member] / 4).log_softmax(1))).sum(1).mean() for member in range(3)]
    torch.testing.assert_close(found.loss, torch.stack(expected).mean())
    torch.testing.assert_close(found.minimised, torch.stack(expected).mean() + 0.5 * 16 * torch.stack(distances).mean())
    torch.testing.assert_close(found.outputs, each.mean(1).detach())


def test_high_temperatures_match_logits() -> None:
    """For T → ∞ the usual form becomes the squared distance of the centred logits, divided by 2·classes (Hinton et al., section 2.1)."""
    generator = torch.Generator().manual_seed(0)
    outputs, wanted = (torch.randn(5, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    targets = torch.zeros(5, dtype=torch.long)
    usual, released = (Distillation(Classification(), network_of(2, 1), temperature=1e4, form=form) for form in ("hinton", "fitnets"))
    centred = (outputs - outputs.mean(1, keepdim=True)) - (wanted - wanted.mean(1, keepdim=True))
    torch.testing.assert_close(usual.distance(outputs, wanted, targets), centred.square().sum(1).mean() / 8, rtol=1e-3, atol=0)
    torch.testing.assert_close(released.distance(outputs, wanted, targets), torch.tensor(4.0, dtype=torch.float64).log(), rtol=1e-6, atol=0)
    outputs.requires_grad_()
    gradients = [torch.autograd.grad(one.distance(outputs, wanted, targets), outputs)[0] for one in (usual, released)]
    torch.testing.assert_close(gradients[0], centred / (4 * 5), rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(gradients[1] * 1e8, gradients[0], rtol=1e-5, atol=1e-8)


def test_the_weight_changes_linearly_between_two_epochs() -> None:
    spec = spec_with(3, teacher={"run": "x", "weight": 4.0, "final_weight": 1.0, "weight_epochs": [1, 3]})
    assert spec.teacher is not None
    span = spec.teacher.span(5)
    objective = Distillation(Classification(), network_of(3, 1), weight=4.0, final_weight=1.0, span=span)
    found = [objective.weight_at(epoch / 5) for epoch in (0, 0.5, 1, 1.5, 2, 3, 4, 5)]
    assert found == pytest.approx([4, 4, 4, 3.25, 2.5, 1, 1, 1])
    assert Distillation(Classification(), network_of(3, 1), weight=2.0).weight_at(0.7) == 2.0
    whole = Distillation(Classification(), network_of(3, 1), weight=0.0, final_weight=1.0)
    assert [whole.weight_at(share) for share in (0.0, 0.25, 1.0)] == [0.0, 0.25, 1.0]


def test_without_weight_a_run_is_the_one_without_a_teacher(teacher: RunDirectory, tmp_path: Path) -> None:
    taught = train(spec_with(4, teacher={"run": str(teacher.path), "weight": 0.0}), tmp_path / "taught")
    alone = train(spec_with(4), tmp_path / "alone")
    for name in ("history.jsonl", "checkpoints/final.safetensors"):
        assert (taught.path / name).read_bytes() == (alone.path / name).read_bytes()


@pytest.mark.parametrize("form", ["hinton", "fitnets"])
def test_interrupted_runs_are_resumed_to_the_bit_while_the_weight_changes(form: str, teacher: RunDirectory, tmp_path: Path) -> None:
    class Stop(Watcher):
        interruption, left = Interruption(), 27

        def step(self, samples: int) -> None:
            self.left -= 1
            self.interruption.requested = 130 if self.left == 0 else 0

    before = {path: path.read_bytes() for path in teacher.path.rglob("*") if path.is_file()}
    section = {"run": str(teacher.path), "weight": 4.0, "final_weight": 1.0, "weight_epochs": [0.2, 2.5], "form": form}
    spec, stop = spec_with(4, teacher=section), Stop()
    calm = train(spec, tmp_path / "calm")
    with pytest.raises(InterruptedRunError):
        train(spec, tmp_path / "shaken", watcher=stop, interruption=stop.interruption)
    shaken = train(spec, tmp_path / "shaken", resume=True)
    for name in ("history.jsonl", "checkpoints/final.safetensors"):
        assert (calm.path / name).read_bytes() == (shaken.path / name).read_bytes()
    assert {path: path.read_bytes() for path in teacher.path.rglob("*") if path.is_file()} == before, "the teacher is untouched"


def test_numbers_are_imitated_too() -> None:
    outputs, targets = torch.randn(6, 1), torch.randn(6)
    objective = Distillation(Regression(), network_of(3, 1), weight=2.0)
    wanted = torch.randn(6, 1)
    torch.testing.assert_close(objective.distance(outputs, wanted, targets), (outputs - wanted).square().mean())
    assert objective.is_squared_error


def test_companions_keep_their_losses() -> None:
    student = build_network(NetworkSpec(name="mnist-plain-16", deep_supervision=True), (1, 28, 28), 10)
    wise = build_network(NetworkSpec(name="mnist-highway-16"), (1, 28, 28), 10)
    batch = Batch(torch.rand(3, 1, 28, 28), torch.tensor([1, 2, 3]), 0.5)
    student.eval()
    main = Companions(Classification(), 0.3)
    alone, both = main(student, batch), Distillation(main, wise, weight=1.0)(student, batch)
    distance = Distillation(main, wise).distance(both.outputs, wise.eval()(batch.inputs), batch.targets)
    torch.testing.assert_close(both.minimised, alone.minimised + distance)


def test_a_run_with_a_teacher_agrees_with_it_more(teacher: RunDirectory, tmp_path: Path) -> None:
    strong = {"run": str(teacher.path), "weight": 20.0, "temperature": 2.0}
    taught = train(spec_with(3, teacher=strong), tmp_path / "taught")
    alone = train(spec_with(3), tmp_path / "alone")
    inputs = torch.rand(300, 1, 8, 8).numpy() * 16
    wanted = torch.from_numpy(load(teacher.path).predict_proba(inputs)).clamp_min(1e-9)
    far = [
        float((wanted * (wanted.log() - torch.from_numpy(load(run.path).predict_proba(inputs)).clamp_min(1e-9).log())).sum(1).mean())
        for run in (taught, alone)
    ]
    assert far[0] < 0.8 * far[1]
    known = taught.read_spec().teacher
    assert known is not None
    assert known.weights is not None, "the checksum of the teacher's weights is kept"


def test_it_resumes_and_repeats_exactly(teacher: RunDirectory, tmp_path: Path) -> None:
    spec = spec_with(4, teacher={"run": str(teacher.path)})
    calm = train(spec, tmp_path / "calm")
    again = train(calm.read_spec(), tmp_path / "again")
    assert calm.read_history() == again.read_history()
    assert train(spec, tmp_path / "calm", resume=True).read_history() == calm.read_history(), "a finished run has nothing to do"


def test_a_child_does_not_inherit_the_teacher(teacher: RunDirectory, tmp_path: Path) -> None:
    taught = train(spec_with(4, teacher={"run": str(teacher.path)}), tmp_path / "taught")
    assert RunSpec.from_run(taught.path).teacher is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"teacher": {"run": "nowhere"}}, r"teacher.run = .*nowhere': there is no run directory; name the folder of a finished run"),
        ({"teacher": {"weights": "0" * 64}}, r"teacher.run = .*: its weights are not those that the run started with"),
        ({"teacher": {"weight_epochs": [1, 2]}}, r"teacher.weight_epochs = \[1.0, 2.0\]: needs teacher.final_weight"),
        (
            {"teacher": {"final_weight": 0.5, "weight_epochs": [2, 0.1]}},
            r"teacher.weight_epochs = .*: the first must come before the second",
        ),
        ({"teacher": {"form": "hintn"}}, r"teacher.form = 'hintn': should be 'hinton' or 'fitnets'"),
        ({"teacher": {"final_weight": 0.5, "weight_epochs": [1]}}, r"teacher.weight_epochs = \[1\]: should have more values \(The epochs"),
        ({"teacher": {"final_weight": 0.5, "weight_epochs": [1, 2, 3]}}, r"teacher.weight_epochs = \[1, 2, 3\]: should have fewer values"),
        (
            {"data": {"preprocessing": ("standardise",)}},
            r"teacher.run = .*: its inputs are prepared in another way \(\['scale'\], here \['standardise'\]\); "
            r"to prepare them as for the teacher: --set \"data.preprocessing=\['scale'\]\"",
        ),
    ],
)
def test_teachers_that_do_not_fit(changes: dict[str, dict[str, object]], sentence: str, teacher: RunDirectory, tmp_path: Path) -> None:
    values = {"teacher": {"run": str(teacher.path)} | changes.get("teacher", {}), "data": changes.get("data", {})}
    with pytest.raises(InputError, match=sentence):
        train(spec_with(3, **values), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unfinished_or_damaged_teacher_is_refused(teacher: RunDirectory, tmp_path: Path) -> None:
    for name, damage, sentence in (
        ("unfinished", lambda run: (run / "checkpoints/final.json").unlink(), "the run did not finish; continue it with: highway train"),
        ("damaged", lambda run: next(run.glob("checkpoints/best-*.safetensors")).write_bytes(b"no"), "is damaged"),
    ):
        shutil.copytree(teacher.path, tmp_path / name)
        damage(tmp_path / name)
        with pytest.raises(InputError, match=rf"teacher.run = '{tmp_path / name}': .*{sentence}"):
            train(spec_with(3, teacher={"run": str(tmp_path / name)}), tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_the_best_weights_of_an_unfinished_teacher_may_be_asked_for(teacher: RunDirectory, tmp_path: Path) -> None:
    shutil.copytree(teacher.path, tmp_path / "unfinished")
    (tmp_path / "unfinished/checkpoints/final.json").unlink()
    asked = {"run": str(tmp_path / "unfinished"), "checkpoint": "best"}
    run = train(spec_with(3, teacher=asked), tmp_path / "run")
    usual = train(spec_with(3, teacher={"run": str(teacher.path), "checkpoint": "best"}), tmp_path / "usual")
    assert run.read_history() == usual.read_history()


def test_a_teacher_that_was_replaced_before_resuming(teacher: RunDirectory, tmp_path: Path) -> None:
    known, interruption = tmp_path / "wise", Interruption()
    shutil.copytree(teacher.path, known)
    spec = spec_with(3, teacher={"run": str(known)})
    interruption.request()
    with pytest.raises(InterruptedRunError):
        train(spec, tmp_path / "run", interruption=interruption)
    train(spec_with(4), known, overwrite=True)
    sentence = (
        rf"teacher.run = '{known}': its weights are not those that {tmp_path / 'run'} was started with; restore that teacher, or start"
    )
    with pytest.raises(InputError, match=sentence):
        train(spec, tmp_path / "run", resume=True)


def test_a_teacher_of_other_data_is_refused(teacher: RunDirectory, tmp_path: Path) -> None:
    other = RunSpec(network=NetworkSpec(depth=3), training=TrainingSpec(epochs=1), teacher=TeacherSpec(run=str(teacher.path)))
    own = other.model_copy(update={"data": other.data.for_memory(None)})
    with pytest.raises(InputError, match=r"it was trained with another shape of samples \(\[1, 8, 8\], here \[5\]\); choose a teacher"):
        train(own, tmp_path / "run", data=(torch.rand(40, 5).numpy(), [0, 1] * 20))


def test_a_fresh_start_takes_the_form_only(teacher: RunDirectory, tmp_path: Path) -> None:
    spec = RunSpec.from_run(teacher.path, without=[2, 4], fresh=True)
    run = train(spec, tmp_path / "run")
    shallow = build_network(NetworkSpec(depth=4, width=12), (1, 8, 8), 10)
    assert run.load_plan().removable == 3
    assert load(run.path).network.state_dict().keys() == shallow.state_dict().keys()
    start = run.checkpoints.load("start")[0]
    inherited = load(teacher.path).without([2, 4]).network.state_dict()
    assert not torch.equal(start["stack.weight"], inherited["stack.weight"])
    assert evaluate(run.path).accuracy == evaluate(train(run.read_spec(), tmp_path / "again").path).accuracy
