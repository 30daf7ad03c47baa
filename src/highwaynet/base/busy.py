"""How many cores other programs use. Does not import torch."""

import os
import re
import statistics
import time
from pathlib import Path

LOOKS, PAUSE = 5, 0.01
"""How often the running programs are counted, and the seconds between two counts."""


def busy_cores() -> float:
    """Return how many other programs, or their threads, are running now; 0 if the system does not say.

    Linux counts them. Other systems have the load average of the last minute.
    """
    counts = []
    for _ in range(LOOKS):
        if (count := _running()) is None:
            return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        counts.append(count - 1)  # without this process
        time.sleep(PAUSE)
    return max(0.0, statistics.median(counts))


def _running() -> int | None:
    """Return how many programs are running, with this one; None if there is no such file, or it does not say."""
    try:
        found = re.search(r"^procs_running (\d+)$", Path("/proc/stat").read_text(encoding="ascii"), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(found[1]) if found else None


def free_threads(threads: int) -> int:
    """Return how many of these threads find a free core; at least 1, and all if the user has set OMP_NUM_THREADS.

    Threads that share a core with another program make the others wait in every operation: two threads on two busy cores are several
    times slower than one.
    """
    if threads == 1 or "OMP_NUM_THREADS" in os.environ:
        return threads
    return max(1, min(threads, (os.cpu_count() or threads) - round(busy_cores())))
