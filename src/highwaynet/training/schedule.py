"""Learning rate schedules."""

import math

from highwaynet.runs.training_spec import TrainingSpec


def learning_rate(spec: TrainingSpec, step: int, steps: int, steps_per_epoch: int = 1) -> float:
    """Return the learning rate of a step (from 0) of a run of `steps`; the highest value is `spec.learning_rate`.

    >>> spec = TrainingSpec(learning_rate=1.0, decay=0.01)
    >>> [round(learning_rate(spec, step, 3), 6) for step in range(3)]
    [1.0, 0.1, 0.01]
    >>> halved = TrainingSpec(learning_rate=1.0, schedule="multi-step", milestones=(0.5,), decay=0.5)
    >>> [learning_rate(halved, step, 4) for step in range(4)]
    [1.0, 1.0, 0.5, 0.5]
    """
    rising = spec.warm_up * steps
    if step < rising:
        return spec.learning_rate * (step + 1) / (rising + 1)
    if spec.schedule_in == "epochs":
        step, steps = step // steps_per_epoch, math.ceil(steps / steps_per_epoch)
        rising /= steps_per_epoch
    return spec.learning_rate * _factor(spec, step, steps, rising)


def never_reached(spec: TrainingSpec, steps: int, steps_per_epoch: int = 1) -> str | None:
    """Return a sentence about milestones after the end of a run of `steps`; None if there are none.

    >>> never_reached(TrainingSpec(schedule="multi-step", milestones=(0.5, 80), schedule_in="epochs"), 300, 10)
    'training.milestones: 80 is never reached, because the run ends after 30 epochs; numbers below 1 are shares of the run'
    """
    end = math.ceil(steps / steps_per_epoch) if spec.schedule_in == "epochs" else steps
    late = [f"{place:g}" for place in spec.milestones or () if place >= max(end, 1)]
    if not late:
        return None
    verb = "is" if len(late) == 1 else "are"
    return (
        f"training.milestones: {', '.join(late)} {verb} never reached, because the run ends after {end} {spec.schedule_in}; "
        "numbers below 1 are shares of the run"
    )


def _factor(spec: TrainingSpec, position: int, positions: int, rising: float) -> float:
    if spec.schedule == "multi-step":
        milestones = (round(place * positions) if place < 1 else place for place in spec.milestones or ())
        return float(spec.decay ** sum(position >= place for place in milestones))
    if spec.schedule == "one-cycle":
        progress = (position - rising) / (positions - rising)
        return 0.5 * (1 + math.cos(math.pi * max(progress, 0.0)))
    left = positions - 1 - rising
    return float(spec.decay ** (max(position - rising, 0.0) / left if left > 0 else 0.0))
