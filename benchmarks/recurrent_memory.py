"""How much memory does a training step of a recurrent highway layer take at most, beside a naive loop and nn.LSTM?

    python benchmarks/recurrent_memory.py

Each peer runs in a process of its own, in which every block of 4 KB and more is returned to the system when it is freed. Linux counts the
peak of one step. Writes results/recurrent-memory.json.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from record import write_record

from highwaynet.bench.recurrent import SETTINGS, modules_for, step_of

ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_MMAP_MAX_": "1000000", "OMP_NUM_THREADS": "1"}


def resident(field: str) -> int:
    """Return a field of this process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def measured(number: int, name: str) -> int:
    """Return the peak of one step in this process, in bytes, beyond what is there before."""
    step = step_of(modules_for(SETTINGS[number])[name], SETTINGS[number])
    for _ in range(3):
        step()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = resident("VmRSS")
    step()
    return resident("VmHWM") - before


def main() -> None:
    """Measure all peers, each in a new process."""
    if len(sys.argv) > 1:
        print(measured(int(sys.argv[1]), sys.argv[2]))
        return
    found = []
    for number, setting in enumerate(SETTINGS):
        for name in modules_for(setting):
            command = [sys.executable, __file__, str(number), name]
            done = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=True)
            found.append({"setting": json.loads(setting.model_dump_json()), "peer": name, "megabytes": round(int(done.stdout) / 1e6, 2)})
            print(found[-1])
    write_record("recurrent-memory", "recurrent_memory.py", peers=found)


if __name__ == "__main__":
    main()
