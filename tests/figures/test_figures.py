"""Pictures and sentences of what analyses found, on records made by hand."""

import math
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from figures.made_records import (
    ABOUT,
    CONV,
    ORIGIN,
    deletions_record,
    depth_record,
    gates_record,
    lesions_record,
    pairs_record,
    routing_record,
    score,
    some_lesions,
)
from highwaynet.analysis.analysis_records import (
    AnalysisRecord,
    DeletionsRecord,
    GatesRecord,
    PairsRecord,
    RefinementRecord,
    RoutingRecord,
)
from highwaynet.base.errors import InputError
from highwaynet.figures.captions import caption, save_figure, with_caption
from highwaynet.figures.findings import deletions_finding, depth_finding, gate_finding, lesion_finding, pairs_finding, routing_finding
from highwaynet.figures.gate_map import draw_gates
from highwaynet.figures.lesion_plot import draw_deletions, draw_depth, draw_lesions, draw_pairs
from highwaynet.figures.routing_plot import draw_route_distances, draw_routing
from highwaynet.figures.style import centred, to_svg

LONG = "A name of which there is no end, " * 12 + "and with $x$ in it."

FIGURES: dict[str, Callable[[], Figure]] = {
    "gates": lambda: draw_gates(gates_record()),
    "gates, narrow": lambda: draw_gates(gates_record(), columns=2),
    "gates, one": lambda: draw_gates(gates_record(1, 1)),
    "gates, deep": lambda: draw_gates(gates_record(1000, 50)),
    "gates, deep and wide": lambda: draw_gates(gates_record(1000, 256), columns=2),
    "gates, maps": lambda: draw_gates(gates_record(**CONV)),
    "gates, maps, narrow": lambda: draw_gates(gates_record(**CONV), columns=2),
    "gates, constant": lambda: draw_gates(gates_record(noise=0.0)),
    "routing": lambda: draw_routing(routing_record()),
    "routing, five": lambda: draw_routing(routing_record(), [0, 3, 5, 7, 9]),
    "routing, print": lambda: draw_routing(routing_record(), [0, 3, 5, 7], columns=4),
    "routing, one class and layer": lambda: draw_routing(routing_record("a", 1, 1)),
    "routing, maps": lambda: draw_routing(routing_record(**CONV), [3, 4]),
    "routing, deep": lambda: draw_routing(routing_record("ab", 1000, 20)),
    "routing, constant": lambda: draw_routing(routing_record(noise=0.0)),
    "routing, long names": lambda: draw_routing(routing_record(["large man-made outdoor things and other ones", "x" * 80])),
    "distances": lambda: draw_route_distances(routing_record()),
    "distances, one": lambda: draw_route_distances(routing_record("a", 2, 2)),
    "distances, names": lambda: draw_route_distances(routing_record([f"aquatic mammals {n}" for n in range(20)], 3, 4)),
    "distances, many": lambda: draw_route_distances(routing_record([f"name {n}" for n in range(100)], 3, 4)),
    "distances, constant": lambda: draw_route_distances(routing_record(noise=0.0)),
    "lesions": lambda: draw_lesions(some_lesions(49)),
    "lesions, one": lambda: draw_lesions(some_lesions(1)),
    "lesions, deep": lambda: draw_lesions(some_lesions(1000)),
    "lesions, both parts": lambda: draw_lesions([some_lesions(49), some_lesions(49, part="test")]),
    "lesions, of several lengths": lambda: draw_lesions([some_lesions(4), some_lesions(9, about=ABOUT.model_copy(update={"seed": 2}))]),
    "lesions, regression": lambda: draw_lesions(lesions_record([0.3, 0.9, 0.31])),
    "lesions, constant": lambda: draw_lesions(lesions_record([0.5] * 5, [0.5] * 5)),
    "lesions, zero": lambda: draw_lesions(lesions_record([0.0] * 5)),
    "lesions, some zero": lambda: draw_lesions(lesions_record([0.0, 1.0, 0.0], [1.0, 0.2, 1.0])),
    "lesions, not finite": lambda: draw_lesions(lesions_record([0.1, math.inf, math.nan, 0.2], [0.9, 0.1, 0.1, 0.8])),
    "pairs": lambda: draw_pairs(pairs_record(49)),
    "pairs, narrow": lambda: draw_pairs(pairs_record(49), columns=1),
    "pairs, one": lambda: draw_pairs(pairs_record(1)),
    "pairs, deep": lambda: draw_pairs(pairs_record(301)),
    "pairs, constant": lambda: draw_pairs(pairs_record(9, rise=0.0)),
    "pairs, zero": lambda: draw_pairs(pairs_record(9, intact=0.0, rise=0.0)),
    "pairs, from zero": lambda: draw_pairs(pairs_record(9, intact=0.0)),
    "pairs, better without": lambda: draw_pairs(pairs_record(9, intact=3.0, rise=-0.5)),
    "deletions": lambda: draw_deletions(deletions_record()),
    "deletions, narrow": lambda: draw_deletions(deletions_record(), columns=1),
    "deletions, one": lambda: draw_deletions(deletions_record(1, draws=1, swaps=(1,))),
    "deletions, no swaps": lambda: draw_deletions(deletions_record(swaps=())),
    "deletions, deep": lambda: draw_deletions(deletions_record(1000)),
    "deletions, regression": lambda: draw_deletions(deletions_record(rated=False)),
    "depth": lambda: draw_depth(depth_record()),
    "depth, two networks": lambda: draw_depth([depth_record(), depth_record(99, about=ABOUT.model_copy(update={"data": "CIFAR-100"}))]),
    "depth, regression": lambda: draw_depth(depth_record(1, rated=False)),
}


def drawn(figure: Figure) -> Any:
    """The renderer, after the layout was made."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def labels(figure: Figure) -> list[tuple[str, str]]:
    return [(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes]


@pytest.mark.parametrize("name", FIGURES)
def test_every_picture_is_legible(name: str) -> None:
    figure = FIGURES[name]()
    assert max(figure.get_size_inches()) <= 13
    page = with_caption(figure, LONG)
    renderer = drawn(page)
    (note,) = page.findobj(lambda part: isinstance(part, Text) and part.get_text().startswith(LONG[:20]))
    below = note.get_window_extent(renderer)
    assert all(axes.get_tightbbox(renderer).y0 > below.y1 for axes in page.axes), "the caption stands below all panels"
    ink, (width, height) = page.get_tightbbox(renderer), page.get_size_inches()
    assert min(ink.x0, ink.y0, width - ink.x1, height - ink.y1) > -0.02, "all ink is on the paper"
    titles = [axes.title.get_window_extent(renderer) for axes in page.axes if axes.get_title()]
    assert not any(overlap(one, other) for one, other in combinations(titles, 2))
    for axis in (axis for axes in page.axes for axis in (axes.xaxis, axes.yaxis)):
        numbers = [text.get_window_extent(renderer) for text in axis.get_ticklabels() if text.get_visible() and text.get_text()]
        assert not any(overlap(one, other) for one, other in pairwise(numbers)), axis


@pytest.mark.parametrize("name", ["gates, maps, narrow", "routing", "lesions, deep", "pairs", "deletions"])
def test_pictures_are_valid_svg_and_the_same_for_the_same_data(name: str) -> None:
    text = to_svg(FIGURES[name]())
    svg = ElementTree.fromstring(text)
    assert svg.tag.endswith("svg")
    assert svg.get("width") is None, "the page decides"
    assert text == to_svg(FIGURES[name]())


def overlap(one: Bbox, other: Bbox) -> bool:
    common = Bbox.intersection(one, other)
    return common is not None and min(common.width, common.height) > 1


def test_gates_show_four_tables_from_the_first_layer_down() -> None:
    record = gates_record(**CONV)
    figure = draw_gates(record)
    panels, bars = figure.axes[:4], figure.axes[4:]
    assert [axes.get_title() for axes in panels] == ["transform gate biases", "mean gate outputs", "gate outputs", "block outputs"]
    assert labels(figure)[:4] == [("map", "highway layer"), ("map", ""), ("map", ""), ("map", "")]
    assert [axes.get_xlabel() for axes in bars] == ["started at −2", "T, 1 is open", "T for sample 3", "y for sample 3"]
    tables = [record.bias, record.mean, record.sample_gates, record.sample_outputs]
    for axes, table in zip(panels, tables, strict=True):
        image = axes.images[0]
        np.testing.assert_array_equal(np.ma.filled(image.get_array().astype(float), np.nan), table)
        assert axes.get_ylim() == (14.5, 0.5)
        assert axes.get_xlim() == (0.5, 128.5)
        assert tuple(image.cmap.get_bad()) == (0, 0, 0, 0), "blank"
    low, high = panels[0].images[0].get_clim()
    assert (low + high) / 2 == pytest.approx(-2)
    low, high = panels[3].images[0].get_clim()
    assert low == -high
    assert panels[1].images[0].get_clim()[0] == 0


def test_narrow_gates_are_two_by_two_and_as_wide_as_a_phone() -> None:
    figure = draw_gates(gates_record(), columns=2)
    assert figure.get_figwidth() == 4.3
    assert [ylabel for _, ylabel in labels(figure)[:4]] == ["highway layer", "", "highway layer", ""]
    drawn(figure)
    assert figure.axes[0].get_position().x0 == pytest.approx(figure.axes[2].get_position().x0)


def test_a_few_far_values_do_not_leave_the_others_pale() -> None:
    values = np.concatenate([np.linspace(-1, 1, 999), [50]]).astype(np.float32)
    norm = centred(values, 0, 0.1)
    assert (norm.vmin, norm.vmax) == (pytest.approx(-0.99, abs=0.01), pytest.approx(0.99, abs=0.01))
    record = gates_record()
    record.bias[4, 5] = 40
    figure = draw_gates(record)
    drawn(figure)
    assert figure.axes[4].collections, "the colour bar is pointed"


def test_routes_are_differences_with_the_same_colours_on_both_sides_of_zero() -> None:
    record = routing_record(["0", "cat", "dog"], 5, 4)
    figure = draw_routing(record, [0, 2])
    panels = figure.axes[:2]
    assert [axes.get_title() for axes in panels] == ["class 0", "dog"]
    limits = {axes.images[0].get_clim() for axes in panels}
    assert len(limits) == 1
    assert sum(limits.pop()) == 0
    np.testing.assert_allclose(panels[1].images[0].get_array(), record.class_mean[2] - record.mean)
    assert figure.axes[2].get_xlabel() == "gate output minus mean over all samples"
    assert [axes.get_title() for axes in draw_routing(record).axes[:2]] == ["class 0", "cat"], "the first two"


@pytest.mark.parametrize("classes", [[], [3], [-1], [0, 7]])
def test_classes_that_do_not_exist(classes: list[int]) -> None:
    with pytest.raises(InputError, match="choose numbers from 0 to 2"):
        draw_routing(routing_record("abc", 2, 2), classes)


def unseen_class() -> RoutingRecord:
    """The last of three classes has no samples."""
    record = routing_record("abc", 4, 3, class_samples=(3, 3, 0))
    record.class_mean[2] = record.distance[2] = record.distance[:, 2] = np.nan
    return record


def test_a_class_without_samples() -> None:
    record = unseen_class()
    figure = draw_routing(record, [0, 2])
    assert [text.get_text() for text in figure.axes[1].texts] == ["no samples"]
    drawn(figure)
    drawn(draw_route_distances(record))
    assert routing_finding(record).startswith("The routes of the classes a and b are ")


def test_distances_name_classes_or_number_them() -> None:
    few = draw_route_distances(routing_record(["a cat", "a dog"], 2, 2)).axes[0]
    assert [text.get_text() for text in few.get_yticklabels()] == ["a cat", "a dog"]
    many = draw_route_distances(routing_record([f"name {n}" for n in range(21)], 2, 2)).axes[0]
    assert many.get_yticks().tolist() == many.get_xticks().tolist() == [0, 5, 10, 15, 20]
    assert (many.get_xlabel(), many.get_ylabel()) == ("class", "class")


def test_lesions_show_loss_and_accuracy() -> None:
    record = some_lesions(49)
    figure = draw_lesions(record, "#123456")
    loss, accuracy = figure.axes
    assert labels(figure) == [("", "mean training loss"), ("closed layer", "accuracy, %")]
    assert loss.get_yscale() == "log"
    line, intact = loss.lines
    assert line.get_color() == intact.get_color() == "#123456"
    assert line.get_xdata().tolist() == list(range(1, 50))
    assert line.get_ydata().tolist() == [closed.loss for closed in record.closed]
    assert intact.get_ydata() == [record.intact.loss] * 2
    assert accuracy.lines[0].get_ydata()[0] == pytest.approx(100 * (record.closed[0].accuracy or 0))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one layer closed", "intact network"]


def test_lesions_of_several_records_can_be_told_apart() -> None:
    other = ABOUT.model_copy(update={"data": "CIFAR-100"})
    records = [some_lesions(9), some_lesions(9, part="test"), some_lesions(9, about=other), some_lesions(9, about=other, part="test")]
    figure = draw_lesions(records, "#D55E00")
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 9]
    assert lines[0].get_color() == "#D55E00"
    assert len({line.get_color() for line in lines}) == 4
    assert [line.get_markerfacecolor() == "white" for line in lines] == [False, True, False, True]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["MNIST, training data", "MNIST, test data", "CIFAR-100, training data", "CIFAR-100, test data", "intact network"]
    assert figure.axes[0].get_ylabel() == "mean loss"
    two = draw_lesions(records[:2])
    assert [text.get_text() for text in two.legends[0].get_texts()] == ["training data", "test data", "intact network"]


def test_lesions_that_are_not_finite_are_marked() -> None:
    loss = draw_lesions(lesions_record([0.1, math.inf, 0.2, math.nan])).axes[0]
    assert loss.lines[-1].get_xdata().tolist() == [1, 3]
    assert loss.lines[-1].get_label() == "one layer closed: not finite"


def test_a_regression_has_no_panel_for_accuracy() -> None:
    assert labels(draw_lesions(lesions_record([0.3, 0.31]))) == [("closed layer", "mean training loss")]
    deletions = draw_deletions(deletions_record(rated=False))
    assert deletions.axes[0].get_ylabel() == "mean training loss"
    assert deletions.axes[0].get_yscale() == "log"


def test_pairs_are_multiples_of_the_intact_loss() -> None:
    record = pairs_record(9)
    figure = draw_pairs(record)
    pairs, spans, bar, _ = figure.axes
    assert labels(figure)[:2] == [("closed layer", "closed layer"), ("last layer of the span", "first layer of the span")]
    assert bar.get_xlabel() == "training loss / intact loss"
    np.testing.assert_allclose(pairs.images[0].get_array(), record.pair_loss / 0.01, rtol=1e-6)
    assert np.ma.getmaskarray(spans.images[0].get_array()).tolist() == (np.tri(9, k=-1) > 0).tolist()
    for axes, table in ((pairs, record.pair_loss), (spans, record.span_loss)):
        assert axes.images[0].get_clim() == (1, pytest.approx(np.nanmax(table) / 0.01, rel=1e-6))


def test_deletions_show_every_draw_and_medians() -> None:
    record = deletions_record()
    figure = draw_deletions(record)
    deleted, shuffled = figure.axes
    assert labels(figure) == [("deleted layers", "training accuracy, %"), ("order of the layers, Kendall's τ (1: as trained)", "")]
    dots, medians, intact = deleted.lines
    np.testing.assert_allclose(dots.get_ydata(), 100 * record.deletion_accuracy.ravel())
    assert medians.get_xdata().tolist() == [1, 24, 49]
    np.testing.assert_allclose(medians.get_ydata(), 100 * np.median(record.deletion_accuracy, axis=1))
    assert intact.get_ydata() == [99, 99]
    left, right = shuffled.get_xlim()
    assert left > 1 > right, "the order as trained stands at the left"
    assert len(draw_deletions(deletions_record(swaps=())).axes) == 1


def test_captions() -> None:
    assert caption(gates_record()) == "MNIST, 50-layer highway, seed 1, 60 epochs; means over 60,000 training samples."
    one = some_lesions(2, part="test", samples=1, about=ABOUT.model_copy(update={"epochs": 1}))
    assert caption(one) == "MNIST, 50-layer highway, seed 1, 1 epoch; measured on 1 test sample."
    assert caption(some_lesions(2), some_lesions(2, part="test", samples=10_000)) == (
        "MNIST, 50-layer highway, seed 1, 60 epochs; measured on 60,000 training samples and 10,000 test samples."
    )
    assert caption(deletions_record()).endswith("; measured on 60,000 training samples, random draws with seed 0.")
    other = some_lesions(2, about=ABOUT.model_copy(update={"data": "CIFAR-100"}))
    assert caption(some_lesions(2), other).count(". CIFAR-100, ") == 1
    refinement = RefinementRecord(**ORIGIN, stages=("1",), stage=(0,), bias=[0], spread=[0], error=[0])
    assert caption(refinement).endswith("; means over 60,000 training samples.")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".PDF"])
@pytest.mark.parametrize("name", ["gates, maps", "lesions, both parts"])
def test_files_are_the_same_for_the_same_data_and_tell_the_caption(suffix: str, name: str, tmp_path: Path) -> None:
    figure, path = FIGURES[name](), tmp_path / f"one{suffix}"
    save_figure(figure, path, LONG)
    save_figure(FIGURES[name](), tmp_path / f"two{suffix}", LONG)
    assert path.read_bytes() == (tmp_path / f"two{suffix}").read_bytes()
    save_figure(figure, tmp_path / f"three{suffix}", LONG)
    assert path.read_bytes() == (tmp_path / f"three{suffix}").read_bytes(), "the figure is as it was"
    content = path.read_bytes()
    match suffix.lower():
        case ".png":
            with Image.open(path) as image:
                assert image.info["Description"] == image.info["Title"] == LONG
                assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)
                assert "Software" not in image.info
        case ".svg":
            for field in ("title", "dc:title", "dc:description"):
                assert f"<{field}>{LONG}</{field}>".encode() in content
            assert b"<dc:date>" not in content
        case _:
            assert content.startswith(b"%PDF")
            for field in ("Title", "Subject"):
                assert f"/{field} ({LONG[:40]}".encode() in content
            assert b"/CreationDate" not in content
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(f"{n}{suffix}" for n in ("one", "two", "three")), (
        "nothing half written"
    )


def test_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"choose a name that ends in \.png, \.svg or \.pdf"):
        save_figure(draw_gates(gates_record(1, 1)), tmp_path / "map.jpg", "")
    with pytest.raises(InputError, match="cannot write"):
        save_figure(draw_gates(gates_record(1, 1)), tmp_path / "nowhere" / "map.png", "")


def told(finding: Callable[[Any], str], record: AnalysisRecord) -> str:
    return finding(record).replace("\u00a0", " ")


def test_lesion_findings() -> None:
    record = lesions_record([0.1, 0.9, 0.1005, 0.11], [0.97, 0.5, 0.971, 0.969])
    assert told(lesion_finding, record) == (
        "1 of 3 layers can be closed one at a time with at most 1 % rise of the training loss (0.100), "
        "2 with at most 0.1 percentage points' fall of the training accuracy (97.00 %). "
        "Layer 1 matters most: without it the loss goes from 0.100 to 0.900."
    )
    assert told(lesion_finding, lesions_record([0.3, 0.3, 0.2], part="test")) == (
        "2 of 2 layers can be closed one at a time with at most 1 % rise of the test loss (0.300). "
        "Closing any single layer does not raise the loss."
    )
    assert told(lesion_finding, lesions_record([0.0, 0.0, 1e-9])).startswith("1 of 2 layers can be closed")
    assert told(lesion_finding, lesions_record([0.1, 0.2, math.nan])).endswith(
        "Layer 2 matters most: without it the loss goes from 0.100 to inf."
    )


def test_gate_findings() -> None:
    nan = math.nan
    record = GatesRecord(
        **ORIGIN, start_bias=[-2, -2], sparsity=[0.75] * 7, bias=[[-3, -1], [-4, -2.5]], mean=[[0.1, 0.2], [0.4, 0.5]], sample=0,
        sample_gates=[[0, 0]] * 2, sample_outputs=[[0, 0]] * 2, open_share=[0.0, 0.5], closed_share=[1.0, 0.5],
    )  # fmt: skip
    assert told(gate_finding, record) == (
        "Over 60,000 training samples the transform gates are open by 0.30 on average (1 is fully open), most in highway layer 2 (0.45). "
        "For a single sample 75.00 % of the gates are below 0.1 and 25.00 % above 0.5, on average over the samples. "
        "All gate biases started at −2; training lowered 75.00 % of them (3 of 4), and their mean is −2.62 now."
    )
    ragged_one = record.model_copy(
        update={
            "bias": np.array([[-3, nan, nan], [-1, -1, -1]], dtype=np.float32),
            "mean": np.array([[0.9, nan, nan], [0.1, 0.1, 0.1]], dtype=np.float32),
        }
    )
    text = told(gate_finding, ragged_one)
    assert "open by 0.30 on average (1 is fully open), most in highway layer 1 (0.90)" in text, "each gate counts alike"
    assert "62.50 % of the gates are below 0.1 and 37.50 % above 0.5" in text, "each gate counts alike"
    assert "training lowered 25.00 % of them (1 of 4)" in text


def test_routing_findings() -> None:
    distance = [[0, 0.01, 0.03], [0.01, 0, 0.0234], [0.03, 0.0234, 0]]
    share = (
        "On average over the layers, 25.00 % of the variance of a layer's gates comes from the input, the rest from differences between "
        "blocks that are the same for all samples; of what comes from the input, 50.00 % is between classes. "
        "With every gate held at its mean over the samples the training accuracy goes from 99.90 % to 40.00 %."
    )
    assert told(routing_finding, routing_record(["four", "nine", "one"], 2, 2, distance=distance)) == (
        "The routes of the classes four and nine are closest (0.01, root mean square difference of their mean gates), "
        f"those of four and one farthest apart (0.03). {share}"
    )
    assert told(routing_finding, routing_record("ab", 2, 2, distance=[[0, 0.5], [0.5, 0]])) == (
        f"The routes of the classes a and b are 0.5 apart (root mean square difference of their mean gates). {share}"
    )
    assert told(routing_finding, routing_record("a", 2, 2)) == share


def pairs_of(intact: float, pairs: Any, spans: Any) -> PairsRecord:
    return PairsRecord(**ORIGIN, intact=score(intact), pair_loss=pairs, span_loss=spans)


def test_pairs_findings() -> None:
    nan = math.nan
    pairs = [[2.0, 4.5, 2.0], [4.5, 1.5, 1.5], [2.0, 1.5, 1.0]]
    assert told(pairs_finding, pairs_of(1.0, pairs, [[2.0, 4.5, 4.6], [nan, 1.005, 1.09], [nan, nan, 1.0]])) == (
        "The longest span of layers that can be closed with at most 1 % rise of the loss (1.00 over 60,000 training samples) "
        "has 1 layer (3), with at most 10 % 2 layers (2 to 3). "
        "Layers 1 and 2 interact most: closing both changes the loss by +3.50, closing only one of them by +1.00 and +0.500."
    )
    assert told(pairs_finding, pairs_of(1.0, [[0.5, 0.5], [0.5, 0.5]], [[1.05, 2], [nan, 2]])) == (
        "No layer can be closed with at most 1 % rise of the loss (1.00 over 60,000 training samples); "
        "the longest span that can be closed with at most 10 % has 1 layer (1). "
        "Layers 1 and 2 interact most: closing both changes the loss by −0.500, closing only one of them by −0.500 and −0.500."
    )
    assert told(pairs_finding, pairs_of(1.0, [[2.0, 3.0], [3.0, 2.0]], [[2, 3], [nan, 2]])) == (
        "No layer can be closed with at most 10 % rise of the loss (1.00 over 60,000 training samples). "
        "No two layers interact: closing both changes the loss by the sum of what closing each does."
    )
    assert told(pairs_finding, pairs_of(0.0, [[0.0]], [[0.0]])) == (
        "The longest span of layers that can be closed with at most 1 % rise of the loss (0 over 60,000 training samples) "
        "has 1 layer (1), with at most 10 % 1 layer (1)."
    )


def deletions_of(
    accuracy: float | None, deleted: Any, tables: Any, swaps: Any = (), shuffled: Any = (), order: Any = ()
) -> DeletionsRecord:
    deletions, shuffles, orders = (np.array(table, dtype=float).reshape(-1, 3) for table in (tables, shuffled, order))
    nothing = [np.full(table.shape, math.nan) for table in (deletions, shuffles)]
    losses, accuracies = (nothing, [deletions, shuffles]) if accuracy is not None else ([deletions, shuffles], nothing)
    return DeletionsRecord(
        **ORIGIN, seed=0, intact=score(0.1, accuracy), deleted=deleted, deletion_loss=losses[0], deletion_accuracy=accuracies[0],
        swaps=swaps, order=orders, shuffle_loss=losses[1], shuffle_accuracy=accuracies[1],
    )  # fmt: skip


def test_depth_findings() -> None:
    assert told(depth_finding, depth_record(10)) == (
        "The intact network's accuracy is 99.00 % over 60,000 training samples. If layers are removed one by one, always the one that "
        "costs least, without further training, 5 of 10 layers are needed to lose at most 0.1 percentage points, and 4 to lose at most 1; "
        "without any of them 74.00 % are left."
    )
    assert "R² is 99.00 %" in told(depth_finding, depth_record(rated=False))


def test_deletions_findings() -> None:
    tables = [[0.98, 0.97, 0.1], [0.9, 0.95, 0.9], [0.5, 0.6, 0.7], [0.1, 0.1, 0.1]]
    record = deletions_of(0.99, (1, 2, 5, 9), tables, (1, 9), [[0.9, 0.9, 0.8], [0.3, 0.2, 0.1]], [[0.9, 0.9, 0.8], [-0.1, -0.2, 0.0]])
    assert told(deletions_finding, record) == (
        "The intact network's accuracy is 99.00 % over 60,000 training samples. "
        "With random layers deleted its median is 97.00 % (1 of 9), 60.00 % (5 of 9) and 10.00 % (all 9). "
        "At least 90 % of it is kept with up to 2 layers deleted. "
        "With random layers swapped its median is 90.00 % after 1 swap (Kendall's τ 0.9) and 20.00 % after 9 swaps (Kendall's τ −0.1)."
    )
    assert told(deletions_finding, deletions_of(None, (1,), [[0.5, 0.4, 0.6]])) == (
        "The intact network's loss is 0.100 over 60,000 training samples. With random layers deleted its median is 0.500 (the only one)."
    )


def test_names_in_any_script_are_drawn(tmp_path: Path) -> None:
    record = routing_record(["猫", "$x_1$ <b>"], 2, 2, about=ABOUT.model_copy(update={"data": "猫と犬"}))
    for suffix in ("png", "svg", "pdf"):
        save_figure(draw_routing(record), tmp_path / f"routing.{suffix}", caption(record))
    with Image.open(tmp_path / "routing.png") as image:
        assert image.info["Title"].startswith("猫と犬, ")
    ElementTree.parse(tmp_path / "routing.svg")
