"""What a study may say, and the sentences for what it may not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwaynet.base.errors import InputError
from highwaynet.search.configurations import anchored, check_runs, configurations, ends, parameters_of, spec_of_trial
from highwaynet.search.ready import ready_names, ready_study
from highwaynet.search.spec import StudySpec, parse_study

RATE = '[space."training.learning_rate"]\nkind = "log-uniform"\nlow = 0.01\nhigh = 1\n'


def refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        check_runs(parse_study(text, Path("study.toml")))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('name = "a"\n', "study.toml: space is missing"),
        ('name = "a"\n[space]\n', "study.toml: [space] is empty: name at least one field"),
        ('name = "a/b"\n' + RATE, "name = 'a/b': should"),
        ('name = "a"\ntrials = 0\n' + RATE, "trials = 0: should be greater than or equal to 1"),
        ('name = "a"\nsampler = "grid"\n' + RATE, "sampler = 'grid': should be 'random', 'tpe', 'sobol' or 'given'"),
        ('name = "a"\nprunner = "none"\n' + RATE, "unknown field 'prunner': did you mean 'pruner'?"),
        (
            'name = "a"\n[space]\n"training.learning_rte" = {kind="uniform", low=0, high=1}',
            "[space] training.learning_rte: unknown field of [training] 'learning_rte': did you mean 'learning_rate'?",
        ),
        ('name = "a"\n[space]\ntrainign.decay = {kind="uniform", low=0, high=1}', "unknown section 'trainign': did you mean 'training'?"),
        ('name = "a"\n[space]\nseed = {kind="integer", low=0, high=1}', "seed: the seed of a trial follows from that of the study"),
        ('name = "a"\n[run]\nseed = 3\n' + RATE, "[run] seed: the seed of a trial follows from that of the study"),
        ('name = "a"\n[space]\ntraining.decay = {kind="unifrom", low=0, high=1}', "unknown kind 'unifrom': did you mean 'uniform'?"),
        ('name = "a"\n[space]\ntraining.decay = 3', '[space."training.decay"] = 3: write kind = '),
        ('name = "a"\n[space]\ntraining.decay = {kind="uniform", low=1, high=1}', "low = 1 and high = 1: low must be below high"),
        ('name = "a"\n[space]\ntraining.decay = {kind="uniform", low=0.1}', "uniform needs low and high, and no choices"),
        ('name = "a"\n[space]\ntraining.decay = {kind="log-uniform", low=0, high=1}', "low = 0: log-uniform needs low above 0"),
        (
            'name = "a"\n[space]\ntraining.decay = {kind="uniform", low=0, high=inf}',
            "high = inf: should be a valid integer, or a finite number",
        ),
        ('name = "a"\n[space]\ntraining.decay = {kind="uniform", low="x", high=1}', "[space.\"training.decay\"] low = 'x': should be"),
        ('name = "a"\n[space]\nnetwork.depth = {kind="integer", low=1, high=2.5}', "integer needs whole numbers"),
        (
            'name = "a"\n[space]\nnetwork.depth = {kind="integer", low=1, high=5, step=9}',
            "step = 9: only uniform and integer may have a step",
        ),
        ('name = "a"\n[space]\nnetwork.activation = {kind="choice", choices=[]}', "choices = []: give at least one value"),
        ('name = "a"\n[space]\nnetwork.activation = {kind="choice"}', "a choice needs choices = [...]"),
        ('name = "a"\n[space]\nnetwork.activation = {kind="choice", choices=["relu", "relu"]}', "'relu' is listed twice"),
        ('name = "a"\n[space]\nnetwork.activation = {kind="choice", choices=["relu", "rlu"]}', "network.activation = 'rlu': should be"),
        ('name = "a"\n[axes]\nnetwork.depth = []\n' + RATE, "[axes] network.depth = []: give at least one value"),
        ('name = "a"\n[axes]\nnetwork.depht = [1]\n' + RATE, "unknown field of [network] 'depht': did you mean 'depth'?"),
        ('name = "a"\n[axes]\nnetwork.depth = 5\n' + RATE, "axes"),
        ('name = "a"\n[axes]\ntraining.learning_rate = [0.1]\n' + RATE, "training.learning_rate is an axis and in [space]"),
        (
            'name = "a"\n[run.training]\nlearning_rate = 0.1\n' + RATE,
            "training.learning_rate is in [run] and also in [axes] or [space]",
        ),
        ('name = "a"\n[run.network]\ndepth = 0\n' + RATE, "configuration all: network.depth = 0: should be greater"),
        ('name = "a"\n[run]\nnetwork = 3\n' + RATE, "network = 3: should be a section"),
        ('name = "a"\n[axes]\nnetwork.depth = [3, 0]\n' + RATE, "configuration depth0: network.depth = 0"),
        (
            'name = "a"\n[space]\ntraining.momentum = {kind="uniform", low=0, high=1}',
            "configuration all: training.momentum = 1.0: should be less than 1",
        ),
        (
            'name = "a"\n[axes]\nnetwork.name = ["fc-highway", "fc-plain"]\n[space]\nnetwork.gate_bias = {kind="uniform", low=-4, high=-1}',
            "configuration fc-plain: network.gate_bias = -4.0: fc-plain has no gates",
        ),
        (RATE.replace("high = 1", 'high = 1\nwhen = {"network.name" = "fc-plain"}') + "\n[dummy]\n", "unknown field"),
        (
            'name = "a"\n' + RATE + 'when = {"network.name" = "fc-plain"}',
            "when network.name = 'fc-plain': a condition must name an axis or a choice of the study: there is none",
        ),
        (
            'name = "a"\n[axes]\nnetwork.name = ["fc-highway"]\n' + RATE + 'when = {"network.name" = "fc-plain"}',
            "network.name never has this value; choose from fc-highway",
        ),
        (
            'name = "a"\n[space]\nnetwork.activation = {kind="choice", choices=["relu"], when={network.init="he"}}\n'
            'network.init = {kind="choice", choices=["he"], when={network.activation="relu"}}',
            "its conditions are circular",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(text: str, sentence: str) -> None:
    refused(text, sentence)


@pytest.mark.parametrize("name", ready_names())
def test_every_built_in_study_can_be_run(name: str) -> None:
    spec = ready_study(name)
    assert spec.name == name
    assert all(runs for _, runs in check_runs(spec))


def test_the_paper_s_study_is_that_of_the_paper() -> None:
    spec = ready_study("paper-mnist")
    assert (spec.trials, spec.sampler, spec.pruner, spec.objective) == (100, "random", "none", "train-loss")
    checked = check_runs(spec)
    assert [configuration.label for configuration, _ in checked] == [
        f"{name}-depth{depth}" for name in ("fc-highway", "fc-plain") for depth in (10, 20, 50, 100)
    ]
    for configuration, runs in checked:
        for run in runs:
            assert run.network.width == (50 if configuration.values["network.name"] == "fc-highway" else 71)
            assert (run.training.epochs, run.training.batch_size, run.training.schedule, run.training.threads) == (5, 128, "exponential", 1)
            assert run.network.init == ("he" if run.network.activation == "relu" else "glorot-uniform")
        assert ("network.gate_bias" in parameters_of(spec, configuration)) == configuration.label.startswith("fc-highway")
    assert {run.network.gate_bias for run in checked[0][1]} == {-10.0, -1.0}


def test_dotted_names_can_be_written_as_tables() -> None:
    quoted = 'name = "a"\n[axes]\n"network.depth" = [3]\n[space."training.decay"]\nkind = "uniform"\nlow = 0.1\nhigh = 1\n'
    tables = 'name = "a"\n[axes.network]\ndepth = [3]\n[space.training.decay]\nkind = "uniform"\nlow = 0.1\nhigh = 1\n'
    assert parse_study(quoted, Path("a")) == parse_study(tables, Path("b"))
    assert parse_study(quoted, Path("a")).checksum == parse_study(tables, Path("b")).checksum
    assert parse_study(quoted.replace("= [3]", "= [4]"), Path("a")).checksum != parse_study(quoted, Path("a")).checksum


def test_a_study_written_as_toml_is_the_same_study(tiny: Callable[..., StudySpec]) -> None:
    spec = tiny(
        axes={"network.depth": [3, 4]},
        space={
            "network.dropout": {"kind": "choice", "choices": [[0.0, 0.1], [0.2, 0.2]]},
            "training.batch_size": {"kind": "integer", "low": 16, "high": 64, "step": 16, "when": {"network.depth": [3]}},
        },
        run={"training": {"epochs": 1}},
    )
    assert parse_study(spec.to_toml(), Path("again")) == spec


def test_conditions_follow_axes_and_choices(tiny: Callable[..., StudySpec]) -> None:
    space: dict[str, Any] = {
        "network.init_std": {"kind": "uniform", "low": 0.01, "high": 0.1, "when": {"network.init": "normal"}},
        "network.init": {"kind": "choice", "choices": ["he", "normal"], "when": {"network.depth": 4}},
    }
    spec = tiny(axes={"network.depth": [3, 4]}, space=space, run={})
    shallow, deep = configurations(spec)
    assert list(parameters_of(spec, deep)) == ["network.init", "network.init_std"], "a field comes behind what it depends on"
    assert next(ends(spec, shallow)) == {}
    settings = list(ends(spec, deep))
    assert {"network.init": "he"} in settings
    assert {"network.init": "normal", "network.init_std": 0.1} in settings
    assert spec_of_trial(spec, deep, settings[1], 7).network.init_std == 0.1
    assert spec_of_trial(spec, deep, settings[1], 7).seed == 7


def test_labels_are_names_of_folders_and_unique(tiny: Callable[..., StudySpec]) -> None:
    axes = {"network.dropout": [[0.0, 0.1], [0.0, 0.2]], "network.activation": ["tanh", "relu"], "network.width": [4]}
    spec = tiny(axes=axes, run={"network": {"depth": 3}})
    labels = [configuration.label for configuration in configurations(spec)]
    assert labels[0] == "dropout-0.0-0.1-tanh-width4"
    assert len(set(labels)) == 4


def test_paths_mean_the_same_wherever_somebody_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("own.csv", "parent", "memory", "digits"):
        Path(name).touch()
    space = {"training.learning_rate": {"kind": "uniform", "low": 0.1, "high": 1.0}}
    run = {"data": {"name": "own.csv"}, "start": {"run": "parent"}}
    assert anchored(StudySpec(name="x", trials=1, space=space, run=run)).run == {
        "data": {"name": str(tmp_path / "own.csv")},
        "start": {"run": str(tmp_path / "parent")},
    }
    for name in ("memory", "digits"):  # names of data, even if there are such files
        assert anchored(StudySpec(name="x", trials=1, space=space, run={"data": {"name": name}})).run["data"]["name"] == name
