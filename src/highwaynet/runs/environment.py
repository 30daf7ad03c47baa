"""The environment of a run: versions, machine, threads and kernel; nothing that identifies a person or a host."""

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import torch

from highwaynet import __version__
from highwaynet.kernels.native import active_kernel


def describe_environment() -> dict[str, Any]:
    """Return versions and machine, for environment.json and for benchmark results."""
    return {
        "schema_version": 1,
        "highwaynet": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "kernel": active_kernel(),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
