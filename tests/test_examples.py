"""The scripts in examples/ run, and learn what they say."""

import runpy
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", ["sequence_to_sequence", "character_classifier"])
def test_it_learns(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    state = torch.get_rng_state()
    try:
        found = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    finally:
        torch.set_rng_state(state)
    assert found["accuracy"] > 0.9
    assert f"{found['accuracy']:.1%}" in capsys.readouterr().out
    assert any(type(module).__module__.startswith("highwaynet.blocks") for module in found["model"].modules())


def test_the_sequence_example_is_short() -> None:
    lines = (EXAMPLES / "sequence_to_sequence.py").read_text().partition("class Backwards")[2].partition("source, written")[0]
    assert len([line for line in lines.splitlines() if line.strip()]) <= 21, "model and training in twenty lines"
