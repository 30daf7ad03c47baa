"""How the learning rate changes."""

from highwaynet.runs.spec import TrainingSpec


def learning_rate(spec: TrainingSpec, step: int, steps: int) -> float:
    """The learning rate of a step (from 0) of a run of `steps`: exponential, from `learning_rate` to `learning_rate · decay`.

    >>> spec = TrainingSpec(learning_rate=1.0, decay=0.01)
    >>> [round(learning_rate(spec, step, 3), 6) for step in range(3)]
    [1.0, 0.1, 0.01]
    """
    progress = step / (steps - 1) if steps > 1 else 0.0
    return spec.learning_rate * float(spec.decay**progress)
