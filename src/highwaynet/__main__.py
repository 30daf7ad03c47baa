"""`python -m highwaynet` is the command `highway`."""

import sys


def run() -> None:
    """Run the command; Ctrl-C while it is being imported ends it without a traceback."""
    try:
        from highwaynet.cli.main import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()


if __name__ == "__main__":
    run()
