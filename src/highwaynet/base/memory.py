"""The C library's memory: kept between training steps, instead of given back and fetched anew, page by page."""

import ctypes
import sys
from contextlib import suppress

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # as in malloc.h
_LARGEST_MMAP_THRESHOLD = 32 * 2**20


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, for the next step needs the same; True where the C library (glibc) can do that.

    Every step frees its activations, and by default blocks of megabytes go back to the system: the next step then pays for each of their
    pages. That is a tenth of a convolutional training step.
    """
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        settings = ((_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 * 2**20))
        return all(mallopt(option, value) == 1 for option, value in settings)
    return False
