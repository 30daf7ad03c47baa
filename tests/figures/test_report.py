"""The report: self-contained, complete, and the same for the same runs."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from highwaynet.analysis.collect import Study
from highwaynet.cli.report import read_run
from highwaynet.figures.curves import Curve, draw_curves
from highwaynet.figures.report import ReportedRun, render_report
from highwaynet.figures.style import run_colours, to_svg
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.run_records import EpochRecord

OF_HIGHWAYS = ("Which gates open", "Which routes classes take", "How far routes are apart")
OF_GATED = (
    "Which layers do the work",
    "Which layers depend on each other",
    "How many layers can go, or change places",
    "How layers refine an estimate",
)


class Links(HTMLParser):
    """Collects what a browser would fetch, and checks that tags close in order."""

    VOID = frozenset({"meta", "br", "wbr", "link", "img", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in {"src", "href", "xlink:href", "action", "data"}]
        if tag in {"script", "iframe", "object", "link"}:
            self.links.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def reported(run: RunDirectory, name: str = "run") -> ReportedRun:
    return replace(read_run(run.path), path=f"runs/{name}", seconds=1.5)


@pytest.fixture
def page(finished_run: Callable[..., RunDirectory]) -> str:
    return render_report([reported(finished_run("fc-plain")), reported(finished_run("fc-highway"))])


def test_needs_nothing_from_elsewhere(page: str) -> None:
    links = Links()
    links.feed(page)
    assert links.open == []
    assert links.links, "the pictures refer to their own parts"
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links.links)
    assert not re.findall(r"url\((?!#)", page)
    assert "@import" not in page


def test_says_what_was_run_and_what_came_out(page: str, finished_run: Callable[..., RunDirectory]) -> None:
    for text in (
        "6-layer plain and 6-layer highway networks on digits",
        "training.<wbr>learning_<wbr>rate",
        "Which gates open",
        "Which layers do the work",
    ):
        assert text in page
    accuracy = Study(finished_run("fc-highway")).evaluation().test.accuracy
    assert accuracy is not None
    assert f"{100 * accuracy:.2f}\u00a0%" in page
    for title in (*OF_HIGHWAYS, *OF_GATED, "Where the signal goes"):
        assert f"<h3>{title}</h3>" in page
    assert page.count("<svg") == 1 + 2 + 9 + 2 + 1, "curves; mistakes, all of the highway network; mistakes and the signal in the plain one"
    assert page.count("<h3>The worst mistakes</h3>") == 2
    assert page.count('<img alt="sample ') == 2 * 12
    for text in (
        "What the 6-layer plain network gets wrong",
        "test balanced accuracy",
        "test accuracy of guessing the most frequent class",
    ):
        assert text in page


def test_the_same_runs_give_the_same_page(page: str, finished_run: Callable[..., RunDirectory]) -> None:
    assert page == render_report([reported(finished_run("fc-plain")), reported(finished_run("fc-highway"))])


def test_names_cannot_inject_anything(finished_run: Callable[..., RunDirectory]) -> None:
    evil = '<script>alert("x")</script>'
    page = render_report([reported(finished_run("fc-plain"), evil), reported(finished_run("fc-plain"), "b")])
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_one_run_and_a_residual_one(finished_run: Callable[..., RunDirectory]) -> None:
    page = render_report([reported(finished_run("fc-residual"))])
    assert "6-layer residual network on digits" in page
    assert page.count("<svg") == 1 + 2 + 6, "curves, mistakes, and what needs no gates"
    assert not any(title in page for title in OF_HIGHWAYS)


HISTORY = [EpochRecord(epoch=1, step=1, learning_rate=0.1, train_loss=0.0, train_accuracy=1.0)]


def test_curves_are_valid_svg() -> None:
    svg = ElementTree.fromstring(to_svg(draw_curves([Curve("one", "#000000", HISTORY)])))
    assert svg.tag.endswith("svg")
    assert svg.get("viewBox")
    assert svg.get("width") is None, "the page decides"


def test_every_run_has_its_colour() -> None:
    colours = run_colours(["highway"] * 3 + ["plain"] + ["residual"])
    assert len(set(colours)) == 5
    assert len(run_colours(["plain"] * 20)) == 20
