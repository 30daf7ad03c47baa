"""The parts of a claim. Does not import torch.

A claim defines its runs at each scale, the rules by which they are judged, the numbers to compare with the paper's, and its figures. Rules,
numbers and figures see only the evidence: what is kept of the runs.
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
    """Its name within the claim, for instance highway-100."""
    spec: RunSpec
    """Its settings."""
    analyses: tuple[Analysis, ...] = ()
    """The questions to ask of the trained network."""


@dataclass(frozen=True)
class Outcome:
    """The result of a rule."""

    verdict: Verdict
    found: str
    """The numbers that decided."""


@dataclass(frozen=True)
class Rule:
    """When a finding of the paper counts as reproduced. Written before the runs, and stored with them."""

    name: str
    """A short name, for tables."""
    paper: str
    """What the paper says."""
    text: str
    """When this counts as reproduced, and when as partly reproduced."""
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
    """Returns the runs at a scale with this many seeds (None: the default number); empty if the claim is not run at this scale."""
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
    """Similar runs that were known when the rules were written, and may have influenced them."""
    short: str = ""
    """The claim in a few words, for the table of all claims."""
    headline: Callable[["Evidence"], str] = _no_headline
    """Returns the result in a few words, for the same table."""


def overall(verdicts: list[Verdict]) -> Verdict:
    """Combine the verdicts on the rules of a claim to one.

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
    """Return reproduced from `whole` on, partly from `part` on."""
    return "reproduced" if value >= whole else "partly" if value >= part else "not reproduced"


def at_most(value: float, whole: float, part: float) -> Verdict:
    """Return reproduced up to `whole`, partly up to `part`."""
    return at_least(-value, -whole, -part)


def counted(holds: list[bool], partly: int = 1) -> Verdict:
    """Return reproduced if all conditions hold, partly if at least `partly` of them do, not run if there are none.

    >>> counted([True, True]), counted([True, False]), counted([False, False]), counted([])
    ('reproduced', 'partly', 'not reproduced', 'not run')
    """
    return at_least(sum(holds), len(holds), partly) if holds else "not run"


def at_best_partly(verdict: Verdict) -> Verdict:
    """Limit a verdict to partly, for evidence or measures that do not support more.

    >>> at_best_partly("reproduced"), at_best_partly("not reproduced")
    ('partly', 'not reproduced')
    """
    return "partly" if verdict == "reproduced" else verdict


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
