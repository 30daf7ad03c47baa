"""Checks everything that a run directory contains against its checksums. Does not import torch unless weights are read."""

from collections.abc import Callable
from typing import Literal

from highwaynet.base.errors import InputError
from highwaynet.base.specs import Spec
from highwaynet.runs.directory import RunDirectory

CheckState = Literal["right", "unsealed", "wrong"]


class Check(Spec):
    """The check of one file or number of a run."""

    what: str
    """A file of the run, or what was computed again."""
    state: CheckState
    """right; unsealed, if nothing is known to compare it with; wrong."""
    detail: str = ""
    """What is wrong, or what was compared."""


def check_files(run: RunDirectory) -> list[Check]:
    """Check all files of a run: settings, plan, data, weights, history and records."""
    checks = [_tried(name, read) for name, read in _parts(run).items()]
    kinds = ("start", "final", "average", "objective", "best", "step", "stop")
    for name in run.checkpoints.names(*kinds):
        checks.append(_tried(f"checkpoints/{name}", lambda name=name: run.checkpoints.load(name)))  # type: ignore[misc]
    if run.finished and (missing := _tried("checkpoints/best", lambda: run.answer)).state == "wrong":
        checks.append(missing)
    try:
        states = run.seal_states()
    except InputError as error:
        return [*checks, Check(what="seals.json", state="wrong", detail=str(error))]
    words: dict[str, CheckState] = {"sealed": "right", "unsealed": "unsealed", "changed": "wrong"}
    known = {check.what: check for check in checks}
    for name, state in states.items():
        if name not in known or known[name].state == "right":
            detail = "changed after it was written" if state == "changed" else ""
            known[name] = Check(what=name, state=words[state], detail=detail)
    return list(known.values())


def _parts(run: RunDirectory) -> dict[str, Callable[[], object]]:
    parts: dict[str, Callable[[], object]] = {"spec.toml": run.read_spec, "environment.json": run.read_environment}
    if run.has_plan:
        parts["plan.json"] = run.load_plan
    parts["data.json"] = run.load_preparation
    if run.has_history or run.finished:
        parts["history.jsonl"] = run.read_history
        parts["timing.jsonl"] = run.read_seconds
    return parts


def _tried(what: str, read: Callable[[], object]) -> Check:
    try:
        read()
    except InputError as error:
        return Check(what=what, state="wrong", detail=str(error))
    return Check(what=what, state="right")
