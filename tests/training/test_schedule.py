"""Schedules by hand-computed values."""

import math
from pathlib import Path
from typing import Any

import pytest

from highwaynet import TrainingSpec, Watcher
from highwaynet.base.errors import InputError
from highwaynet.base.specs import validated
from highwaynet.runs.spec import with_training
from highwaynet.training.loop import train
from highwaynet.training.schedule import learning_rate, never_reached
from support import small_spec


def rates(steps: int, per_epoch: int = 1, **values: object) -> list[float]:
    spec = TrainingSpec(learning_rate=1.0, **values)
    return [round(learning_rate(spec, step, steps, per_epoch), 6) for step in range(steps)]


def test_exponential_falls_step_by_step_or_epoch_by_epoch() -> None:
    assert rates(3, decay=0.01) == [1.0, 0.1, 0.01]
    assert rates(6, 2, decay=0.01, schedule_in="epochs") == [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
    assert rates(4, decay=1.0) == [1.0] * 4
    assert rates(1, decay=0.1) == [1.0]


def test_milestones_are_shares_steps_or_epochs() -> None:
    halves = {"schedule": "multi-step", "decay": 0.5}
    assert rates(8, milestones=(0.25, 0.75), **halves) == [1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]
    assert rates(8, milestones=(3, 7), **halves) == [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]
    assert rates(8, 2, milestones=(1, 3), schedule_in="epochs", **halves) == [1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_a_share_falls_on_the_same_step_as_the_papers_count() -> None:
    spec = TrainingSpec(learning_rate=0.01, schedule="multi-step", milestones=(1 / 3, 2 / 3), decay=0.1)
    near = {step: learning_rate(spec, step, 180_000) for step in (59_999, 60_000, 119_999, 120_000)}
    assert list(near.values()) == pytest.approx([0.01, 0.001, 0.001, 0.0001])


def test_one_cycle_rises_in_a_line_and_falls_by_a_half_cosine() -> None:
    spec = TrainingSpec(learning_rate=0.08, schedule="one-cycle", warm_up=0.05)
    steps = 6000
    values = [learning_rate(spec, step, steps) for step in range(steps)]
    rising, falling = values[:300], values[300:]
    assert rising == sorted(rising)
    assert rising[0] == pytest.approx(0.08 / 301)
    assert max(values) == values[300] == 0.08
    assert falling == sorted(falling, reverse=True)
    assert falling[2850] == pytest.approx(0.04)
    assert 0 < values[-1] < 1e-7
    epochwise = TrainingSpec(learning_rate=0.08, schedule="one-cycle", warm_up=0.05, schedule_in="epochs")
    assert len({learning_rate(epochwise, step, steps, 600) for step in range(600, steps)}) == 9
    assert max(learning_rate(epochwise, step, steps, 600) for step in range(steps)) <= 0.08


def test_warm_up_precedes_any_schedule() -> None:
    assert rates(10, warm_up=0.3, decay=1.0) == [0.25, 0.5, 0.75, *[1.0] * 7]
    assert rates(5, warm_up=0.4, decay=0.01) == [round(1 / 3, 6), round(2 / 3, 6), 1.0, 0.1, 0.01]
    assert math.isclose(rates(10, warm_up=0.2, schedule="multi-step", milestones=(0.5,))[-1], 0.1)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"schedule": "multi-step"}, "training.schedule = 'multi-step': needs training.milestones"),
        ({"milestones": [0.5]}, "training.schedule = 'exponential': has no milestones"),
        ({"schedule": "multi-step", "milestones": [0.5, 0.25]}, "training.milestones = [0.5, 0.25]: must be in ascending order"),
        ({"schedule": "multi-step", "milestones": [0]}, "greater than 0"),
        ({"schedule": "cosine"}, "schedule = 'cosine': should be 'exponential', 'multi-step' or 'one-cycle'"),
        ({"nesterov": True, "momentum": 0.0}, "training.nesterov = true: needs sgd with momentum"),
        ({"nesterov": True, "optimiser": "adamw"}, "training.nesterov = true: needs sgd with momentum, not adamw"),
        ({"smoothing": 0.9}, "training.smoothing = 0.9: sgd does not use it"),
        ({"optimiser": "lion"}, "optimiser = 'lion': should be 'sgd', 'rmsprop' or 'adamw'"),
        ({"warm_up": 1.0}, "warm_up = 1.0: should be less than 1"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        validated(TrainingSpec, values)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"milestones": (0.5, 0.9)}, None),
        ({"milestones": (1, 99)}, None),
        ({"milestones": (0.5, 100, 250)}, "100, 250 are never reached, because the run ends after 100 steps;"),
        ({"milestones": (9,), "schedule_in": "epochs"}, None),
        ({"milestones": (10,), "schedule_in": "epochs"}, "10 is never reached, because the run ends after 10 epochs;"),
        ({"schedule": "exponential"}, None),
    ],
)
def test_milestones_after_the_end_are_named(settings: dict[str, Any], sentence: str | None) -> None:
    spec = TrainingSpec(**{"schedule": "multi-step"} | settings)
    note = never_reached(spec, 100, 10)
    assert (note is None) == (sentence is None)
    assert (sentence or "") in (note or "")
    # What it says: the rate does not fall any more.
    late = [place for place in spec.milestones or () if place >= (10 if spec.schedule_in == "epochs" else 100)]
    rest = spec.model_copy(update={"milestones": tuple(place for place in spec.milestones or () if place not in late)})
    assert [learning_rate(spec, step, 100, 10) for step in range(100)] == [learning_rate(rest, step, 100, 10) for step in range(100)]


def test_a_run_says_which_milestones_it_does_not_reach(tmp_path: Path) -> None:
    notes: list[str] = []

    class Listener(Watcher):
        def note(self, sentence: str) -> None:
            notes.append(sentence)

    spec = small_spec()
    train(with_training(spec, schedule="multi-step", milestones=(5000,), epochs=1), tmp_path / "run", watcher=Listener())
    assert any(note.startswith("training.milestones: 5000 is never reached, because the run ends after 21 steps") for note in notes)
