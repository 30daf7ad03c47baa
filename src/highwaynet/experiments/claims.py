"""What a claim of the paper is made of. Free of torch.

A claim knows which runs it needs at each scale, by which rules they are judged, which numbers stand beside the paper's, and how it is
drawn. Rules, numbers and figures see nothing but the evidence: what is kept of the runs.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from highwaynet.runs.spec import RunSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
Verdict = Literal["reproduced", "partly", "not reproduced", "not run", "not judged"]
Analysis = Literal["evaluation", "gates", "routing", "flow", "lesions"]


@dataclass(frozen=True)
class Run:
    """A run that a claim needs."""

    label: str
    """Names it among the claim's, for instance highway-100."""
    spec: RunSpec
    """What is trained."""
    analyses: tuple[Analysis, ...] = ()
    """What the trained network is asked."""


@dataclass(frozen=True)
class Outcome:
    """What a rule came to."""

    verdict: Verdict
    found: str
    """The numbers that decide."""


@dataclass(frozen=True)
class Rule:
    """When a finding of the paper counts as reproduced. Written before the runs, and stored with them."""

    name: str
    """Short, for the table."""
    paper: str
    """What the paper says."""
    text: str
    """When that is reproduced, and when partly."""
    judge: Callable[["Evidence"], Outcome]


@dataclass(frozen=True)
class Row:
    """A number of the paper beside ours."""

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
    """What users type."""
    title: str
    """What it is."""
    paper: str
    """What it shows there, in a sentence."""
    plan: Callable[[Scale, int | None], tuple[Run, ...]]
    """The runs at a scale, with so many seeds (None: as many as usual); none where it is not run at this scale."""
    rules: tuple[Rule, ...]
    draw: Callable[["Evidence"], Mapping[str, tuple["Figure", str]]]
    """Figures with their captions, by the name of their file."""
    rows: Callable[["Evidence"], list[Row]] = _no_rows
    """Numbers beside the paper's."""
    notes: Mapping[Scale, str] = field(default_factory=dict)
    """What differs from the paper at a scale, or why it is not run there."""
    source: str = "the paper"
    """Who claims it."""
    seen: str = ""
    """Similar runs that were known when the rules were written, so that they may have shaped them."""
    short: str = ""
    """What it says, in a few words: a cell of the table of all claims."""
    headline: Callable[["Evidence"], str] = _no_headline
    """What the runs show about that, in a few words: the cell beside it."""


def overall(verdicts: list[Verdict]) -> Verdict:
    """The verdict on a claim from those on its rules.

    >>> overall(["reproduced", "reproduced"]), overall(["reproduced", "not run"]), overall(["not reproduced", "not reproduced"])
    ('reproduced', 'partly', 'not reproduced')
    """
    run = [verdict for verdict in verdicts if verdict != "not run"]
    if not run:
        return "not run"
    if set(verdicts) == {"reproduced"}:
        return "reproduced"
    return "not reproduced" if set(run) == {"not reproduced"} else "partly"


def at_least(value: float, whole: float, part: float) -> Verdict:
    """Reproduced from one threshold on, partly from a lower one on."""
    return "reproduced" if value >= whole else "partly" if value >= part else "not reproduced"


def at_most(value: float, whole: float, part: float) -> Verdict:
    """Reproduced up to one threshold, partly up to a higher one."""
    return at_least(-value, -whole, -part)


def counted(holds: list[bool], partly: int = 1) -> Verdict:
    """Reproduced where all hold, partly where at least so many do; not run where there is nothing to hold.

    >>> counted([True, True]), counted([True, False]), counted([False, False]), counted([])
    ('reproduced', 'partly', 'not reproduced', 'not run')
    """
    return at_least(sum(holds), len(holds), partly) if holds else "not run"


def at_best_partly(verdict: Verdict) -> Verdict:
    """Where the evidence, or the measure, cannot carry more.

    >>> at_best_partly("reproduced"), at_best_partly("not reproduced")
    ('partly', 'not reproduced')
    """
    return "partly" if verdict == "reproduced" else verdict


def ratio(loss: float, other: float) -> float:
    """How many times the other loss a loss is; no number where both are infinite.

    >>> ratio(3.0, 2.0), ratio(1.0, 0.0), ratio(0.0, 0.0)
    (1.5, inf, 1.0)
    """
    if other == 0:
        return math.inf if loss else 1.0
    return loss / other


def times(factor: float) -> str:
    """A ratio in words.

    >>> times(1234.5), times(1.23), times(float("nan"))
    ('1,234 times', '1.2 times', 'no number of times')
    """
    if math.isnan(factor):
        return "no number of times"
    return f"{factor:,.0f} times" if factor >= 10 else f"{factor:.1f} times"
