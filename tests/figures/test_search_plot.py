"""Pictures of studies, on records made by hand."""

import itertools
import math
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from highwaynet.figures.captions import with_caption
from highwaynet.figures.search_plot import draw_study
from highwaynet.figures.settings_plot import APART, DIVERGED
from highwaynet.search.results import ConfigurationResult, StudyResult, TrialResult, collect
from highwaynet.search.spec import StudySpec

AXES = {"network.name": "fc-highway"}
CHOICES: dict[str, tuple[Any, ...]] = {
    "training.momentum": (0.0, 0.5, 0.9, 0.95),
    "training.optimiser": ("sgd", "an-endless-name-of-one"),
    "training.nesterov": (False, True),
}


def trial(index: int, value: float | None, state: Literal["done", "pruned", "diverged"] = "done", **settings: Any) -> TrialResult:
    known = {f"training.{name}": setting for name, setting in settings.items()}
    return TrialResult(index=index, state=state, value=value, train_loss=value, settings=known, epochs=2, seconds=1.0, curve=(2.0, value))


def configuration(trials: list[TrialResult], label: str = "fc-highway", axes: dict[str, Any] = AXES, top: int = 10) -> ConfigurationResult:
    done = tuple(sorted((one for one in trials if one.state == "done"), key=lambda one: one.value or 0.0))[:top]
    return ConfigurationResult(
        label=label, axes=axes, trials=30, done=len(trials), pruned=0, diverged=0, failed={}, trained_share=None, top=done,
        top_mean=None, top_std=None, importance=None, results=tuple(trials),
    )  # fmt: skip


def study(*configurations: ConfigurationResult, objective: Any = "train-loss") -> StudyResult:
    return StudyResult(
        name="mine", objective=objective, sampler="random", pruner="none", log_scaled=("training.learning_rate",), choices=CHOICES,
        configurations=configurations,
    )  # fmt: skip


TRIALS = [
    trial(0, 0.1, learning_rate=0.01, optimiser="sgd", momentum=0.9, epochs=3),
    trial(1, 1.0, learning_rate=1.0, optimiser="an-endless-name-of-one", epochs=9),
    trial(2, 0.4, "pruned", learning_rate=0.1, optimiser="sgd", momentum=0.5, epochs=4),
    trial(3, None, "diverged", learning_rate=0.1, optimiser="sgd", momentum=0.0, epochs=4),
]


def settings_of(trials: list[TrialResult], objective: Any = "train-loss") -> Figure:
    return draw_study(study(configuration(trials), objective=objective))["settings-fc-highway"][0]


def lines_of(figure: Figure) -> dict[int, Any]:
    """The lines of trials, in the order of drawing."""
    lines = [line for line in figure.axes[0].lines if line.get_color() != "#555555"]
    return dict(enumerate(lines))


def labels_of(figure: Figure, axis: int) -> dict[str, float]:
    notes = [text for text in figure.axes[0].texts if isinstance(text, Annotation) and text.xy[0] == axis]
    return {note.get_text(): pytest.approx(note.xy[1]) for note in notes}


def test_every_line_goes_through_all_axes() -> None:
    figure = settings_of(TRIALS)
    lines = lines_of(figure)
    assert len(lines) == 4
    heights = [line.get_ydata().tolist() for line in lines.values()]
    assert all(len(height) == 5 and all(map(math.isfinite, height)) for height in heights)
    # Diverged first, then from the worst to the best; fields are learning rate, optimiser, momentum, epochs.
    assert heights[0] == pytest.approx([0.5, 0, 0, 1 / 6, 1 + APART])
    assert heights[1] == pytest.approx([1, 1, -APART, 1, 1])
    assert heights[2] == pytest.approx([0.5, 0, 1 / 3, 1 / 6, math.log10(4)])
    assert heights[3] == pytest.approx([0, 0, 2 / 3, 0, 0])


def test_what_diverged_lies_beyond_the_worst_end() -> None:
    lines = lines_of(settings_of(TRIALS, "validation-accuracy"))
    assert lines[0].get_ydata()[-1] == -APART
    assert lines[3].get_ydata()[-1] == 1, "the highest is best and drawn last"


def test_choices_are_labelled_as_they_are() -> None:
    figure = settings_of(TRIALS)
    assert labels_of(figure, 0) == {"0.01": 0, "0.1": 0.5, "1": 1}
    assert labels_of(figure, 1) == {"sgd": 0, "an-endless-n…": 1}
    assert labels_of(figure, 2) == {"0": 0, "0.5": 1 / 3, "0.9": 2 / 3, "0.95": 1, "–": -APART}
    assert labels_of(figure, 3) == {"3": 0, "6": 0.5, "9": 1}, "whole numbers"
    assert labels_of(figure, 4) == {"0.1": 0, "0.32": 0.5, "1": 1, "diverged": 1 + APART}


def test_choices_are_collected() -> None:
    space = {
        "training.momentum": {"kind": "choice", "choices": [0.0, 0.5]},
        "training.learning_rate": {"kind": "log-uniform", "low": 0.1, "high": 1.0},
    }
    empty: Any = SimpleNamespace(get_all_studies=list)
    result = collect(StudySpec.model_validate({"name": "a", "space": space}), empty)
    assert result.choices == {"training.momentum": (0.0, 0.5)}
    assert result.log_scaled == ("training.learning_rate",)
    assert StudyResult.model_validate_json(result.model_dump_json()) == result


def test_truths_and_single_values() -> None:
    figure = settings_of([trial(0, 0.5, nesterov=True, decay=0.1, depth=3), trial(1, 0.25, nesterov=False, decay=0.1, depth=3)])
    assert labels_of(figure, 0) == {"False": 0, "True": 1}
    assert labels_of(figure, 1) == {"0.1": 0.5}
    assert labels_of(figure, 2) == {"3": 0.5}
    assert "–" not in [text.get_text() for text in figure.axes[0].texts]


def test_labels_stand_on_white_above_the_lines() -> None:
    axes = settings_of(TRIALS).axes[0]
    highest = max(line.get_zorder() for line in axes.lines)
    for text in axes.texts:
        box = text.get_bbox_patch()
        assert box is not None
        assert box.get_facecolor()[:3] == (1, 1, 1)
        assert text.get_zorder() > highest


def test_states_and_ranks_are_told_apart() -> None:
    figure = settings_of(TRIALS)
    diverged, worst, pruned, best = lines_of(figure).values()
    assert to_rgba(diverged.get_color()) == to_rgba(DIVERGED)
    assert [line.is_dashed() for line in (diverged, worst, pruned, best)] == [False, False, True, False]
    light, middle, dark = (np.mean(line.get_color()[:3]) for line in (worst, pruned, best))
    assert light > middle > dark
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["worst … best", "pruned", "diverged"]
    plain = settings_of(TRIALS[:2])
    assert [text.get_text() for text in plain.legends[0].get_texts()] == ["worst … best"]


@pytest.mark.parametrize("objective", ["train-loss", "validation-accuracy"])
@pytest.mark.parametrize("trials", [TRIALS, TRIALS[:2], TRIALS[:1]])
def test_nothing_overlaps(trials: list[TrialResult], objective: str) -> None:
    figure, text = draw_study(study(configuration(trials), objective=objective))["settings-fc-highway"]
    page = with_caption(figure, text)
    canvas = FigureCanvasAgg(page)
    canvas.draw()
    renderer: Any = canvas.get_renderer()
    axes = page.axes[0]
    parts = [*axes.texts, *axes.get_xticklabels(), axes.title, page.legends[0], *page.texts]
    assert text in [part.get_text().replace("\n", " ") for part in page.texts], "the caption is among them"
    boxes = [part.get_window_extent(renderer).padded(-1) for part in parts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    ink, (width, height) = page.get_tightbbox(renderer), page.get_size_inches()
    assert min(ink.x0, ink.y0, width - ink.x1, height - ink.y1) > -0.02, "all ink is on the paper"


def test_captions_count() -> None:
    one = study(configuration(TRIALS[:2], "all", {}))
    texts = {name: text for name, (_, text) in draw_study(one).items()}
    assert texts == {
        "best": "Study mine, 1 configuration of 30 settings: left the best run, right the mean of its 2 best.",
        "curves-all": "Study mine: the 2 best of 30 settings, and their mean.",
        "settings-all": "Study mine: 2 settings; the best are drawn last; –: a setting that a trial does not have.",
    }
    two = study(configuration(TRIALS[:2]), configuration(TRIALS[:1], "fc-plain", {"network.name": "fc-plain"}))
    figures = draw_study(two)
    assert figures["best"][1].endswith("2 configurations of 30 settings: left the best run of each, right the mean of up to 2 best.")
    assert figures["best"][0].axes[1].get_title() == "mean of up to 2 best"
    assert figures["curves-fc-plain"][1] == "Study mine, fc-plain: the best of 30 settings."
    assert figures["settings-fc-plain"][1] == "Study mine, fc-plain: 1 setting; the best are drawn last."


def test_a_study_without_axes_is_called_by_its_name() -> None:
    figures = draw_study(study(configuration(TRIALS, "all", {})))
    assert [text.get_text() for text in figures["best"][0].legends[0].get_texts()] == ["mine"]
    assert figures["best"][0].axes[1].get_title() == "mean of the 2 best"
    assert figures["curves-all"][0].axes[0].get_title() == figures["settings-all"][0].axes[0].get_title() == "mine"
    assert draw_study(study(configuration(TRIALS)))["curves-fc-highway"][0].axes[0].get_title() == "fc-highway"
