"""How verdicts come about, and that all claims can be planned."""

import json
import math
import re
from pathlib import Path

import pytest

from highwaynet.experiments.claims import SCALES, Claim, Scale, Verdict, at_least, at_most, counted, overall, ratio, times
from highwaynet.experiments.registry import CLAIMS
from highwaynet.networks.description import describe
from highwaynet.runs.spec import parse_toml, spec_from_values
from highwaynet.search.ready import ready_study

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (["reproduced"], "reproduced"),
        (["reproduced", "reproduced"], "reproduced"),
        (["reproduced", "partly"], "partly"),
        (["reproduced", "not reproduced"], "partly"),
        (["reproduced", "not run"], "partly"),
        (["partly", "not reproduced"], "partly"),
        (["not reproduced", "not reproduced"], "not reproduced"),
        (["not reproduced", "not run"], "not reproduced"),
        (["not run", "not run"], "not run"),
    ],
)
def test_the_verdict_on_a_claim(parts: list[Verdict], whole: Verdict) -> None:
    assert overall(parts) == whole
    assert overall(parts[::-1]) == whole


def test_thresholds_belong_to_the_better_side() -> None:
    assert [at_least(value, 10, 5) for value in (11, 10, 9.9, 5, 4.9, math.nan)] == [
        "reproduced",
        "reproduced",
        "partly",
        "partly",
        "not reproduced",
        "not reproduced",
    ]
    assert [at_most(value, 5, 10) for value in (5, 5.1, 10, 10.1, math.inf, math.nan)] == [
        "reproduced",
        "partly",
        "partly",
        "not reproduced",
        "not reproduced",
        "not reproduced",
    ]


def test_counting() -> None:
    assert counted([True] * 4) == "reproduced"
    assert [counted([True] * count + [False] * (4 - count), partly=2) for count in (3, 2, 1, 0)] == [
        "partly",
        "partly",
        "not reproduced",
        "not reproduced",
    ]
    assert counted([]) == "not run", "nothing that could fail"


def test_ratios_of_losses_that_are_none_or_infinite() -> None:
    assert ratio(3, 2) == 1.5
    assert ratio(math.inf, 2) == math.inf
    assert ratio(2, math.inf) == 0
    assert math.isnan(ratio(math.inf, math.inf))
    assert ratio(1, 0) == math.inf
    assert ratio(0, 0) == 1
    assert [times(value) for value in (0.123, 9.96, 10, 12345.6)] == ["0.1 times", "10.0 times", "10 times", "12,346 times"]


def test_names_are_those_that_people_type() -> None:
    assert list(CLAIMS) == [
        "fig1",
        "convergence",
        "thousand",
        "initialisation",
        "table1",
        "table2",
        "table3",
        "fig2",
        "fig3",
        "fig4",
        "report2016",
        "report2021",
    ]
    assert all(name == claim.name for name, claim in CLAIMS.items())
    assert "list" not in CLAIMS, "that is a word of the command"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.name)
def test_every_claim_can_be_planned_at_every_scale(claim: Claim, scale: Scale) -> None:
    assert claim.notes[scale], "what differs from the paper is said"
    runs = claim.plan(scale, None)
    assert bool(runs) == ((claim.name, scale) not in {("table3", "smoke"), ("table3", "laptop")})
    labels = [run.label for run in runs]
    assert len(set(labels)) == len(labels)
    assert all(re.fullmatch(r"[a-z0-9.-]+", label) for label in labels), "they become names of folders"
    for run in runs[:50]:
        assert run.spec.training.threads == 1
        assert spec_from_values(parse_toml(run.spec.to_toml(), None)) == run.spec, "what the worker reads is what was planned"
    data = {run.spec.data.name for run in runs}
    assert (data <= {"digits"}) if scale == "smoke" else data <= {"mnist", "cifar-10", "cifar-100"}
    assert len({rule.name for rule in claim.rules}) == len(claim.rules)
    assert all(rule.text and rule.paper for rule in claim.rules)


def test_seeds_change_nothing_but_the_seed() -> None:
    one, three = (CLAIMS["table1"].plan("smoke", seeds) for seeds in (1, 3))
    assert [run.label for run in one] == ["w16-1", "w32-1"]
    assert [run.label for run in three[:3]] == ["w16-1", "w16-2", "w16-3"]
    assert three[0] == one[0]
    assert [run.spec.seed for run in three[:3]] == [1, 2, 3]
    assert len({run.spec.model_copy(update={"seed": 1}).to_toml() for run in three[:3]}) == 1


def test_figures_2_to_4_ask_the_same_runs() -> None:
    for scale in SCALES:
        specs = [[run.spec for run in CLAIMS[name].plan(scale, None)] for name in ("fig2", "fig3", "fig4")]
        assert specs[0] == specs[1] == specs[2]


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_the_report_s_networks_have_the_parameters_it_gives(scale: Scale) -> None:
    runs = {run.label: run.spec for run in CLAIMS["report2016"].plan(scale, 1)}
    assert {label: describe(spec.network, (3, 32, 32), 10).parameters for label, spec in runs.items()} == {
        "highway-a-1": 222_378,
        "resnet-20-1": 269_034,
    }


@pytest.mark.parametrize(("study", "source", "count"), [("paper-mnist-finals", "study", 10), ("paper-mnist-best", "finals", 2)])
def test_the_settings_of_figure_1_are_the_best_ones_of_the_recorded_study(study: str, source: str, count: int) -> None:
    record = json.loads((ROOT / "results" / "paper-mnist" / f"{source}.json").read_text())
    best = {one["label"]: [trial["settings"] for trial in one["top"][:count]] for one in record["configurations"]}
    assert {label: list(settings) for label, settings in ready_study(study).given.items()} == best
