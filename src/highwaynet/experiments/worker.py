"""A worker: a process that trains one run after the other, as its parent tells it.

`python -m highwaynet.experiments.worker` reads runs as lines of JSON from its standard input and answers each with a line on its standard
output. When its input closes, because the parent wants so or is gone, it saves the run and ends.
"""

import json
import os
import queue
import threading
import warnings
from pathlib import Path

from highwaynet.base.errors import HighwayError
from highwaynet.runs.spec import parse_toml, spec_from_values
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.loop import train


def _listen(lines: "queue.Queue[str | None]", stop: Interruption) -> None:
    """Pass on what the parent writes. Read without Python's own buffer, on which a thread that waits would sit when the program ends."""
    text = b""
    while more := os.read(0, 65536):
        *whole, text = (text + more).split(b"\n")
        for line in whole:
            lines.put(line.decode())
    stop.requested = stop.requested or 143
    lines.put(None)


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
    lines: queue.Queue[str | None] = queue.Queue()
    with Interruption() as stop:
        stop.armed = True  # from now on signals are requests
        threading.Thread(target=_listen, args=(lines, stop), name="parent", daemon=True).start()
        while (line := lines.get()) is not None and not stop.requested:
            try:
                answer = {"error": _train(json.loads(line), stop)}
            except InterruptedRunError:
                break
            os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
