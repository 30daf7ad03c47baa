"""A worker: a process that trains one run after the other for its parent.

`python -m highwaynet.experiments.worker` reads orders (`training/workers.py`), and answers each with a line of JSON on standard output.
"""

import json
import os
import warnings
from pathlib import Path

from highwaynet.base.errors import HighwayError
from highwaynet.runs.spec import parse_spec, spec_from_values
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.loop import train
from highwaynet.training.workers import Orders


def _train(job: dict[str, str], stop: Interruption) -> str:
    """Train a run until it finishes or diverges; return the error message, empty if there is none."""
    try:
        train(spec_from_values(parse_spec(job["spec"], Path("the run"))), job["path"], resume=True, interruption=stop)
    except DivergenceError:
        return ""
    except InterruptedRunError:
        raise
    except HighwayError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


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
