"""A worker: a process that trains one run after the other, as its parent tells it.

`python -m highwaynet.experiments.worker` hears of runs as `training/workers.py` says, and answers each with a line on its standard output.
"""

import json
import os
import warnings
from pathlib import Path

from highwaynet.base.errors import HighwayError
from highwaynet.runs.spec import parse_toml, spec_from_values
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.loop import train
from highwaynet.training.workers import Orders


def _train(job: dict[str, str], stop: Interruption) -> str:
    """Bring a run to its end, well or not; what went wrong otherwise."""
    try:
        train(spec_from_values(parse_toml(job["spec"], Path("the run"))), job["path"], resume=True, interruption=stop)
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
    """Train what the parent says, until there is nothing more."""
    warnings.simplefilter("ignore")
    with Interruption() as stop:
        stop.armed = True  # from now on signals are requests
        orders = Orders(stop)
        while job := orders.next():
            try:
                answer = {"error": _train(job, stop)}
            except InterruptedRunError:
                break
            os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
