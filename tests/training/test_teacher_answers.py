"""A teacher is asked once about samples that are never augmented, and otherwise about each batch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from highwaynet import InputError, InterruptedRunError, Interruption, NetworkSpec, RunSpec, TrainingSpec, Watcher, build_network
from highwaynet.networks.network import Network
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network
from highwaynet.runs.spec import spec_from_values
from highwaynet.training import teacher_answers
from highwaynet.training.loop import train
from highwaynet.training.objective import Batch, Objective, objective_for
from highwaynet.training.teacher_answers import TeacherAnswers


def spec_with(**sections: Any) -> RunSpec:
    training = {"epochs": 2, "batch_size": 64, "learning_rate": 0.1, "threads": 1} | sections.pop("training", {})
    return spec_from_values({"network": {"depth": 4, "width": 12}, "seed": 2, "training": training} | sections)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return train(spec_with(), tmp_path_factory.mktemp("teacher") / "run")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples the teacher was asked about, call by call."""
    counts: list[int] = []
    ask = TeacherAnswers._asked

    def counted(self: TeacherAnswers, inputs: Tensor) -> Tensor:
        counts.append(len(inputs))
        return ask(self, inputs)

    monkeypatch.setattr(TeacherAnswers, "_asked", counted)
    return counts


def network() -> Network:
    return build_network(NetworkSpec(depth=3, width=8), (1, 8, 8), 10, generator=torch.Generator().manual_seed(1))


def test_kept_answers_are_those_of_the_samples() -> None:
    wise, inputs = network(), torch.rand(70, 1, 8, 8)
    answers = TeacherAnswers(wise, lambda network, inputs: network(inputs))
    answers.keep(iter(inputs.split(32)), 70)
    chosen = torch.tensor([69, 0, 33, 0])
    wanted = torch.cat([wise(part) for part in inputs.split(32)])[chosen]
    # The inputs of the batch are not looked at: other ones give the same answers.
    found = answers(Batch(torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.long), samples=chosen))
    assert torch.equal(found, wanted)
    assert not found.requires_grad
    torch.testing.assert_close(found, wise(inputs[chosen]))
    # Samples without numbers, as in validation, are asked about.
    assert torch.equal(answers(Batch(inputs[:4], torch.zeros(4))), wise(inputs[:4]))


def test_answers_that_are_too_large_are_not_kept(monkeypatch: pytest.MonkeyPatch, asked: list[int]) -> None:
    wise, inputs = network(), torch.rand(70, 1, 8, 8)
    batch = Batch(inputs[:3], torch.zeros(3), samples=torch.arange(3))
    for limit, calls in ((70 * 10 * 4, [32, 32, 6]), (70 * 10 * 4 - 1, [32, 3])):
        monkeypatch.setattr(teacher_answers, "LIMIT", limit)
        asked.clear()
        answers = TeacherAnswers(wise, lambda network, inputs: network(inputs))
        answers.keep(iter(inputs.split(32)), 70)
        torch.testing.assert_close(answers(batch), wise(inputs[:3]))
        assert asked == calls


def test_a_run_says_that_it_computes_answers_only_if_it_keeps_them(
    teacher: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told(Watcher):
        def __init__(self) -> None:
            self.notes: list[str] = []

        def note(self, sentence: str) -> None:
            self.notes.append(sentence)

    for limit, said in ((teacher_answers.LIMIT, 1), (10, 0)):
        monkeypatch.setattr(teacher_answers, "LIMIT", limit)
        told = Told()
        train(spec_with(training={"epochs": 1}, teacher={"run": str(teacher.path)}), tmp_path / str(said), watcher=told)
        assert sum("computing once" in sentence for sentence in told.notes) == said


def test_an_objective_that_prepares_answers_is_tried_with_two_samples(tmp_path: Path) -> None:
    class Foreseeing(Objective):
        fails = False

        def foresee(self, inputs: Any, count: int) -> None:
            self.table = torch.cat([batch.flatten(1).mean(1) for batch in inputs])
            assert len(self.table) == count
            if self.fails:
                raise KeyError("nothing")

        def forward(self, network: Any, batch: Batch) -> Any:
            assert batch.samples is not None
            torch.testing.assert_close(self.table[batch.samples], batch.inputs.flatten(1).mean(1))
            return super().forward(network, batch)

    run = train(spec_with(training={"epochs": 1}), tmp_path / "run", objective=Foreseeing())
    assert run.finished
    wrong = Foreseeing()
    wrong.fails = True
    with pytest.raises(InputError, match=r"^objective Foreseeing: foresee\(inputs, count\) fails on two samples \(KeyError"):
        train(spec_with(), tmp_path / "wrong", objective=wrong)
    assert not (tmp_path / "wrong").exists()


class ByHand(Objective):
    """Distillation in its usual form, which asks the teacher about each batch; it checks the numbers of the samples."""

    def __init__(self, wise: Network, main: Objective) -> None:
        super().__init__()
        self.main, self.wise = main, [wise]
        self.seen: list[Tensor] = []

    def forward(self, network: Any, batch: Batch) -> Any:
        with torch.no_grad():
            aims = self.wise[0](batch.inputs)
        found = self.main(lambda x: x, batch._replace(inputs=network(batch.inputs)))
        p, q = (aims / 3).log_softmax(1), (found.outputs / 3).log_softmax(1)
        assert batch.samples is not None
        self.seen.append(batch.samples)
        return found._replace(minimised=found.minimised + 9 * (p.exp() * (p - q)).sum(1).mean())


def test_a_run_learns_as_if_the_teacher_were_asked_about_each_batch(teacher: RunDirectory, tmp_path: Path, asked: list[int]) -> None:
    kept = train(spec_with(teacher={"run": str(teacher.path)}), tmp_path / "kept")
    samples = kept.load_preparation().record.train
    assert sum(asked) == samples, "once, for two epochs"

    wise = load_network(teacher)
    objective = ByHand(wise, objective_for(wise.plan, teacher.load_preparation().record, TrainingSpec()))
    naive = train(spec_with(), tmp_path / "naive", objective=objective)
    seen = torch.cat(objective.seen[-2 * -(-samples // 64) :]).split(samples)
    assert all(torch.equal(epoch.sort().values, torch.arange(samples)) for epoch in seen)
    for mine, theirs in zip(kept.read_history(), naive.read_history(), strict=True):
        assert mine.train_loss == pytest.approx(theirs.train_loss, rel=1e-4)


@pytest.mark.parametrize(
    ("training", "section", "times"),
    [({"crop": 1}, {}, 2), ({}, {"weight": 0.0}, 0), ({}, {"weight": 0.0, "final_weight": 1.0}, 1)],
    ids=["augmented", "no weight", "weight that grows"],
)
def test_how_often_the_teacher_is_asked(
    training: dict[str, Any], section: dict[str, Any], times: int, teacher: RunDirectory, tmp_path: Path, asked: list[int]
) -> None:
    run = train(spec_with(training=training, teacher={"run": str(teacher.path)} | section), tmp_path / "run")
    assert sum(asked) == times * run.load_preparation().record.train


def test_a_run_is_interrupted_while_the_teacher_is_asked(teacher: RunDirectory, tmp_path: Path, asked: list[int]) -> None:
    spec = spec_with(teacher={"run": str(teacher.path)})
    whole = train(spec, tmp_path / "whole")

    class Hasty(Watcher):
        def note(self, sentence: str) -> None:
            if "what is the same in every epoch" in sentence:
                stop.request()

    stop = Interruption()
    asked.clear()
    with pytest.raises(InterruptedRunError):
        train(spec, tmp_path / "run", watcher=Hasty(), interruption=stop)
    assert asked == [256]
    run = train(spec, tmp_path / "run", resume=True)
    mine, theirs = load_network(run).state_dict(), load_network(whole).state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    assert run.read_history() == whole.read_history()
