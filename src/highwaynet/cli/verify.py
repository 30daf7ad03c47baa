"""`highway verify`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwaynet.base.errors import InputError
from highwaynet.cli.data import DATA_ROOT, JSON, use_data_root
from highwaynet.cli.output import console, print_json, print_table
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.history import epoch_in

if TYPE_CHECKING:
    from highwaynet.runs.verifying import Check

CLOSE = 1e-4
"""Relative difference that another machine or number of threads may make."""


def verify_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Check that a run is as it was written: every file against its checksum, and the validation score against the data.

    Finds damage and edits. It does not find forgeries whose checksums were computed again. Files of runs that were made by earlier
    versions, and lines that were added after a run was last saved, are unsealed: nothing is known to compare them with.

    Example: highway verify runs/deep
    """
    use_data_root(data_root)
    opened = RunDirectory.open(run)
    from highwaynet.runs.verifying import check_files

    checks = check_files(opened)
    if all(check.state != "wrong" for check in checks):
        checks.append(_score(opened))
    wrong = [check for check in checks if check.state == "wrong"]
    if as_json:
        print_json({"run": str(run), "right": not wrong, "checks": [check.model_dump() for check in checks]})
    else:
        columns = [("", "whole"), ("state", "whole"), ("", "left")]
        print_table(columns, [[check.what, check.state, check.detail] for check in checks])
    if wrong:
        raise InputError(f"{run} is not as it was written: {wrong[0].what}" + (f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""))
    if not as_json:
        unsealed = sum(check.state == "unsealed" for check in checks)
        console.print("everything is as it was written" + (f"; {unsealed} unsealed" if unsealed else ""))


def _score(run: RunDirectory) -> "Check":
    """Compute the validation score of the run's answer again, and compare it with the history."""
    from highwaynet.runs.verifying import Check

    what = "validation score"
    if not run.finished:
        return Check(what=what, state="unsealed", detail="the run has not finished")
    spec = run.read_spec()
    if spec.training.objective is not None or spec.data.in_memory:
        return Check(what=what, state="unsealed", detail="needs data or an objective that were passed in Python")
    if spec.is_first_stage:
        return Check(what=what, state="unsealed", detail="the first stage of a training with hints has distances, and no score")
    found_epoch = epoch_in(run.read_history(), run.checkpoints.record(run.resolve(run.answer)).epoch, run.path)
    stored = found_epoch.validation if found_epoch else None
    if stored is None:
        return Check(what=what, state="unsealed", detail="the run has no validation data; highway evaluate computes the test score")
    from highwaynet.training.evaluation import evaluate_run

    try:
        found = evaluate_run(run, "validation")
    except InputError as error:
        return Check(what=what, state="unsealed", detail=f"the data are not as in training: {error}")
    right = abs(found.loss - stored.loss) <= CLOSE * max(1e-3, abs(stored.loss))
    return Check(what=what, state="right" if right else "wrong", detail=f"stored {stored}; computed again {found}")
