"""Freed memory stays with the process: after a few equal steps the next fetches no pages."""

import subprocess
import sys

import pytest

PAGES = """
import resource, torch
from highwaynet.base.memory import keep_freed_memory
assert keep_freed_memory()

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    kept = [torch.ones(2_000_000) for _ in range(8)]
    del kept
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

pages()
pages()
print(min(pages() for _ in range(5)))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc can be told")
def test_later_steps_fetch_no_pages() -> None:
    answer = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    assert int(answer.stdout) < 1000, "without it there are about 15,000"
