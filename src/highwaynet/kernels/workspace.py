"""Large memory for the kernels that is reused from step to step.

The system clears new memory when it is first written, page by page. For what a wide stack keeps for its backward pass this takes as long as
computing it, and the C library returns such blocks to the system each time they are freed.
"""

import mmap
import weakref
from contextlib import suppress
from threading import Lock

import torch
from torch import Tensor

from highwaynet.kernels.operators import compiled

_LARGE, _MOST = 4 * 2**20, 256 * 2**20
"""Bytes of the blocks that are reused, and of all blocks that are kept while unused."""


class _Block:
    """Memory of the process, and the view of it that a tensor holds as long as it lives."""

    def __init__(self, size: int) -> None:
        # Private, unlike the default: a forked process must not write into the memory of its parent. Windows has no forks.
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        self.memory = mmap.mmap(-1, size, **private)
        with suppress(AttributeError, OSError):  # not every system has large pages
            self.memory.madvise(mmap.MADV_HUGEPAGE)
        self._view: weakref.ref[memoryview] | None = None

    @property
    def unused(self) -> bool:
        return self._view is None or self._view() is None

    def tensor(self, count: int) -> Tensor:
        view = memoryview(self.memory)
        self._view = weakref.ref(view)
        return torch.frombuffer(view, dtype=torch.float32, count=count)


_blocks: list[_Block] = []  # the one used last at the end
_lock = Lock()


def workspace(like: Tensor, count: int) -> Tensor:
    """Return `count` uninitialized floats: memory of an earlier workspace whose tensors are all gone, if one has about this size."""
    if not _LARGE <= 4 * count <= _MOST:
        return fresh(like.new_empty(count))
    size = 4 * count
    with _lock:
        fitting = [block for block in _blocks if size <= len(block.memory) <= 2 * size and block.unused]
        block = min(fitting, key=lambda block: len(block.memory)) if fitting else _Block(size)
        if fitting:
            _blocks.remove(block)
        _blocks.append(block)
        tensor = block.tensor(count)
        spare = [block for block in _blocks if block.unused]
        while sum(len(block.memory) for block in spare) > _MOST:
            _blocks.remove(spare.pop(0))
    return tensor


def workspace_like(tensor: Tensor) -> Tensor:
    """Return an uninitialized tensor of the same shape, whose memory is reused when it is freed."""
    if 4 * tensor.numel() < _LARGE:
        return torch.empty_like(tensor)
    return workspace(tensor, tensor.numel()).view(tensor.shape)


def fresh(tensor: Tensor) -> Tensor:
    """Return a new tensor that nothing has been written to, after asking for large pages if it is large: clearing those is quicker."""
    if 4 * tensor.numel() >= _LARGE:
        compiled().prefer_large_pages(tensor)
    return tensor
