"""A worker: a process that trains one run after the other for its parent.

`python -m highwaynet.experiments.worker` reads orders (`training/workers.py`), and answers each with a line of JSON on standard output.
"""

import json
import os
import warnings
from pathlib import Path

from highwaynet.base.errors import HighwayError
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import RunSpec, parse_spec, spec_from_values
from highwaynet.runs.stages import hints_path
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.loop import train
from highwaynet.training.workers import Orders


def _train(job: dict[str, str], stop: Interruption) -> str:
    """Train a run until it finishes or diverges; return the error message, empty if there is none."""
    spec, path = spec_from_values(parse_spec(job["spec"], Path("the run"))), Path(job["path"])
    try:
        train(spec, path, resume=True, interruption=stop)
    except DivergenceError:
        _note_first_stage(spec, path)
        return ""
    except InterruptedRunError:
        raise
    except HighwayError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


def _note_first_stage(spec: RunSpec, path: Path) -> None:
    """Write a run that diverged, without epochs, if it was its first stage that diverged: such a run has ended too."""
    if not path.exists() and (first := RunDirectory(hints_path(path))).has_diverged:
        run = RunDirectory.create(path, spec, first.read_environment())
        run.log("diverged in the first stage, with hints")
        run.unlock()


def main() -> None:
    """Train the runs that the parent orders, until there are no more."""
    warnings.simplefilter("ignore")
    with Interruption() as stop:
        stop.armed = True  # signals are now requests to stop
        orders = Orders(stop)
        while job := orders.next():
            try:
                answer = {"error": _train(job, stop)}
            except InterruptedRunError:
                break
            os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
