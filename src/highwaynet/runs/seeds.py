"""Results of several runs that differ only in their seed: best (mean ± standard deviation)."""

import statistics
from pathlib import Path
from typing import Literal

from highwaynet.base.files import write_atomically
from highwaynet.base.specs import Spec
from highwaynet.data.names import Part
from highwaynet.runs.run_records import Score

SEEDS = "seeds.json"


class SeedScore(Spec):
    """The score of one seed."""

    seed: int
    """The seed of the run."""
    run: str
    """Its folder, relative to that of all seeds."""
    score: Score
    """Loss and metrics of its final weights."""


class SeedsRecord(Spec):
    """Scores of runs that differ only in their seed; seeds.json in their folder."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    part: Part
    """The part of the data that was evaluated."""
    runs: tuple[SeedScore, ...]
    """The runs, by seed."""

    @property
    def summary(self) -> str:
        """The main metric over all seeds, as in tables of papers.

        >>> score = lambda accuracy: Score(loss=0.1, accuracy=accuracy, samples=100)
        >>> runs = tuple(SeedScore(seed=n, run=f"seed{n}", score=score(a)) for n, a in enumerate((0.99, 0.98, 0.97)))
        >>> SeedsRecord(part="test", runs=runs).summary
        'test accuracy: best 99.00 (mean 98.00 ± 1.00) %, over 3 seeds'
        """
        scores = [run.score for run in self.runs]
        if scores[0].accuracy is not None:
            values, best, name, unit, digits = [100 * (score.accuracy or 0.0) for score in scores], max, "accuracy", " %", ".2f"
        else:
            values, best, name, unit, digits = [score.rmse or 0.0 for score in scores], min, "RMSE", "", ".4g"
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        numbers = f"best {best(values):{digits}} (mean {statistics.fmean(values):{digits}} ± {spread:{digits}}){unit}"
        return f"{self.part} {name}: {numbers}, over {len(values)} seed{'s' if len(values) > 1 else ''}"

    def save(self, folder: Path) -> None:
        """Write seeds.json to the folder of the runs."""
        write_atomically(folder / SEEDS, self.model_dump_json(indent=2) + "\n")
