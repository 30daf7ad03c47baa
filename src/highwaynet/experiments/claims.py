"""The parts of a claim. Does not import torch.

A claim defines its runs at each scale, the rules by which they are judged, the numbers to compare with the paper's, and its figures. Rules,
numbers and figures see only the evidence: what is kept of the runs.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from highwaynet.runs.spec import RunSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
Verdict = Literal["reproduced", "differs", "not reached", "not run", "not judged"]
"""differs: the numbers say otherwise. not reached: below the paper's number, with a smaller budget. not judged: scale smoke."""
Analysis = Literal["evaluation", "gates", "routing", "flow", "lesions", "depth"]


@dataclass(frozen=True)
class Run:
    """A run that a claim needs."""

    label: str
    """Its name within the claim, for instance highway-100."""
    spec: RunSpec
    """Its settings."""
    analyses: tuple[Analysis, ...] = ()
    """The questions to ask of the trained network."""
    teacher: "Run | None" = None
    """The run whose network is the teacher, which is trained before; `spec.teacher.run` is its key."""
    contest: str = ""
    """Runs with the same word differ in a setting, from whose values validation data choose (see `choice.py`); empty for other runs."""
    first: str = ""
    """The label of the run with the same value and the first seed: this run is made only if that one wins. Empty if it is always made."""


@dataclass(frozen=True)
class Outcome:
    """The result of a rule."""

    verdict: Verdict
    found: str
    """The numbers that decide."""
    seeds: int = 0
    """With how many seeds the networks were trained on which it rests; 0 if none was."""


@dataclass(frozen=True)
class Rule:
    """When a finding of the paper counts as reproduced: yes or no. Written before the runs, and stored with them."""

    name: str
    """A short name, for tables."""
    paper: str
    """What the paper says."""
    text: str
    """When that is reproduced."""
    judge: Callable[["Evidence"], Outcome]


@dataclass(frozen=True)
class Row:
    """A number of the paper, and ours."""

    what: str
    paper: str
    here: str


def _no_rows(evidence: "Evidence") -> list[Row]:
    return []


def _no_headline(evidence: "Evidence") -> str:
    return ""


@dataclass(frozen=True)
class Claim:
    """A figure or table of the paper, or a sentence in it."""

    name: str
    """Its name in commands."""
    title: str
    """Its title."""
    paper: str
    """What the paper says, in a sentence."""
    plan: Callable[[Scale, int | None], tuple[Run, ...]]
    """The runs at a scale, with this many seeds of each network (None: as many as usual); empty if it is not run at this scale."""
    rules: tuple[Rule, ...]
    draw: Callable[["Evidence"], Mapping[str, tuple["Figure", str]]]
    """Draws figures; returns them with their captions, by file name."""
    rows: Callable[["Evidence"], list[Row]] = _no_rows
    """Returns numbers to compare with the paper's."""
    notes: Mapping[Scale, str] = field(default_factory=dict)
    """What differs from the paper at a scale, or why it is not run there."""
    source: str = "the paper"
    """The publication that makes the claim."""
    seen: str = ""
    """Similar runs, with other seeds, that were known when the rules were written, so that they may have shaped them."""
    short: str = ""
    """The claim in a few words, for the table of all claims."""
    headline: Callable[["Evidence"], str] = _no_headline
    """Returns the result in a few words, for the same table."""


NOT_RUN = Outcome("not run", "not run")


def overall(verdicts: Sequence[Verdict]) -> str:
    """The verdict on a claim from those on its rules: the word that all of them have, or how many are reproduced.

    >>> overall(["reproduced", "reproduced"]), overall(["reproduced", "differs", "not run"]), overall(["not run", "not run"])
    ('reproduced', '1 of 3 reproduced', 'not run')
    """
    if len(set(verdicts)) == 1:
        return verdicts[0]
    return f"{verdicts.count('reproduced')} of {len(verdicts)} reproduced"


def decided(holds: bool, found: str, seeds: int, *, small_budget: bool = False) -> Outcome:
    """What a rule came to that was judged: reproduced if it holds; if not, not reached with a smaller budget than the paper's.

    >>> decided(True, "5", 1).verdict, decided(False, "5", 1).verdict, decided(False, "5", 1, small_budget=True).verdict
    ('reproduced', 'differs', 'not reached')
    """
    return Outcome("reproduced" if holds else "not reached" if small_budget else "differs", found, seeds)


def most(holds: Sequence[bool]) -> bool:
    """Whether something holds with more than half of the seeds.

    >>> most([True, True, False]), most([True, False]), most([])
    (True, False, False)
    """
    return 2 * sum(holds) > len(holds)


def with_seeds(holds: Sequence[bool]) -> str:
    """With how many seeds something holds; empty if there is one seed, whose numbers say it.

    >>> with_seeds([True, True, False]), with_seeds([True])
    ('with 2 of 3 seeds: ', '')
    """
    return f"with {sum(holds)} of {len(holds)} seeds: " if len(holds) > 1 else ""


def spread(values: Sequence[float], text: Callable[[float], str]) -> str:
    """The median of numbers, one for each seed, and their range in words.

    >>> spread([3.0, 1.0, 2.0], "{:g}".format), spread([1.0], "{:g}".format)
    ('2 (1 to 3)', '1')
    """
    if len(set(values)) == 1:
        return text(values[0])
    return f"{text(statistics.median(values))} ({text(min(values))} to {text(max(values))})"


def ratio(loss: float, other: float) -> float:
    """Return `loss` / `other`; NaN if both are infinite.

    >>> ratio(3.0, 2.0), ratio(1.0, 0.0), ratio(0.0, 0.0)
    (1.5, inf, 1.0)
    """
    if other == 0:
        return math.inf if loss else 1.0
    return loss / other


def times(factor: float) -> str:
    """Return a ratio in words.

    >>> times(1234.5), times(1.23), times(float("nan"))
    ('1,234 times', '1.2 times', 'no number of times')
    """
    if math.isnan(factor):
        return "no number of times"
    return f"{factor:,.0f} times" if factor >= 10 else f"{factor:.1f} times"
