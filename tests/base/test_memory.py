"""Freed memory stays with the process: the C library takes the settings, and training asks for them."""

import ctypes
import platform
from pathlib import Path

import pytest

from highwaynet.base import memory
from highwaynet.training import loop
from support import small_spec


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_the_c_library_takes_every_setting() -> None:
    assert memory.keep_freed_memory()


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert not memory.keep_freed_memory()


def test_training_asks_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []
    monkeypatch.setattr(loop, "keep_freed_memory", lambda: asked.append(True))
    loop.train(small_spec(), tmp_path / "run")
    assert asked == [True]
