"""Distillation against formulas, runs that imitate other runs, and runs that take only the form of another one."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from highwaynet import NetworkSpec, RunSpec, TeacherSpec, TrainingSpec, build_network, evaluate, load
from highwaynet.base.errors import InputError
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import spec_from_values
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
        ({"teacher": {"run": "nowhere"}}, r"teacher.run = .*nowhere': .*nowhere: no such run directory"),
        ({"teacher": {"weights": "0" * 64}}, r"teacher.run = .*: its weights are not those that the run started with"),
        ({"data": {"preprocessing": ("standardise",)}}, r"teacher.run = .*: its inputs are prepared in another way"),
    ],
)
def test_teachers_that_do_not_fit(changes: dict[str, dict[str, object]], sentence: str, teacher: RunDirectory, tmp_path: Path) -> None:
    values = {"teacher": {"run": str(teacher.path)} | changes.get("teacher", {}), "data": changes.get("data", {})}
    with pytest.raises(InputError, match=sentence):
        train(spec_with(3, **values), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_teacher_of_other_data_is_refused(teacher: RunDirectory, tmp_path: Path) -> None:
    other = RunSpec(network=NetworkSpec(depth=3), training=TrainingSpec(epochs=1), teacher=TeacherSpec(run=str(teacher.path)))
    own = other.model_copy(update={"data": other.data.for_memory(None)})
    with pytest.raises(InputError, match=r"teacher.run = .*: it was trained with another shape of samples"):
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
