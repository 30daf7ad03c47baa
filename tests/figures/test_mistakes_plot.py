"""Mistakes in pictures, words and HTML."""

import re
from base64 import b64decode
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image

from figures.made_records import mistakes_record, residuals_record
from highwaynet.base.errors import InputError
from highwaynet.figures.cards import cards
from highwaynet.figures.drawings import VIEWS
from highwaynet.figures.mistakes_words import mistakes_finding, worst_as_html, worst_note
from highwaynet.figures.style import Figure, house_style

EVIL = '<script>alert("x")</script>'


def laid_out(figure: Figure) -> None:
    """Draw the figure, so that its texts have a place."""
    with house_style():
        FigureCanvasAgg(figure).draw()


def texts_in(figure: Figure) -> list[Text]:
    """The counts in the cells, and the labels of both axes."""
    axes = figure.axes[0]
    return [*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels()]


@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("names", [["cat", "dog"], [str(number) for number in range(10)], [f"mammal {n}" for n in range(12)],
                                   [f"class {n}" for n in range(20)], [f"aquatic mammal {n}" for n in range(30)]], ids=len)  # fmt: skip
def test_labels_are_large_enough_and_do_not_overlap(names: list[str], scale: int) -> None:
    figure = mistakes_record(names, scale).plot()
    laid_out(figure)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [n if len(n) < 13 else f"{n[:7]} …" for n in names]
    assert all(text.get_fontsize() >= 5.5 for text in texts_in(figure))
    for labels in (axes.get_xticklabels(), axes.get_yticklabels(), axes.texts):
        boxes = [label.get_window_extent().padded(-1.5) for label in labels]  # without the space around letters
        assert not any(one.overlaps(other) for number, one in enumerate(boxes) for other in boxes[:number])


def test_counts_are_written_where_there_is_room() -> None:
    few = mistakes_record(["a", "b", "c"], 100).plot().axes[0]
    assert sorted(text.get_text() for text in few.texts) == ["100"] * 3 + ["900"] * 3
    assert len(mistakes_record([str(n) for n in range(40)], 100).plot().axes[0].texts) == 0
    many = mistakes_record([str(n) for n in range(40)]).plot().axes[0]
    assert (many.get_xlabel(), many.get_ylabel()) == ("number of the predicted class", "number of the true class")


def test_calibration_shows_bins_that_have_samples() -> None:
    upper, lower = mistakes_record().plot("calibration").axes
    assert len(upper.lines[1].get_xdata()) == 10
    assert upper.lines[1].get_ydata()[0] == pytest.approx(100 * 5 / 15)
    assert [bar.get_height() for bar in lower.patches] == [0] * 5 + [3] * 10


def test_residuals_and_readable_numbers() -> None:
    figure = residuals_record().plot()
    laid_out(figure)
    upper, lower = figure.axes
    assert len(upper.collections[0].get_offsets()) == len(lower.collections[0].get_offsets()) == 200
    labels = [label.get_text() for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels()]
    assert any("," in label for label in labels)
    assert not any("e" in label for label in labels)
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def test_each_task_has_its_figures() -> None:
    view = VIEWS[type(mistakes_record())]
    assert list(view.drawn(mistakes_record())) == ["confusion", "calibration"]
    assert list(view.drawn(residuals_record())) == ["residuals"]
    with pytest.raises(InputError, match="unknown figure 'confusion'"):
        residuals_record().plot("confusion")


def test_words_about_classes() -> None:
    words = mistakes_finding(mistakes_record().model_copy(update={"part": "test"})).replace("\xa0", " ")
    for sentence in (
        "Over 30 test samples the accuracy is 90.00 %; always guessing the most frequent training class (0) gives 33.33 %.",
        "The most frequent confusion is 0 taken for cat, 1 time.",
        "Its probabilities are off by 5.00 %, on average too high (expected calibration error, 15 equally wide bins).",
    ):
        assert sentence in words


def test_words_about_numbers() -> None:
    words = mistakes_finding(residuals_record()).replace("\xa0", " ")
    assert "the error of price is 20,000 (RMSE) or 16,000 (MAE" in words
    assert "guessing the mean of the training samples gives 100,000 and 80,000" in words
    assert "explains 96.00 % of the variance (R²), and its largest error is 61,000." in words


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_the_pixels(channels: int) -> None:
    record = mistakes_record(pictures=channels)
    html = worst_as_html(record)
    sources = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    assert len(sources) == 3
    for source, pixels in zip(sources, record.pictures, strict=True):
        with Image.open(BytesIO(b64decode(source))) as image:
            shown = np.asarray(image).reshape(8, 8, channels).transpose(2, 0, 1)
        assert np.array_equal(shown, pixels.round())
    assert "true: cat<br>predicted: dog, 80.00\xa0%<br>sample 1" in html
    assert html == worst_as_html(record)


def test_tables_have_rows_and_names_cannot_inject() -> None:
    html = worst_as_html(residuals_record())
    assert "<tr><th>row 1</th><td>200,000</td><td>260,950</td><td>60,950</td></tr>" in html
    assert worst_note(residuals_record()).endswith("rows are counted from 1, without the header.")
    for pictures in (0, 1):
        record = mistakes_record([EVIL, "b", "c"], pictures=pictures)
        assert EVIL in (record.worst[0].true or "")
        assert "<script" not in worst_as_html(record)


def test_cards() -> None:
    titles = [card.title for card in cards({"mistakes": [mistakes_record(pictures=1)]})]
    assert titles == ["Which classes are confused", "How far its probabilities can be trusted", "The worst mistakes"]
    without = mistakes_record().model_copy(update={"worst": ()})
    assert [card.title for card in cards({"mistakes": [without]})] == titles[:2]
