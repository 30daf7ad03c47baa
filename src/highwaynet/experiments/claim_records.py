"""Records of a claim: the rules before the runs, and the results. Nothing in them depends on the clock."""

from pathlib import Path
from typing import Literal

from highwaynet.base.errors import InputError
from highwaynet.base.files import is_leftover, read_text, write_atomically
from highwaynet.base.specs import Spec, parsed
from highwaynet.experiments.claims import Claim, Scale, Verdict
from highwaynet.experiments.pool import RUNS

PLAN, RECORD = "plan.json", "record.json"


class RuleText(Spec):
    """A rule, as it was written before the runs."""

    name: str
    """A short name."""
    paper: str
    """What the paper says."""
    text: str
    """When this counts as reproduced."""


class PlanRecord(Spec):
    """plan.json: what was decided before the runs."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    claim: str
    """Its name."""
    scale: Scale
    """The scale at which it is run."""
    rules: tuple[RuleText, ...]
    """The rules by which it will be judged."""
    runs: dict[str, str]
    """For each run, by label, a checksum of what it computes."""
    there: tuple[str, ...]
    """Runs that existed before this was written, made for another claim or purpose."""


class RunRecord(Spec):
    """A run of a claim."""

    label: str
    """Its name, and that of its folder in runs.zip."""
    status: Literal["finished", "diverged"]
    """How it ended."""
    epochs: int
    """Number of epochs."""


class RuleRecord(RuleText):
    """A rule and its result."""

    verdict: Verdict
    """The verdict."""
    found: str
    """The numbers that decided."""
    written_before: bool
    """Whether plan.json had the rule in this form before any of the runs was made."""


class RowRecord(Spec):
    """A number of the paper, and ours."""

    what: str
    """What it measures."""
    paper: str
    """The number in the paper."""
    here: str
    """Our number."""


class ClaimRecord(Spec):
    """record.json: the results of a claim."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    claim: str
    """Its name."""
    title: str
    """Its title."""
    paper: str
    """What the paper says."""
    scale: Scale
    """The scale at which it was run."""
    verdict: Verdict
    """The verdict on the claim."""
    rules: tuple[RuleRecord, ...]
    """The rules and their verdicts."""
    rows: tuple[RowRecord, ...]
    """Numbers to compare with the paper's."""
    runs: tuple[RunRecord, ...]
    """The runs."""
    made_before: int
    """How many of the runs existed before the rules were written."""
    note: str
    """What differs from the paper at this scale."""
    figures: tuple[str, ...]
    """Files in figures/."""


def rule_texts(claim: Claim) -> tuple[RuleText, ...]:
    """Return the current rules of a claim."""
    return tuple(RuleText(name=rule.name, paper=rule.paper, text=rule.text) for rule in claim.rules)


def save(folder: Path, name: str, record: Spec) -> None:
    """Write plan.json or record.json."""
    write_atomically(folder / name, record.model_dump_json(indent=2) + "\n")


def load_plan(folder: Path) -> PlanRecord | None:
    """Read plan.json; None if there is none."""
    path = folder / PLAN
    return parsed(PlanRecord, read_text(path), str(path)) if path.is_file() else None


def load_claim(folder: Path) -> ClaimRecord | None:
    """Read record.json; None if there is none."""
    path = folder / RECORD
    return parsed(ClaimRecord, read_text(path), str(path)) if path.is_file() else None


def check_folder(folder: Path, claim: Claim, scale: Scale) -> None:
    """Raise InputError if a folder cannot be used for this claim at this scale."""
    for path in (folder, folder.parent, folder.parent / RUNS):
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file: name another folder with --out")
    try:
        plan = load_plan(folder)
    except InputError as error:
        raise InputError(f"{error} (remove {folder}, and the same command writes it again; this does not remove runs)") from error
    if plan is None and folder.is_dir() and not all(is_leftover(path) for path in folder.iterdir()):
        raise InputError(f"{folder} is not empty and has no {PLAN}: name another folder with --out, or remove it")
    if plan is not None and (plan.claim, plan.scale) != (claim.name, scale):
        raise InputError(f"{folder} has {plan.claim} at scale {plan.scale}: name another folder with --out, or remove it")
