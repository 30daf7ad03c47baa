"""Whether torchrun, or something like it, started this process, and as which one. Free of torch."""

import os


def launched() -> bool:
    """Whether this is one of several processes that were started together."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def launched_rank() -> int:
    """The place of this process among those; 0, the first, also where it was started alone."""
    return int(os.environ["RANK"]) if launched() else 0
