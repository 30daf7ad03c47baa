"""Attacks the package: damaged files for every reader, kills and failing writes in the middle of seven commands, bombs, two writers.

python tests/attack.py --minutes 60 [--seed S] [--only KIND] [--record FILE] [--findings FOLDER]
python tests/attack.py --cases 400 ...
python tests/attack.py --seed S --case N [--only COMMAND --way kill|full|read-only|denied]

The first form goes on for some time, the second for a number of attacks of each kind; the third repeats one attack. Ends with exit code 1
if there is an open finding. What counts as one is written in `attacking/judge.py` and `attacking/disturbances.py`. Kills and failing
writes need a C compiler, and Linux.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

from attacking.disturbances import COMMANDS
from attacking.session import KINDS, Session
from highwaynet.base.files import write_atomically
from highwaynet.runs.environment import describe_environment

COUNTED = "{damaged_inputs} damaged inputs, {kills} kills, {failing_writes} failing writes, {open_findings} open findings"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long; making what is attacked takes another minute")
    parser.add_argument("--cases", type=int, help="this many attacks of each kind, instead of a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], choices=KINDS, metavar="KIND", help=f"repeatable: {', '.join(KINDS)}")
    parser.add_argument("--record", type=Path, help="write what was done as JSON")
    parser.add_argument("--findings", type=Path, help="folder for what is found, with the damaged files")
    parser.add_argument("--case", type=int, help="repeat this attack only")
    parser.add_argument("--way", default="kill", help="of a command: kill, full, read-only or denied")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        session = Session(Path(folder), options.seed, options.only, options.findings, lambda line: print(line, flush=True))
        if session.without_compiler:
            print("no C compiler was found: kills and failing writes are skipped", flush=True)
        session.prepare()
        if options.case is not None:
            return repeat(session, options)
        session.stage()
        began = time.monotonic()

        def report() -> int:
            found = session.record() | {"minutes": round((time.monotonic() - began) / 60, 1)}
            print(COUNTED.format(**found), flush=True)
            if options.record:
                only = "".join(f" --only '{kind}'" for kind in options.only)
                span = f"--minutes {options.minutes:g}" if options.cases is None else f"--cases {options.cases}"
                said = f"python tests/attack.py {span} --seed {options.seed}{only}"
                whole = {"schema_version": 1, "command": said, "environment": describe_environment(), **found}
                write_atomically(options.record, json.dumps(whole, indent=2) + "\n")
            return int(found["open_findings"])

        if options.cases is not None:
            session.run_cases(options.cases)
        else:
            session.run(options.minutes, report)
        return 1 if report() else 0


def repeat(session: Session, options: argparse.Namespace) -> int:
    """Make one attack again, and say what came of it."""
    names = [name for name in options.only if name in COMMANDS]
    if names and session.disturber:
        wrong = session.disturber.attack(options.case, names[0], options.way)
    else:
        wrong = session.fuzzer.attack(options.case)
    print(json.dumps(session.findings[-1], indent=2) if wrong else "withstood")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
