"""The report: self-contained, complete, and the same for the same runs."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from highwaynet.analysis.collect import collect_records
from highwaynet.analysis.records import GatesRecord, LesionsRecord
from highwaynet.figures.curves import Curve, draw_curves
from highwaynet.figures.findings import gate_finding, lesion_finding
from highwaynet.figures.gate_map import draw_gate_map
from highwaynet.figures.lesion_plot import draw_lesions
from highwaynet.figures.report import ReportedRun, render_report
from highwaynet.figures.style import run_colours, to_svg
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.records import EpochRecord, Score


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
    records = collect_records(run)
    return ReportedRun(
        f"runs/{name}", run.read_spec(), run.load_preparation().record, run.read_history(), 1.5, run.read_environment(),
        records.evaluation, records.gates, records.lesions,
    )  # fmt: skip


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
    accuracy = collect_records(finished_run("fc-highway")).evaluation.test.accuracy
    assert f"{100 * accuracy:.2f}\u00a0%" in page
    assert page.count("<svg") == 3, "curves, gate map, lesions"


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
    assert page.count("<svg") == 2, "curves and lesions, no gates"


HISTORY = [EpochRecord(epoch=1, step=1, learning_rate=0.1, train_loss=0.0, train_accuracy=1.0)]


@pytest.mark.parametrize("layers", [1, 3, 300])
def test_pictures_of_any_size_are_valid_svg(layers: int) -> None:
    gates = GatesRecord(fingerprint="", part="train", samples=1, start_bias=-1, bias=[[0.0] * 4] * layers, mean=[[0.5] * 4] * layers)
    score = Score(loss=0.5, accuracy=0.5, samples=2)
    lesions = LesionsRecord(fingerprint="", part="test", intact=score, closed=[score] * layers)
    for figure in (draw_gate_map(gates), draw_lesions(lesions), draw_curves([Curve("one", "#000000", HISTORY)])):
        svg = ElementTree.fromstring(to_svg(figure))
        assert svg.tag.endswith("svg")
        assert svg.get("viewBox")
        assert svg.get("width") is None, "the page decides"


def test_findings_count_right() -> None:
    def score(loss: float, accuracy: float) -> Score:
        return Score(loss=loss, accuracy=accuracy, samples=1000)

    record = LesionsRecord(
        fingerprint="", part="train", intact=score(0.1, 0.97), closed=[score(0.9, 0.5), score(0.1, 0.9705), score(0.11, 0.968)]
    )
    text = lesion_finding(record)
    assert text.startswith("1 of 3 layers can be closed")
    assert "Layer 1 matters most: without it the loss goes from 0.100 to 0.900." in text
    gates = GatesRecord(fingerprint="", part="train", samples=5, start_bias=-2, bias=[[-3, -1], [-4, -2.5]], mean=[[0.1, 0.2], [0.4, 0.5]])
    assert "open by 0.30 on average (1 is fully open), most in layer 2 (0.45)" in gate_finding(gates)
    assert "training lowered 75.00\u00a0% of them" in gate_finding(gates)


def test_every_run_has_its_colour() -> None:
    colours = run_colours(["highway"] * 3 + ["plain"] + ["residual"])
    assert len(set(colours)) == 5
    assert len(run_colours(["plain"] * 20)) == 20
