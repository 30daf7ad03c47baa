"""The scripts in examples/ run, some in a short form, and learn what they say."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


def test_parity_is_right_on_strings_four_times_as_long(capsys: pytest.CaptureFixture[str]) -> None:
    found = example("parity")["main"](["--depth", "3", "--factors", "1", "4"])
    assert list(found) == [20, 80]
    assert min(found.values()) >= 0.99
    shown = capsys.readouterr().out
    assert "trained on strings of 1 to 20 bits" in shown
    assert "80 bits:" in shown


def test_strings_are_padded_and_their_parity_is_right() -> None:
    torch.manual_seed(0)
    bits, lengths, parity = example("parity")["draw_strings"](50, 3, 9)
    assert bits.shape == (50, 9, 1)
    for row in range(50):
        own = bits[row, : lengths[row], 0]
        assert set(own.tolist()) <= {-1.0, 1.0}
        assert int((own > 0).sum()) % 2 == parity[row]
        assert (bits[row, lengths[row] :] == -1).all()


def test_the_language_model_learns_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog.\n" * 300)
    module = example("characters")
    found = module["main"]([str(text), "--minutes", "10", "--epochs", "40", "--width", "48", "--depth", "2", "--dropout", "0.05"])
    assert found < 3.5, "guessing needs 4.8 bits"
    shown = capsys.readouterr().out
    assert "13,500 characters, 29 different ones" in shown
    assert "validation" in shown
    model = module["Characters"](5, 8, 2, 0.0)
    assert model.head.weight is model.embedding.weight


def test_inputs_and_targets_follow_each_other() -> None:
    pieces = list(example("characters")["batches"](torch.arange(1001), 4))
    assert [len(x) for x, _ in pieces] == [64, 64, 64, 58]
    for x, y in pieces:
        assert torch.equal(x + 1, y)
    assert torch.equal(pieces[1][0][0], pieces[0][0][-1] + 1)


@pytest.mark.parametrize("content", [None, b"short", b"\xff\xfe\x00" * 2000])
def test_a_file_that_is_no_text_is_refused(content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if content is not None:
        (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        example("characters")["main"]([str(tmp_path / "text.txt")])
    assert ended.value.code == 2
    assert "text.txt" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["sequence_to_sequence", "character_classifier"])
def test_it_learns(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    state = torch.get_rng_state()
    try:
        found = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    finally:
        torch.set_rng_state(state)
    assert found["accuracy"] > 0.9
    assert f"{found['accuracy']:.1%}" in capsys.readouterr().out
    assert any(type(module).__module__.startswith("highwaynet.blocks") for module in found["model"].modules())


def test_the_sequence_example_is_short() -> None:
    lines = (ROOT / "examples" / "sequence_to_sequence.py").read_text().partition("class Backwards")[2].partition("source, written")[0]
    assert len([line for line in lines.splitlines() if line.strip()]) <= 21, "model and training in twenty lines"
