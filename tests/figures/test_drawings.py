"""Records in notebooks: their figures, their HTML, what they print, and what they say without matplotlib."""

import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from figures.made_records import (
    ABOUT,
    deletions_record,
    depth_record,
    flow_record,
    gates_record,
    mistakes_record,
    pairs_record,
    refinement_record,
    residuals_record,
    routing_record,
    score,
    some_lesions,
)
from highwaynet.analysis.analysis_records import AnalysisRecord, EvaluationRecord
from highwaynet.base.errors import InputError
from highwaynet.figures.captions import caption
from highwaynet.figures.drawings import VIEWS
from highwaynet.figures.style import to_svg
from highwaynet.runs.record_files import load_record, save_record

RECORDS: dict[str, Callable[[], Any]] = {
    "mistakes": lambda: mistakes_record("0123456"),
    "gates": lambda: gates_record(7, 5),
    "routing": lambda: routing_record(["0", "cat", "dog"], 7, 5),
    "lesions": lambda: some_lesions(7),
    "pairs": lambda: pairs_record(7),
    "deletions": lambda: deletions_record(7),
    "depth": lambda: depth_record(7),
    "flow": lambda: flow_record(7, np.ones, np.ones),
    "refinement": lambda: refinement_record([1.0, 0.7, 0.6, 0.4, 0.2, 0.1, 0.0]),
}
PLOTS: dict[str, Callable[[], Figure]] = {name: lambda make=make: make().plot() for name, make in RECORDS.items()} | {
    "route-distances": lambda: RECORDS["routing"]().plot("route-distances"),
    "calibration": lambda: RECORDS["mistakes"]().plot("calibration"),
    "residuals": lambda: residuals_record().plot(),
}
EVIL = '<script>alert("x & y")</script>'
MISSING = "needs the package matplotlib: pip install 'highwaynet[figures]'"


class Fragment(HTMLParser):
    """Checks that tags close in order, and collects texts, tags and pictures."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attrs))
        else:
            self.open.append(tag)
            assert {name for name, _ in attrs} <= {"style"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_every_kind_of_record_is_here() -> None:
    assert [type(make()) for make in RECORDS.values()] == list(VIEWS)


def drawn_layers(name: str, figure: Figure) -> int:
    """How many layers the first panel shows."""
    axes = figure.axes[0]
    match name:
        case "gates" | "routing" | "pairs" | "mistakes":
            return len(axes.images[0].get_array())
        case "deletions" | "depth":
            return int(max(axes.lines[0].get_xdata()))
        case _:
            return len(axes.lines[0].get_xdata())


LABELS = {
    "mistakes": ("predicted class", "true class"),
    "gates": ("block", "highway layer"),
    "routing": ("block", "highway layer"),
    "lesions": ("", "mean training loss"),
    "pairs": ("closed layer", "closed layer"),
    "deletions": ("deleted layers", "training accuracy, %"),
    "depth": ("layers left, without further training", "training accuracy, %"),
    "flow": ("", "mean output"),
    "refinement": ("", "error, as a share of\nthe stage's last output"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_plot_shows_all_layers_with_labels(name: str) -> None:
    figure = RECORDS[name]().plot()
    assert isinstance(figure, Figure)
    assert drawn_layers(name, figure) == 7
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == LABELS[name]


@pytest.mark.parametrize("name", RECORDS)
def test_plot_is_what_the_commands_draw(name: str) -> None:
    record = RECORDS[name]()
    main = next(iter(VIEWS[type(record)].drawings.values()))
    assert to_svg(record.plot()) == to_svg(main.draw(record))


@pytest.mark.parametrize("name", RECORDS)
def test_records_look_the_same_after_saving_and_loading(name: str, tmp_path: Path) -> None:
    record = RECORDS[name]()
    save_record(tmp_path, name, record)
    loaded = load_record(tmp_path, name, type(record))
    assert loaded is not None
    assert to_svg(loaded.plot()) == to_svg(record.plot())
    assert loaded._repr_html_() == record._repr_html_()
    assert repr(loaded) == repr(record)


def test_routing_has_two_pictures_and_chosen_classes() -> None:
    record = RECORDS["routing"]()
    apart = record.plot("route-distances").axes[0]
    assert [text.get_text() for text in apart.get_yticklabels()] == ["0", "cat", "dog"]
    for classes in (["dog", "0"], [2, 0], [np.int64(2), "0"]):
        assert [axes.get_title() for axes in record.plot(classes=classes).axes[:2]] == ["dog", "class 0"]
    with pytest.raises(InputError, match="unknown class 'cot': did you mean 'cat'"):
        record.plot(classes=["cot"])
    with pytest.raises(InputError, match="choose numbers from 0 to 2"):
        record.plot(classes=[3])
    with pytest.raises(InputError, match="unknown figure 'distances': did you mean 'route-distances'"):
        record.plot("distances")
    with pytest.raises(InputError, match=r"classes = \[1\]: only which = \"routing\" takes classes; route-distances shows all of them"):
        record.plot("route-distances", classes=[1])


def test_lesions_are_compared_in_one_figure() -> None:
    figure = some_lesions(7).plot(some_lesions(7, part="test"))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["training data", "test data", "intact network"]


@pytest.mark.parametrize("name", ["gates", "pairs", "deletions"])
def test_narrow_figures_are_as_wide_as_a_phone(name: str) -> None:
    assert RECORDS[name]().plot().get_figwidth() == 8.6
    assert RECORDS[name]().plot(narrow=True).get_figwidth() == 4.3


@pytest.mark.parametrize("name", PLOTS)
def test_notebooks_show_figures_and_pyplot_keeps_none(name: str) -> None:
    figure = PLOTS[name]()
    before = to_svg(PLOTS[name]())
    png, size = figure._repr_png_()  # type: ignore[attr-defined]
    with Image.open(BytesIO(png)) as image:
        assert image.size == pytest.approx((2 * size["width"], 2 * size["height"]), abs=2)
        edges = np.asarray(image.convert("L"))
        border = [edges[0], edges[-1], edges[:, 0], edges[:, -1]]
        assert min(line.min() for line in border) == 255, "nothing is cut"
    assert to_svg(figure) == before, "being shown changes nothing"
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", RECORDS)
def test_html_tells_and_shows(name: str) -> None:
    record = RECORDS[name]()
    html, view = record._repr_html_(), VIEWS[type(record)]
    fragment = Fragment(html)
    assert fragment.texts[:2] == [caption(record), view.finding(record)]
    assert "MNIST, 50-layer highway, seed 1, 60 epochs" in fragment.texts[0]
    assert "training samples" in fragment.texts[0]
    assert [image["alt"] for image in fragment.images] == [drawing.title for drawing in view.drawn(record).values()]
    for image, drawing in zip(fragment.images, view.drawn(record).values(), strict=True):
        figure = drawing.draw(record)
        assert image["width"] == str(round(100 * figure.get_figwidth()))
        head, _, data = (image["src"] or "").partition(",")
        assert head == "data:image/png;base64"
        with Image.open(BytesIO(b64decode(data))) as picture:
            assert picture.width == pytest.approx(200 * figure.get_figwidth(), abs=1)
        note = drawing.note(record)
        assert not note or note in fragment.texts
    assert html == record._repr_html_()
    assert len(html) < 400_000
    assert plt.get_fignums() == []


def evil_records() -> list[AnalysisRecord]:
    evil = {"about": ABOUT.model_copy(update={"data": EVIL, "network": EVIL})}
    routing = routing_record([EVIL, "</p>", "a&b"], 2, 2)
    flow = flow_record(3, np.ones, np.ones, EVIL)
    refinement = refinement_record([1.0, 0.0]).model_copy(update={"stages": (EVIL,)})
    return [record.model_copy(update=evil) for record in (gates_record(2, 2), routing, some_lesions(2), flow, refinement)]


@pytest.mark.parametrize("record", evil_records(), ids=lambda record: type(record).__name__)
def test_names_cannot_inject_anything(record: AnalysisRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in (False, True):
        if missing:
            monkeypatch.setitem(sys.modules, "matplotlib", None)
        html = record._repr_html_()
        assert html is not None
        assert "<script" not in html
        assert "&lt;script&gt;" in html
        fragment = Fragment(html)
        assert set(fragment.tags) <= {"div", "p", "strong", "figure", "figcaption", "img"}
        assert fragment.texts[0].startswith(f"{EVIL}, {EVIL}, seed 1")


@pytest.mark.parametrize("name", RECORDS)
def test_without_matplotlib_words_are_left(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = RECORDS[name]()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=re.escape(f"{type(record).__name__}.plot() {MISSING}")):
        record.plot()
    fragment = Fragment(record._repr_html_())
    assert fragment.texts == [caption(record), VIEWS[type(record)].finding(record), f"The figure {MISSING}"]
    assert fragment.images == []


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


def test_importing_the_drawings_imports_neither_matplotlib_nor_torch() -> None:
    code = "import sys; import highwaynet.figures.drawings; sys.exit(str({'matplotlib', 'torch', 'jinja2'} & set(sys.modules)))"
    assert python(code).stderr.strip() == "set()"


def test_nothing_is_shown_before_the_drawings_are_imported() -> None:
    result = python(
        "from highwaynet.analysis.analysis_records import About, LesionsRecord\n"
        "from highwaynet.base.errors import HighwayError\n"
        "from highwaynet.runs.run_records import Score\n"
        "about = About(data='d', network='n', seed=0, epochs=1)\n"
        "one = Score(loss=1.0, samples=3)\n"
        "record = LesionsRecord(fingerprint='x', about=about, part='test', samples=3, intact=one, closed=(one,))\n"
        "print(record._repr_html_())\n"
        "try:\n"
        "    record.plot()\n"
        "except HighwayError as error:\n"
        "    print(error)\n"
        "import highwaynet.figures.drawings\n"
        "print(len(record.plot().axes), record._repr_html_().count('<img'))\n"
    )
    first, second, third = result.stdout.splitlines()
    assert first == "None", "notebooks print the record then"
    assert second == "LesionsRecord: no drawing is registered for this record; run `import highwaynet.figures.drawings` and plot again"
    assert third == "1 1"


@pytest.mark.parametrize("name", RECORDS)
def test_what_is_printed_is_short(name: str) -> None:
    record = RECORDS[name]()
    for text in (repr(record), str(record)):
        assert len(text) < 1000
        assert "array" not in text
        assert "network='50-layer highway'" in text


def test_what_is_printed_names_shapes() -> None:
    text = repr(gates_record(7, 5))
    assert text.startswith(
        "GatesRecord(about=About(data='MNIST', network='50-layer highway', seed=1, epochs=60), part='train', samples=60000"
    )
    assert "start_bias=<7 numbers>, bias=<7×5 numbers>" in text
    assert "closed=<49 entries>" in repr(some_lesions(49))
    assert "class_names=('0', 'cat', 'dog')" in repr(RECORDS["routing"]())
    assert "start=Flow(mean=<7 numbers>" in repr(RECORDS["flow"]())


def test_an_evaluation_is_a_small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # it needs none
    record = EvaluationRecord(fingerprint="x", parameters=253_660, train=score(0.023, 0.99), validation=None, test=score(0.094, 0.971))
    fragment = Fragment(record._repr_html_() or "")
    assert [text.replace("\u00a0", " ") for text in fragment.texts] == [
        "253,660 parameters",
        *("loss", "accuracy", "samples"),
        *("training", "0.0230", "99.00 %", "1,000"),
        *("test", "0.0940", "97.10 %", "1,000"),
    ]
    numbers = score(0.5).model_copy(update={"rmse": 12.5, "r2": 0.5})
    regression = record.model_copy(update={"train": numbers, "validation": numbers, "test": numbers})
    texts = Fragment(regression._repr_html_() or "").texts
    assert texts[1:9] == ["loss", "RMSE", "R²", "samples", "training", "0.500", "12.5", "0.500"]
    assert texts.count("validation") == 1
    assert not hasattr(record, "plot")
    assert len(repr(record)) < 400
