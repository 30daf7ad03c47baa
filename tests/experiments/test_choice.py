"""Settings that validation data choose: tried with the first seed, repeated with the others if they win."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import forked
from experiments.fakes import Fake, evaluation, evidence_of
from highwaynet.base.errors import HighwayError, InputError
from highwaynet.experiments import runner
from highwaynet.experiments.choice import Choice, tried, validation_accuracy
from highwaynet.experiments.claim_records import load_claim
from highwaynet.experiments.claims import Claim, Rule, Run, Scale, decided
from highwaynet.experiments.evidence import Evidence
from highwaynet.experiments.pool import Pool
from highwaynet.experiments.race import best_of
from highwaynet.experiments.registry import CLAIMS
from highwaynet.experiments.reproduce import prepare, reproduce
from highwaynet.experiments.runner import Standing, run_all
from highwaynet.experiments.specs import run_spec
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.run_records import EpochRecord

RATES = (1e-6, 0.1, 1e-5)
"""Only the second one learns."""


def made_with(rate: float, seed: int, **data: Any) -> Run:
    training = {"epochs": 2, "batch_size": 64, "learning_rate": rate}
    spec = run_spec({"name": "fc-highway", "depth": 3, "width": 16}, {"name": "digits"} | data, training, seed)
    return Run(f"net-rate{rate:g}-{seed}", spec, ("evaluation",))


def contest(seeds: tuple[int, ...] = (5, 6, 7)) -> list[Run]:
    return list(tried("net", RATES, seeds, made_with))


@pytest.fixture(autouse=True)
def _forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "start_worker", forked.start_worker)


def test_every_value_is_tried_with_the_first_seed_before_any_is_repeated() -> None:
    runs = contest()
    assert [run.label for run in runs[:3]] == ["net-rate1e-06-5", "net-rate0.1-5", "net-rate1e-05-5"]
    assert [run.first for run in runs[:3]] == [""] * 3
    assert {(run.label, run.first) for run in runs[3:]} == {
        (f"net-rate{rate:g}-{seed}", f"net-rate{rate:g}-5") for rate in RATES for seed in (6, 7)
    }
    assert {run.contest for run in runs} == {"net"}
    assert [run.spec for run in runs if run.label.endswith("0.1-7")] == [made_with(0.1, 7).spec]


@pytest.mark.parametrize(
    ("found", "winner"),
    [((0.2, 0.9, 0.3), 1), ((0.5, 0.1, 0.5), 0), ((0.0, 0.0, 0.0), 0), ((0.9, None, 0.1), None), ((0.0, 0.0, 0.1), 2)],
    ids=["highest", "first of equal ones", "all diverged", "undecided", "last"],
)
def test_who_wins(found: tuple[float | None, ...], winner: int | None) -> None:
    runs = [*contest(), made_with(0.3, 1)]
    known = dict(zip([run.label for run in runs[:3]], found, strict=True))
    choice = Choice(runs, lambda run: known[run.label])
    alone, repeated = [*runs[:3], runs[-1]], runs[3:-1]
    assert all(choice.made(run) is True and choice.counts(run) and not choice.entries(run) for run in alone)
    wanted = None if winner is None else runs[winner].label
    assert [choice.made(run) for run in repeated] == [None if wanted is None else run.first == wanted for run in repeated]
    # As long as it is open who wins, the first value stands for the winner: the number of runs is right.
    assert [run.first for run in repeated if choice.counts(run)] == [wanted or runs[0].label] * 2


def test_the_validation_accuracy_is_that_of_the_answer() -> None:
    def line(loss: float | None, accuracy: float | None) -> EpochRecord:
        return EpochRecord(epoch=1, step=1, learning_rate=0.1, train_loss=1.0, validation_loss=loss, validation_accuracy=accuracy)

    assert validation_accuracy([line(0.5, 0.8), line(0.4, 0.7), line(0.6, 0.9)]) == 0.7
    assert validation_accuracy([]) == validation_accuracy([line(None, None)]) == 0.0


def test_the_rate_that_was_repeated_is_the_chosen_one(tmp_path: Path) -> None:
    labels = {"net-rate0.1-5": 0.7, "net-rate0.1-6": 0.6, "net-rate0.3-5": 0.69}
    fakes = {label: Fake((0.5,), records=evaluation(0.5), validation=value) for label, value in labels.items()}
    rate, runs = best_of(evidence_of(tmp_path, fakes), "net")
    assert (rate, [run.label for run in runs]) == (0.1, ["net-rate0.1-5", "net-rate0.1-6"]), "although its mean is below that of 0.3"


def draw(evidence: Evidence) -> Any:
    return {}


def judge(evidence: Evidence) -> Any:
    rate, runs = best_of(evidence, "net")
    return decided(True, f"learning rate {rate:g}", evidence.seeds_of(runs))


def plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    return tuple(contest())


CLAIM = Claim("toy", "A toy", "It works.", plan, (Rule("works", "it works", "it is run", judge),), draw)


class Told:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.standings: list[Standing] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def show(self, standing: Standing) -> None:
        self.standings.append(standing)


def test_only_the_winner_is_repeated_and_another_machine_goes_on(tmp_path: Path) -> None:
    out, told = tmp_path / "here", Told()
    job = prepare(CLAIM, "laptop", None, out, [])
    assert len(job.expected) == len(job.left) == 5
    record = reproduce(job, 2, told)
    labels = ["net-rate1e-06-5", "net-rate0.1-5", "net-rate1e-05-5", "net-rate0.1-6", "net-rate0.1-7"]
    assert [run.label for run in record.runs] == labels
    assert (record.rules[0].found, record.rules[0].seeds) == ("learning rate 0.1", 3)
    assert {one.runs for one in told.standings} == {5}
    assert told.standings[-1] == Standing(5, 5, ())
    assert len(list((out / "runs").iterdir())) == 5

    again = prepare(CLAIM, "laptop", None, out, [])
    assert not again.left
    assert [run.label for run in again.expected] == labels

    # The archive alone says who won: elsewhere nothing is made again.
    shutil.copytree(out / "toy", tmp_path / "there" / "toy")
    moved = prepare(CLAIM, "laptop", None, tmp_path / "there", [])
    assert not moved.needed
    assert reproduce(moved, 1, Told()) == record
    assert load_claim(tmp_path / "there" / "toy") == record


def test_without_a_winner_repetitions_are_given_up_and_this_is_said_at_once(tmp_path: Path) -> None:
    runs, told = contest((5, 6)), Told()
    broken = replace(runs[2], spec=run_spec({"name": "fitnet-a"}, "digits", {"epochs": 1}))  # too large for these images
    runs[2] = broken
    pool = Pool(tmp_path)
    choice = Choice(runs, lambda run: 0.5 if pool.is_done(run) else None)
    with pytest.raises(HighwayError, match=r"the run net-rate1e-05-5 failed: "):
        run_all(runs, pool, 2, told.show, choice=choice, note=told.note)
    assert told.standings[-1] == Standing(2, 3, ()), "repetitions of which nobody knows whether they are needed are not done"
    assert len(told.notes) == 1, "it is said once, while the others go on"
    assert told.notes[0].startswith(f"the run {broken.label} failed: ")
    assert [pool.is_done(run) for run in runs[:2]] == [True, True]
    assert not any(RunDirectory(pool.path_of(run)).finished for run in runs[3:])


@pytest.mark.parametrize("name", ["race-maxout", "fitnets", "thin-maxout", "supervision"])
def test_claims_repeat_one_setting_of_each_network(name: str) -> None:
    runs = CLAIMS[name].plan("laptop", None)
    labels = [run.label for run in runs]
    assert len(set(labels)) == len(labels)
    choice = Choice(runs, lambda run: 0.5)
    contests = {run.contest for run in runs if run.contest}
    for one in contests:
        entries = [run for run in runs if run.contest == one and not run.first]
        assert len({run.spec.seed for run in entries}) == 1
        assert [run.first for run in runs if run.contest == one and run.first and choice.made(run)] == [entries[0].label] * 2
        rates = [run.spec.training.learning_rate for run in entries]
        assert rates == sorted(rates), "of equal ones the lowest wins, in rules too"
    assert CLAIMS[name].plan("laptop", 1) == tuple(run for run in runs if not run.first)


def test_a_damaged_run_that_decides_is_named_with_a_way_out(tmp_path: Path) -> None:
    reproduce(prepare(CLAIM, "laptop", None, tmp_path, []), 2, Told())
    job = prepare(CLAIM, "laptop", None, tmp_path, [])
    path = job.pool.path_of(job.runs[0])
    history = path / "history.jsonl"
    history.write_bytes(history.read_bytes().replace(b"0.", b"0.1", 1))
    with pytest.raises(InputError, match=rf"\(remove {path}, and the same command makes this run again\)"):
        prepare(CLAIM, "laptop", None, tmp_path, []).needed  # noqa: B018
    # Found while others are made: they are finished first.
    runs, told = [*job.runs, made_with(0.2, 1)], Told()

    def damaged(run: Run) -> float:
        raise InputError(f"{run.label} is damaged")

    with pytest.raises(HighwayError, match=r"the run net-rate1e-06-6 failed: net-rate1e-06-5 is damaged"):
        run_all(runs, job.pool, 1, told.show, choice=Choice(runs, damaged), note=told.note)
    assert job.pool.is_done(runs[-1])
