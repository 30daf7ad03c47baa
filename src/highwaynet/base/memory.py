"""Keeps freed memory in the process between training steps, instead of returning it to the system."""

import ctypes
import sys
from contextlib import suppress

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # as in malloc.h
_LARGEST_MMAP_THRESHOLD = 32 * 2**20


def keep_freed_memory() -> bool:
    """Let this process keep the memory that it frees; returns whether the C library (glibc only) supports that.

    Every step frees its activations. By default, glibc returns blocks of megabytes to the system, and the next step pays for each of
    their pages again: a tenth of the time of a convolutional training step.
    """
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        settings = ((_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 * 2**20))
        return all(mallopt(option, value) == 1 for option, value in settings)
    return False
