"""`python -m highwaynet` is the command `highway`."""

import sys
from pathlib import Path


def run() -> None:
    """Run the command; Ctrl-C while it is being imported ends it without a traceback."""
    try:
        Path.cwd()  # libraries abort the process if there is none
    except OSError:
        print("highway: the current folder no longer exists: change to another one", file=sys.stderr)
        sys.exit(2)
    try:
        from highwaynet.cli.main import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()


if __name__ == "__main__":
    run()
