"""Whether torchrun or a similar launcher started this process, and its rank. Does not import torch."""

import os


def launched() -> bool:
    """Whether this is one of several processes that were started together."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def launched_rank() -> int:
    """Return the rank of this process; 0 if it was not started by a launcher."""
    return int(os.environ["RANK"]) if launched() else 0
