"""The best settings as a study of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwaynet.base.errors import InputError
from highwaynet.search.configurations import check_runs, configurations
from highwaynet.search.drawing import draw, trial_seed
from highwaynet.search.finals import finals
from highwaynet.search.results import collect
from highwaynet.search.spec import StudySpec, parse_study
from highwaynet.search.trials import Trials

SPACE: dict[str, Any] = {
    "training.learning_rate": {"kind": "log-uniform", "low": 0.01, "high": 0.5},
    "network.activation": {"kind": "choice", "choices": ["tanh", "relu"]},
    "network.gate_bias": {"kind": "uniform", "low": -4, "high": -1, "when": {"network.name": "fc-highway"}},
}
AXES = {"network.name": ["fc-highway", "fc-plain"]}


def test_the_best_settings_are_run_longer(
    tiny: Callable[..., StudySpec], open_study: Callable[..., Trials], run_worker: Callable[..., None], tmp_path: Path
) -> None:
    trials = open_study(tiny(space=SPACE, axes=AXES, trials=3))
    run_worker(trials)
    result = collect(trials.spec, trials.storage)
    chosen = finals(trials.spec, result, top=2, epochs=3, name=None)
    assert parse_study(chosen.to_toml(), Path("finals.toml")) == chosen, "it can be written and read"
    assert (chosen.name, chosen.trials, chosen.sampler, chosen.run["training"]["epochs"]) == ("tiny-finals", 2, "given", 3)
    check_runs(chosen)
    for one, configuration in zip(result.configurations, configurations(chosen), strict=True):
        assert draw(chosen, configuration) == [trial.settings for trial in one.top[:2]], "the best first"
        before, now = ({trial_seed(spec, configuration, index) for index in range(3)} for spec in (trials.spec, chosen))
        assert not before & now, "other seeds: a lucky one does not count twice"
    longer = open_study(chosen, tmp_path / "longer")
    run_worker(longer)
    again = collect(chosen, longer.storage)
    assert [len(trial.curve) for one in again.configurations for trial in one.results] == [3] * 4
    assert [trial.settings for one in again.configurations for trial in one.results] == [
        trial.settings for one in result.configurations for trial in one.top[:2]
    ]
    with pytest.raises(InputError, match=r"--top 4: fc-\w+ has 3 trials that finished and did not diverge; ask for --top 3"):
        finals(trials.spec, result, top=4, epochs=None, name=None)
    with pytest.raises(InputError, match=r"--epochs 3: the study itself searches over training\.epochs"):
        finals(trials.spec.model_copy(update={"axes": {"training.epochs": (1, 2)}}), result, top=1, epochs=3, name=None)


GIVEN = {
    "fc-highway": [{"training.learning_rate": 0.1, "network.activation": "tanh", "network.gate_bias": -2.0}],
    "fc-plain": [{"training.learning_rate": 0.1, "network.activation": "tanh"}],
}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sampler": "random"}, "list settings in [[given.CONFIGURATION]] if it is 'given', and only then"),
        ({"given": {}}, "list settings in [[given.CONFIGURATION]] if it is 'given', and only then"),
        ({"given": GIVEN | {"fc-residual": []}}, "unknown configuration 'fc-residual'"),
        ({"given": {"fc-plain": GIVEN["fc-plain"]}}, "[[given.fc-highway]] has 0 settings, but trials = 1"),
        ({"given": GIVEN | {"fc-plain": GIVEN["fc-highway"]}}, "network.gate_bias is not a setting here"),
        ({"given": GIVEN | {"fc-highway": GIVEN["fc-plain"]}}, "network.gate_bias is missing"),
        ({"given": GIVEN | {"fc-plain": [GIVEN["fc-plain"][0] | {"training.learning_rate": 0.6}]}}, "learning_rate = 0.6 is outside"),
        (
            {"given": GIVEN | {"fc-plain": [GIVEN["fc-plain"][0] | {"network.activation": "sigmoid"}]}},
            "activation = 'sigmoid' is outside",
        ),
        ({"given": GIVEN | {"fc-plain": [GIVEN["fc-plain"][0] | {"training.learning_rate": True}]}}, "learning_rate = True is outside"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tiny: Callable[..., StudySpec], changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        tiny(**({"space": SPACE, "axes": AXES, "trials": 1, "sampler": "given", "given": GIVEN} | changes))
    assert sentence in str(caught.value)


def test_given_numbers_may_be_written_in_any_way(tiny: Callable[..., StudySpec], open_study: Callable[..., Trials]) -> None:
    space = {
        "training.momentum": {"kind": "choice", "choices": [0.0, 0.5]},
        "training.decay": {"kind": "uniform", "low": 0.1, "high": 1.0, "step": 0.3},
    }
    given = {"all": [{"training.momentum": 0, "training.decay": 1}, {"training.momentum": 0.5, "training.decay": 0.4}]}
    trials = open_study(tiny(space=space, trials=2, sampler="given", given=given))
    claim = trials.claim(trials.configurations[0], "worker")
    assert claim is not None
    assert claim.settings == {"training.momentum": 0.0, "training.decay": 1.0}
    given["all"][0]["training.decay"] = 0.5
    with pytest.raises(InputError, match=r"decay = 0.5 is outside of \[space\]"):
        tiny(space=space, trials=2, sampler="given", given=given)
