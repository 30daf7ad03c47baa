"""How verdicts come about, and that all claims can be planned."""

import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest

from highwaynet.experiments.claims import (
    SCALES,
    Claim,
    Outcome,
    Run,
    Scale,
    Verdict,
    decided,
    most,
    overall,
    ratio,
    spread,
    times,
    with_seeds,
)
from highwaynet.experiments.keys import key_of
from highwaynet.experiments.registry import CLAIMS
from highwaynet.experiments.report_2016 import CHOSEN, places
from highwaynet.experiments.specs import FIRST_SEED, runs_of_study
from highwaynet.networks.description import describe
from highwaynet.runs.spec import parse_spec, parse_toml, spec_from_values
from highwaynet.search.ready import ready_study

ROOT = Path(__file__).parents[2]

USED = {"race-maxout": 3, "fitnets": 3}
"""Seeds of a claim's earlier plan, with other settings."""


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (["reproduced"], "reproduced"),
        (["reproduced", "reproduced"], "reproduced"),
        (["reproduced", "differs"], "1 of 2 reproduced"),
        (["reproduced", "not run", "not reached"], "1 of 3 reproduced"),
        (["differs", "not run"], "0 of 2 reproduced"),
        (["differs", "differs"], "differs"),
        (["not reached"], "not reached"),
        (["not run", "not run"], "not run"),
        (["not judged", "not judged"], "not judged"),
    ],
)
def test_the_verdict_on_a_claim(parts: list[Verdict], whole: str) -> None:
    assert overall(parts) == whole
    assert overall(parts[::-1]) == whole


def test_a_rule_is_yes_or_no() -> None:
    assert decided(True, "x", 2) == Outcome("reproduced", "x", 2)
    assert decided(False, "x", 2) == Outcome("differs", "x", 2)
    assert decided(False, "x", 1, small_budget=True).verdict == "not reached"
    assert decided(True, "x", 1, small_budget=True).verdict == "reproduced"


def test_more_than_half_of_the_seeds() -> None:
    assert [most([True] * count + [False] * (4 - count)) for count in range(5)] == [False, False, False, True, True]
    assert most([True])
    assert not most([])
    assert with_seeds([True, False, False]) == "with 1 of 3 seeds: "


def test_numbers_over_seeds() -> None:
    assert spread([0.5, 0.25, 1.0], "{:.2f}".format) == "0.50 (0.25 to 1.00)"
    assert spread([0.5, 0.5], "{:.2f}".format) == "0.50"
    assert spread([math.inf, 1.0, 2.0], "{:g}".format) == "2 (1 to inf)"


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
        "carry",
        "thousand",
        "initialisation",
        "table1",
        "table2",
        "thin-maxout",
        "fitnets",
        "race-maxout",
        "race-dense",
        "table3",
        "fig2",
        "fig3",
        "fig4",
        "needed-depth",
        "supervision",
        "report2016",
        "shallow",
        "rmsprop",
        "report2021",
    ]
    assert all(name == claim.name for name, claim in CLAIMS.items())
    assert "list" not in CLAIMS, "that is a word of the command"


WITHOUT_SMOKE = {"table3", "thin-maxout", "fitnets", "race-maxout"}
"""Claims whose networks are too large for digits."""


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.name)
def test_every_claim_can_be_planned_at_every_scale(claim: Claim, scale: Scale) -> None:
    assert claim.notes[scale], "what differs from the paper is said"
    runs = claim.plan(scale, None)
    assert bool(runs) == (scale != "smoke" or claim.name not in WITHOUT_SMOKE)
    labels = [run.label for run in runs]
    assert len(set(labels)) == len(labels)
    assert all(re.fullmatch(r"[a-z0-9.-]+", label) for label in labels), "they become names of folders"
    for run in runs[:50]:
        assert run.spec.training.threads == 1
        assert spec_from_values(parse_spec(run.spec.to_toml(), Path("the run"))) == run.spec, "what the worker reads is what was planned"
    data = {run.spec.data.name for run in runs}
    assert (data <= {"digits"}) if scale == "smoke" else data <= {"mnist", "cifar-10", "cifar-100"}
    assert len({rule.name for rule in claim.rules}) == len(claim.rules)
    assert all(rule.text and rule.paper for rule in claim.rules)


def without_seed(run: Run) -> str:
    return key_of(run.spec.model_copy(update={"seed": 0}))


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.name)
def test_every_claim_takes_any_number_of_seeds(claim: Claim, scale: Scale) -> None:
    one, three = (claim.plan(scale, seeds) for seeds in (1, 3))
    teachers = sum(run.label.startswith("teacher-") for run in one)  # a teacher has one seed
    assert len(three) - teachers == 3 * (len(one) - teachers)
    assert {run.label: run.spec for run in one}.items() <= {run.label: run.spec for run in three}.items() or not one
    first = 1 if scale == "smoke" else FIRST_SEED + USED.get(claim.name, 0)
    assert {int(run.label.rpartition("-")[2]) for run in three} <= set(range(first, first + 3)), "labels end in the seed"
    assert {without_seed(run) for run in one} == {without_seed(run) for run in three}, "seeds change nothing but the seed"
    assert len({key_of(run.spec) for run in three}) == len(three)


@pytest.mark.parametrize("scale", ["laptop", "paper"])
@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in {"fig1", "convergence", "shallow"}])
def test_seeds_were_not_used_before(name: str, scale: Scale) -> None:
    runs = CLAIMS[name].plan(scale, None)
    assert {run.spec.seed for run in runs} == {int(run.label.rpartition("-")[2]) for run in runs}
    assert FIRST_SEED == 101
    assert min(run.spec.seed for run in runs) == FIRST_SEED + USED.get(name, 0)


def test_the_runs_of_figure_1_have_other_seeds_than_the_studies() -> None:
    runs = {run.label: run.spec for run in CLAIMS["fig1"].plan("laptop", 2)}
    for word, study, first in (("left", "paper-mnist-best", 0), ("right", "paper-mnist-finals", 0), ("right", "paper-mnist-more", 10)):
        for run in runs_of_study(ready_study(study)):
            network, _, rank = run.label.rpartition("-")
            label = f"{word}-{network}-{int(rank) + first}"
            for seed in (101, 102):
                assert runs.pop(f"{label}-{seed}") == run.spec.model_copy(update={"seed": (run.spec.seed + seed) % 2**63})
    assert not runs
    old = {key_of(run.spec) for name in ("paper-mnist", "paper-mnist-finals") for run in runs_of_study(ready_study(name))}
    assert not old & {key_of(run.spec) for run in CLAIMS["fig1"].plan("paper", None)}


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("fig1", {1}),
        ("convergence", {1}),
        ("thousand", {3}),
        ("initialisation", {3}),
        ("table1", {5, 1}),
        ("table2", {3, 1}),
        ("table3", {1}),
        ("fig2", {5, 2}),
        ("report2016", {3, 1}),
        ("report2021", {3}),
        ("carry", {3}),
        ("rmsprop", {3}),
        ("supervision", {3}),
        ("shallow", {1}),
    ],
)
def test_usual_numbers_of_seeds(name: str, counts: set[int]) -> None:
    runs = Counter(map(without_seed, CLAIMS[name].plan("laptop", None)))
    assert set(runs.values()) == counts


def test_claims_about_the_finalists_share_the_runs_of_figure_1() -> None:
    fig1 = {run.label: run.spec for run in CLAIMS["fig1"].plan("laptop", None)}
    for name, count in (("convergence", 80), ("shallow", 20)):
        runs = CLAIMS[name].plan("laptop", None)
        assert len(runs) == count
        assert all(fig1[run.label] == run.spec for run in runs)


def test_figures_2_to_4_ask_the_same_runs() -> None:
    for scale in SCALES:
        specs = [[run.spec for run in CLAIMS[name].plan(scale, None)] for name in ("fig2", "fig3", "fig4")]
        assert specs[0] == specs[1] == specs[2]


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_the_report_s_networks_have_the_parameters_it_gives(scale: Scale) -> None:
    runs = {run.label: run.spec for run in CLAIMS["report2016"].plan(scale, 1)}
    assert {label: describe(spec.network, (3, 32, 32), 10).parameters for label, spec in runs.items()} == {
        "highway-a-101": 222_378,
        "highway-b-101": 2_256_838,
        "resnet-20-101": 269_034,
        "resnet-32-101": 463_018,
        "resnet-44-101": 657_002,
    }
    assert len({(spec.training.recipe, spec.training.epochs, spec.training.batch_size) for spec in runs.values()}) == 1, "one recipe"


def test_the_grid_of_the_2016_report_has_the_networks_of_the_claim() -> None:
    runs = list(runs_of_study(ready_study("report2016-grid")))
    assert len(runs) == 20
    grid = {(run.spec.network.name, run.spec.training.learning_rate, run.spec.network.dropout) for run in runs}
    rates, dropouts = (0.03, 0.08), (0.0, 0.2)
    assert grid == {(name, rate, tuple(places(name, dropout))) for name in CHOSEN for rate in rates for dropout in dropouts}
    assert {(run.spec.training.epochs, run.spec.data.validation) for run in runs} == {(5, 0.1)}
    claim = {run.spec.network.name: run.spec for run in CLAIMS["report2016"].plan("laptop", 1)}
    for run in runs:
        same = {"dropout": claim[run.spec.network.name].network.dropout}
        assert run.spec.network.model_copy(update=same) == claim[run.spec.network.name].network


@pytest.mark.parametrize(("study", "source", "count"), [("paper-mnist-finals", "study", 10), ("paper-mnist-best", "finals", 2)])
def test_the_settings_of_figure_1_are_the_best_ones_of_the_recorded_study(study: str, source: str, count: int) -> None:
    record = json.loads((ROOT / "results" / "paper-mnist" / f"{source}.json").read_text())
    best = {one["label"]: [trial["settings"] for trial in one["top"][:count]] for one in record["configurations"]}
    assert {label: list(settings) for label, settings in ready_study(study).given.items()} == best


def test_the_further_settings_of_figure_1_are_those_behind_the_ten_best() -> None:
    record = json.loads((ROOT / "results" / "paper-mnist" / "study.json").read_text())
    study = ready_study("paper-mnist-more")
    for one in record["configurations"]:
        done = sorted((trial for trial in one["results"] if trial["state"] == "done"), key=lambda trial: trial["value"])
        assert [trial["settings"] for trial in done[:10]] == [trial["settings"] for trial in one["top"]]
        assert list(study.given[one["label"]]) == [trial["settings"] for trial in done[10:15]]
    finals = ready_study("paper-mnist-finals")
    assert (study.trials, study.run, study.axes, study.space) == (5, finals.run, finals.axes, finals.space)
    assert study.seed != finals.seed


def test_the_authors_settings_are_those_that_the_2016_report_shows() -> None:
    text = (ROOT / "examples" / "authors-settings.toml").read_text()
    spec = spec_from_values(parse_toml(text, None))
    assert (spec.network.activation, spec.network.gate_bias) == ("relu", -2.0)
    assert (spec.training.batch_size, spec.training.learning_rate, spec.training.momentum) == (16, 0.158693, 0.25583)
    assert spec.training.decay == pytest.approx(0.987334**spec.training.epochs, rel=1e-2)
    assert text.count("# guess") == 4
