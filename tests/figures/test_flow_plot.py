"""The pictures of flow and refinement: of any size, with numbers of any kind, and in words."""

from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from figures.made_records import Values, flow_record, refinement_record
from highwaynet.figures.findings import flow_finding, refinement_finding
from highwaynet.figures.flow_plot import draw_flow
from highwaynet.figures.refinement_plot import draw_refinement
from highwaynet.figures.style import to_svg


def faded(count: int) -> np.ndarray:
    """Falls, and is 0 in the second half."""
    values = 0.5 ** np.arange(count)
    values[count // 2 :] = 0
    return values


NUMBERS: dict[str, Values] = {
    "zero": np.zeros,
    "nan": lambda count: np.full(count, np.nan),
    "infinite": lambda count: np.full(count, np.inf),
    "faded": faded,
    "huge": lambda count: 10.0 ** np.linspace(-38, 38, count),
    "even": np.ones,
}


def smallest_panel(figure: Figure) -> float:
    """Height of the smallest panel, as a share of the picture."""
    figure.draw_without_rendering()
    return min(axes.get_position().height for axes in figure.axes)


@pytest.mark.parametrize("count", [1, 1000])
@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS)
def test_any_numbers_in_any_number_of_layers(count: int, values: Values) -> None:
    assert smallest_panel(draw_flow(flow_record(count, values, NUMBERS["zero"]))) > 0.2, "nothing presses the panels together"
    refinement = refinement_record(values(max(count, 2)).tolist())
    assert smallest_panel(draw_refinement(refinement)) > 0.3
    assert refinement_finding(refinement).startswith("Over 1,000 training samples:")


def test_axes_of_the_flow() -> None:
    figure = draw_flow(flow_record(6, NUMBERS["even"], faded))
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log", "log"]
    start, trained, zeros = figure.axes[1].lines
    assert start.get_ydata().tolist() == [1] * 6
    assert np.isnan(trained.get_ydata()[3:]).all(), "a log axis has no 0"
    assert (zeros.get_xdata().tolist(), zeros.get_marker()) == ([4, 5, 6], "x")
    assert [axes.get_yscale() for axes in draw_flow(flow_record(6, np.zeros, np.zeros)).axes] == ["linear"] * 3
    assert draw_flow(flow_record(6, NUMBERS["huge"], faded)).axes[0].get_yscale() == "symlog"


def test_pictures_are_valid_svg() -> None:
    for figure in (draw_flow(flow_record(50, faded, faded)), draw_refinement(refinement_record([1, 0.5, 0], [2, 0]))):
        assert ElementTree.fromstring(to_svg(figure)).tag.endswith("svg")


def test_stages_are_told_apart() -> None:
    axes = draw_refinement(refinement_record([1, 0.5, 0], [2, 0])).axes[0]
    assert [text.get_text() for text in axes.texts] == ["8 maps\n4×4", "16 maps\n4×4"]
    assert [line.get_xdata() for line in axes.lines if line.get_linestyle() == "--"] == [[3.5, 3.5]]
    assert draw_refinement(refinement_record([1, 0])).axes[0].texts[:] == []
    many = draw_refinement(refinement_record(*[[1.0, 0.0]] * 6)).axes[0]
    assert [text.get_text() for text in many.texts] == list("123456")


def test_flow_in_words() -> None:
    text = flow_finding(flow_record(3, lambda count: np.array([4.0, 1.0, 0.25]), faded, "Dead ReLU: it is.", "Vanishing gradient: so."))
    assert text.startswith(
        "Over 1,000 training samples, before training the signal fails. Dead ReLU: it is. Vanishing gradient: so. After "
    )
    text = flow_finding(flow_record(3, lambda count: np.array([4.0, 1.0, 0.25]), NUMBERS["even"]))
    assert "the signal passes all 3 layers: from the first to the last the standard deviation of the outputs goes from 2 to 0.5" in text
    assert "the length of the weights' gradient from 4 to 0.25. After training it passes all 3 layers" in text
    assert "passes the only layer" in flow_finding(flow_record(1, NUMBERS["even"], NUMBERS["even"]))


def test_refinement_in_words() -> None:
    text = refinement_finding(refinement_record([2.0, 1.2, 0.9, 0.3, 0.1, 0.0], [0.7, 0.0], bias=-0.25))
    assert "In the 6 layers with 8 maps of 4×4 the first output differs from the last by 2.00 times the last one's size" in text
    assert "it takes 2 of the 5 layers behind it to halve that, and 4 to bring it to a tenth." in text
    assert "In the 2 layers with 16 maps of 4×4 the first output differs from the last by 0.70 times the last one's size. The mean" in text
    assert text.endswith("The mean difference stays within ±0.25, its standard deviation is up to 2.")
    assert "all outputs are the same" in refinement_finding(refinement_record([0.0, 0.0]))
    assert "nothing can be compared" in refinement_finding(refinement_record([np.nan, np.nan]))
