"""Records of a claim: the rules before the runs, and the results. Nothing in them depends on the clock."""

from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from highwaynet.base.errors import InputError
from highwaynet.base.files import is_leftover, read_text, write_atomically
from highwaynet.base.specs import Spec, parsed
from highwaynet.experiments.claims import Claim, Scale, Verdict
from highwaynet.experiments.pool import RUNS

PLAN, RECORD = "plan.json", "record.json"
JUDGED = ("reproduced", "differs", "not reached")
"""Verdicts that runs decided."""


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
    """For each run that may be made, by label, a checksum of what it computes. Where a setting is chosen, not all of them are made."""
    there: tuple[str, ...]
    """Those that were made or begun before the rules were known, for another claim or purpose."""
    commit: str | None = None
    """The last git commit that changed the claims; None if they had changes that were not committed, or were not in a checkout."""


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
    """The numbers that decide."""
    seeds: int = 0
    """With how many seeds the networks were trained on which it rests."""
    fresh: bool = False
    """Whether it was committed like this before any of the runs was made; their seeds had not been used before."""

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, values: Any) -> Any:
        """Records of older versions had other verdicts, by rules with three outcomes."""
        if not isinstance(values, dict) or "written_before" not in values:
            return values
        kept = {name: value for name, value in values.items() if name != "written_before"}
        known = {"partly": "not judged", "not reproduced": "differs"}
        return kept | {"verdict": known.get(values.get("verdict", ""), values.get("verdict"))}

    @property
    def shown(self) -> str:
        """The verdict as tables show it."""
        return _shown(self.verdict, fresh=self.fresh, thin="one seed" if self.seeds == 1 else "")


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
    """How large it was run."""
    verdict: str
    """All rules together: the verdict that all of them have, or how many are reproduced."""
    headline: str = ""
    """What the runs show, in a few words."""
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

    @property
    def shown(self) -> str:
        """The verdict as tables show it."""
        judged = [rule for rule in self.rules if rule.verdict in JUDGED]
        single = sum(rule.seeds == 1 for rule in judged)
        thin = "" if not single else "one seed" if single == len(judged) else f"{single} with one seed"
        return _shown(self.verdict, fresh=bool(judged) and all(rule.fresh for rule in judged), thin=thin)


def _shown(verdict: str, *, fresh: bool, thin: str) -> str:
    """A verdict in words, with what is to be known about its evidence."""
    words = "not reached at this budget" if verdict == "not reached" else verdict
    return words + (" (fresh)" if fresh else "") + (f", {thin}" if thin else "")


def rule_texts(claim: Claim) -> tuple[RuleText, ...]:
    """Return the current rules of a claim."""
    return tuple(RuleText(name=rule.name, paper=rule.paper, text=rule.text) for rule in claim.rules)


def folder_name(claim: str, scale: Scale) -> str:
    """Return the name of the folder of a claim at a scale."""
    return claim if scale == "laptop" else f"{claim}-{scale}"


def save(folder: Path, name: str, record: Spec) -> None:
    """Write plan.json or record.json."""
    write_atomically(folder / name, record.model_dump_json(indent=2) + "\n")


def load_plan(folder: Path) -> PlanRecord | None:
    """What was decided before the runs; None if nothing was."""
    path = folder / PLAN
    return parsed(PlanRecord, read_text(path), str(path)) if path.is_file() else None


def load_claim(folder: Path) -> ClaimRecord | None:
    """What a claim came to; None if it was not run."""
    path = folder / RECORD
    return parsed(ClaimRecord, read_text(path), str(path)) if path.is_file() else None


def check_folder(folder: Path, claim: Claim, scale: Scale) -> None:
    """Raise InputError if a folder cannot be this claim's at this scale."""
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
