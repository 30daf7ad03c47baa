"""Memory that is reused: never while a tensor needs it, only for similar sizes, and not without limit."""

import os
import warnings

import pytest
import torch

from highwaynet.kernels import workspace as module
from highwaynet.kernels.native import native_module
from highwaynet.kernels.workspace import workspace, workspace_like

pytestmark = pytest.mark.skipif(native_module() is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")

FLOATS, LIKE = 2**20, torch.empty(0)  # 4 MB: the smallest that is reused


@pytest.fixture(autouse=True)
def _none_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_blocks", [])


def test_memory_is_reused_once_no_tensor_needs_it() -> None:
    first = workspace(LIKE, FLOATS).fill_(1)
    address = first.data_ptr()
    second = workspace(LIKE, FLOATS).fill_(2)
    assert second.data_ptr() != address
    part = first[5:7]
    del first
    third = workspace(LIKE, FLOATS).fill_(3)
    assert third.data_ptr() not in {address, second.data_ptr()}
    assert part.tolist() == [1, 1]
    assert second[0] == 2
    del part
    assert workspace(LIKE, FLOATS).data_ptr() == address


def test_saved_tensors_keep_their_memory() -> None:
    weight = torch.ones(FLOATS, requires_grad=True)
    y = weight * workspace(LIKE, FLOATS).fill_(3)
    workspace(LIKE, FLOATS).fill_(0)
    y.sum().backward()
    assert weight.grad is not None
    assert weight.grad[0] == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_its_own_memory() -> None:
    used, unused = workspace(LIKE, FLOATS).fill_(1), workspace(LIKE, FLOATS).fill_(2)
    address = unused.data_ptr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's about threads: the child only writes to memory
        child = os.fork()
    if child == 0:
        used[0], unused[0] = 3, 4
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (used[0].item(), unused[0].item(), unused.data_ptr()) == (1, 2, address)


def test_other_sizes_get_memory_of_their_own() -> None:
    address = workspace(LIKE, 4 * FLOATS).data_ptr()
    assert workspace(LIKE, FLOATS).data_ptr() != address
    assert workspace(LIKE, 3 * FLOATS).data_ptr() == address
    assert workspace(LIKE, 5 * FLOATS).data_ptr() != address


def test_little_is_kept_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 24 * 2**20)
    held = [workspace(LIKE, FLOATS * count) for count in (1, 2, 5, 6)]
    assert len(module._blocks) == 4
    held.clear()
    now = workspace(LIKE, FLOATS * 3)  # in the memory of 5
    assert now.numel() == 3 * FLOATS
    assert sum(len(block.memory) for block in module._blocks if block.unused) <= 24 * 2**20
    assert workspace(LIKE, 7 * FLOATS).numel() == 7 * FLOATS  # larger than all that is kept: not reused
    assert max(len(block.memory) for block in module._blocks) <= 24 * 2**20


def test_small_and_shaped() -> None:
    assert workspace(LIKE, 10).shape == (10,)
    assert not module._blocks
    assert workspace_like(torch.empty(3, 4)).shape == (3, 4)
    assert workspace_like(torch.empty(1024, 2048)).shape == (1024, 2048)
    assert len(module._blocks) == 1
