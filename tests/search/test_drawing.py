"""Settings follow from the study's seed, the configuration and the index alone."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from highwaynet.search.configurations import configurations
from highwaynet.search.drawing import draw, trial_seed
from highwaynet.search.spec import StudySpec

SPACE = {
    "training.learning_rate": {"kind": "log-uniform", "low": 1e-4, "high": 1.0},
    "training.momentum": {"kind": "uniform", "low": 0.0, "high": 0.9},
    "training.batch_size": {"kind": "integer", "low": 16, "high": 64, "step": 16},
    "network.activation": {"kind": "choice", "choices": ["tanh", "relu"]},
    "network.gate_bias": {"kind": "uniform", "low": -10, "high": -1, "when": {"network.name": "fc-highway"}},
}
AXES = {"network.name": ["fc-highway", "fc-plain"]}


@pytest.mark.parametrize("sampler", ["random", "sobol"])
def test_settings_are_spread_as_their_kinds_say(tiny: Callable[..., StudySpec], sampler: str) -> None:
    spec = tiny(sampler=sampler, trials=400, space=SPACE, axes=AXES, run={})
    highway, plain = configurations(spec)
    drawn = draw(spec, highway)
    assert drawn is not None
    slack = 40 if sampler == "random" else 4
    assert abs(sum(one["training.learning_rate"] < 1e-2 for one in drawn) - 200) <= slack, "half of it below the middle of the logarithm"
    assert abs(sum(one["training.momentum"] < 0.45 for one in drawn) - 200) <= slack
    sizes, words = Counter(one["training.batch_size"] for one in drawn), Counter(one["network.activation"] for one in drawn)
    assert sorted(sizes) == [16, 32, 48, 64]
    assert max(abs(count - 100) for count in sizes.values()) <= slack
    assert max(abs(count - 200) for count in words.values()) <= slack
    assert all(1e-4 <= one["training.learning_rate"] <= 1 and -10 <= one["network.gate_bias"] <= -1 for one in drawn)
    assert len({one["training.learning_rate"] for one in drawn}) == 400
    others = draw(spec, plain)
    assert others is not None
    assert all("network.gate_bias" not in one for one in others)
    assert others[0]["training.learning_rate"] != drawn[0]["training.learning_rate"], "each configuration has its own"


def test_another_field_or_more_trials_change_nothing_that_was_drawn(tiny: Callable[..., StudySpec]) -> None:
    long = tiny(trials=8, space=SPACE, axes=AXES, run={})
    short = tiny(trials=3, space={name: one for name, one in SPACE.items() if name != "training.momentum"}, axes=AXES, run={})
    configuration = configurations(long)[0]
    for one, other in zip(draw(long, configuration) or [], draw(short, configuration) or [], strict=False):
        assert {name: value for name, value in one.items() if name != "training.momentum"} == other
    assert draw(tiny(sampler="tpe"), configurations(tiny())[0]) is None


@pytest.mark.parametrize("sampler", ["random", "sobol"])
def test_another_process_draws_the_same(tiny: Callable[..., StudySpec], sampler: str) -> None:
    spec = tiny(sampler=sampler, space=SPACE, axes=AXES, run={})
    script = (
        "import sys; from pathlib import Path; from highwaynet.search.spec import parse_study; from highwaynet.search.drawing import *\n"
        "from highwaynet.search.configurations import configurations\n"
        "s = parse_study(sys.stdin.read(), Path('x')); c = configurations(s)[1]; print(repr((draw(s, c), trial_seed(s, c, 2))))"
    )
    found = subprocess.run([sys.executable, "-c", script], input=spec.to_toml(), capture_output=True, text=True, check=True).stdout
    configuration = configurations(spec)[1]
    assert found.strip() == repr((draw(spec, configuration), trial_seed(spec, configuration, 2)))


def test_places_become_values(tiny: Callable[..., StudySpec]) -> None:
    space = tiny(space=SPACE, axes=AXES, run={}).space
    assert [space["training.batch_size"].at(share) for share in (0.0, 0.24, 0.26, 0.99, 1.0)] == [16, 16, 32, 64, 64]
    assert math.isclose(space["training.learning_rate"].at(0.5), 0.01)
    assert [space["training.learning_rate"].at(share) for share in (0.0, 1.0)] == [1e-4, 1.0], "the ends are exact"
    assert [space["network.gate_bias"].at(share) for share in (0, 1)] == [-10.0, -1.0]
