"""A process that is forked after layers were computed with several threads computes too, instead of waiting for threads that are gone."""

import subprocess
import sys

CODE = """
import os, sys, torch
torch.set_num_threads(2)
from highwaynet import DenseHighway
torch.manual_seed(0)
layers, x = DenseHighway(50, layers=5), torch.randn(512, 50)
right = layers(x)
right.sum().backward()
child = os.fork()
if not child:
    again = layers(x)
    again.sum().backward()
    os._exit(0 if torch.equal(again, right) and torch.get_num_threads() == 1 else 3)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_fork_after_two_threads() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
