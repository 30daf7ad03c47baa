"""Tables on screens of any width."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from highwaynet.cli import output
from highwaynet.cli.main import app
from highwaynet.runs.directory import RunDirectory
from support import Highway

COLUMNS = [("network", "whole"), ("layers", "right"), ("parameters", "right"), ("multiply-adds", "right"), ("origin", "left")]
ROWS = [
    ["fc-highway-with-a-long-name, 10 layers", "10", "1,234,567", "1,234.5 M", "section 3.1 of the paper"],
    ["日本", "100", "12", "0.5 M", ""],
]


def printed(monkeypatch: pytest.MonkeyPatch, width: int, columns: list[tuple[str, str]] = COLUMNS, title: str | None = None) -> list[str]:
    file = io.StringIO()
    monkeypatch.setattr(output, "console", output._Console(file=file, width=width, highlight=False, markup=False, emoji=False))
    output.print_table(columns, ROWS, title)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 100])
def test_only_words_are_folded(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = printed(monkeypatch, width)
    assert len({cell_len(line) for line in lines}) == 1, "the frame is whole"
    for text in (heading for heading, side in COLUMNS if side != "left"):
        assert f" {text} " in lines[1]
    for row in ROWS:
        line = next(line for line in lines if row[0] in line)
        assert [cell.strip() for cell in line.split("│")[1:5]] == row[:4]
    folded = [cell for line in lines if line.startswith("│") for cell in line.split("│")[5].split()]
    assert " ".join(folded) == ROWS[0][4]
    least = 38 + 6 + 10 + 13 + 12 + 3 * 5 + 1
    assert cell_len(lines[0]) == max(least, min(width, least + 12)), "as wide as the screen, if words can be folded so far"


def test_a_wide_screen_is_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, 300, title="a title")
    assert lines[0].strip() == "a title"
    assert cell_len(lines[1]) == 38 + 6 + 10 + 13 + 24 + 3 * 5 + 1
    assert sum(line.startswith("│") for line in lines) == len(ROWS), "a line each"


def test_short_words_take_no_more_room_than_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, 40, [("a", "left"), *COLUMNS[1:4], ("b", "left")])
    assert cell_len(lines[0]) == 12 + 6 + 10 + 13 + 12 + 3 * 5 + 1
    lines = printed(monkeypatch, 40, [COLUMNS[0], ("n", "left"), *COLUMNS[2:]])
    assert cell_len(lines[0]) == 38 + 3 + 10 + 13 + 12 + 3 * 5 + 1, "the second column has three letters"


@pytest.mark.parametrize("columns", ["40", "80"])
def test_networks_through_a_pipe(highway: Highway, columns: str) -> None:
    def numbers(text: str) -> list[list[str]]:
        rows = [[cell.strip() for cell in line.split("│")[2:5]] for line in text.splitlines() if line.startswith("│")]
        return [row for row in rows if any(row)]

    wide, narrow = (highway("networks", COLUMNS=width).stdout for width in ("300", columns))
    assert len(numbers(wide)) > 10
    assert numbers(narrow) == numbers(wide)


@pytest.mark.parametrize(("pause", "lines"), [(0.0, True), (1e9, False)])
def test_progress_without_a_terminal(
    pause: float,
    lines: bool,
    finished_run: Callable[[str], RunDirectory],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A long command prints a line every few seconds; a short one prints none."""
    monkeypatch.setattr(output.plain_lines, "pause", pause)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    run = str(finished_run("fc-highway").path)
    app(["lesion", run, "--out", str(tmp_path)], standalone_mode=False)
    app(["report", run, "--out", str(tmp_path / "report.html")], standalone_mode=False)
    told = " ".join(capsys.readouterr().err.split())
    assert (f"lesions of {run}: " in told) == lines
    assert (f"pairs of {run}: " in told) == lines
    assert ("drawing the figures" in told) == lines
    assert lines or not told


def test_a_quick_report_says_what_is_left_out(finished_run: Callable[[str], RunDirectory], highway: Highway, tmp_path: Path) -> None:
    run, plain = finished_run("fc-highway").path, finished_run("fc-plain").path
    answer = json.loads(highway("report", run, plain, "--quick", "--json").stdout)
    page = (tmp_path / "report.html").read_text()
    sentence = "Left out in this quick report: pairs and spans of layers, random deletions and shuffles, removal one by one."
    assert page.count(sentence) == 1, "the plain network has no layers to close"
    assert [len(one["left_out"]) for one in answer["runs"]] == [3, 0]
    assert not {"pairs", "deletions", "depth"} & set(answer["runs"][0]["inside"])
    whole = json.loads(highway("report", run, "--json").stdout)
    assert {"pairs", "deletions", "depth"} <= set(whole["runs"][0]["inside"])
    assert "Left out" not in (tmp_path / "report.html").read_text()
