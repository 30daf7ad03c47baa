"""Writes the record of a benchmark to results/NAME.json, with the command and a description of the machine."""

import json
from pathlib import Path
from typing import Any

from highwaynet.base.files import write_atomically
from highwaynet.runs.environment import describe_environment

RESULTS = Path(__file__).parents[1] / "results"


def write_record(name: str, command: str, **content: Any) -> None:
    """Write results/NAME.json."""
    record = {"schema_version": 1, "command": f"python benchmarks/{command}", "environment": describe_environment(), **content}
    write_atomically(RESULTS / f"{name}.json", json.dumps(record, indent=2) + "\n")
