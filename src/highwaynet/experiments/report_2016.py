"""The 2016 report's table: highway and residual networks on CIFAR-10."""

from typing import TYPE_CHECKING, Any

from highwaynet.experiments.claims import NOT_RUN, Outcome, Rule, Scale, decided
from highwaynet.experiments.tables import SMOKE, Entry, table

if TYPE_CHECKING:
    from highwaynet.experiments.evidence import Evidence

# Learning rate and dropout of each network, to be chosen from one grid (0.03, 0.08; 0, 0.2) on validation data by the ready study
# report2016-grid. The study has NOT been run yet: until then all networks have the same values.
CHOSEN: dict[str, tuple[float, float]] = {
    "highway-a": (0.03, 0.0),
    "highway-b": (0.03, 0.0),
    "resnet-20": (0.03, 0.0),
    "resnet-32": (0.03, 0.0),
    "resnet-44": (0.03, 0.0),
}
GRID_NOTE = "The grid for learning rate and dropout (study report2016-grid) has not been run: all networks have 0.03 and no dropout."


def places(network: str, dropout: float) -> list[float]:
    """Dropout behind the first two stages, where all these networks pool."""
    return [dropout] * 2 if network.startswith("resnet") else [0.0, dropout, dropout, 0.0]


def _entry(name: str, title: str, paper: float | None, reported: str) -> Entry:
    rate, dropout = CHOSEN[name]
    own: dict[str, Any] = {"variant": "2016"} if name.startswith("resnet") else {"head": "gap"}
    training = {"recipe": "quick", "learning_rate": rate}
    plans: dict[Scale, tuple[int, dict[str, Any]]] = {
        "laptop": (1 if name == "highway-b" else 3, training | {"epochs": 30}),
        "paper": (5, training | {"epochs": 200}),
    }
    if name in {"highway-a", "resnet-20"}:
        plans["smoke"] = (1, SMOKE)
    network = {"name": name, "dropout": places(name, dropout)} | own
    return Entry(name, title, network, "cifar-10", paper, reported, plans, judged=paper is not None)


HIGHWAY_1 = _entry("highway-a", "Highway A, 11 layers", 85.49, "85.49")
RESNET_20 = _entry("resnet-20", "ResNet-20", 85.50, "85.50")
ENTRIES = (
    HIGHWAY_1,
    _entry("highway-b", "Highway B, 19 layers", 85.34, "85.34"),
    RESNET_20,
    _entry("resnet-32", "ResNet-32", 83.87, "83.87"),
    _entry("resnet-44", "ResNet-44", None, "still running"),
)


def _alike(evidence: "Evidence") -> Outcome:
    both = (HIGHWAY_1, RESNET_20)
    if not all(evidence.labelled(entry.label) for entry in both):
        return NOT_RUN
    seeds = min(evidence.seeds_of(evidence.labelled(entry.label)) for entry in both)
    if not all(entry.accuracies(evidence) for entry in both):
        return decided(False, f"Highway A {HIGHWAY_1.found(evidence)}; ResNet-20 {RESNET_20.found(evidence)}", seeds)
    highway, residual = (entry.mean(evidence) for entry in both)
    return decided(round(abs(highway - residual), 6) <= 1, f"Highway A {highway:.2f} %, ResNet-20 {residual:.2f} %", seeds)


REPORT_2016 = table(
    "report2016",
    "The 2016 report: highway and residual networks on CIFAR-10",
    "Highway A (11 layers) and ResNet-20, trained alike, are equally good: 85.49 % and 85.50 %; larger networks are not better.",
    ENTRIES,
    {},
    {
        "smoke": "digits instead of CIFAR-10, two of the networks, 2 epochs: shows that everything works, says nothing about the report.",
        "laptop": "one recipe of ours for all networks, 30 epochs, Highway B with one seed only. "
        f"{GRID_NOTE} The networks are the report's: Highway A has another head than in table 2, and the residual networks have neither "
        "batch normalisation nor strides.",
        "paper": f"one recipe of ours for all networks, 200 epochs, 5 seeds (the report gives no number of epochs); networks as at scale "
        f"laptop. {GRID_NOTE}",
    },
    figure="The 2016 report's table",
    source="the 2016 report",
    seen="runs of Highway A and ResNet-20 with seed 1, for 15 and 30 epochs, with other learning rates and dropout (results/quick, "
    "results/table2)",
    more=[
        Rule(
            "alike",
            "Highway A 85.49 % and ResNet-20 85.50 %",
            "their mean test accuracies differ by at most 1 point; if all runs of one diverged, they are not alike",
            _alike,
        )
    ],
    short="85.49, 85.34, 85.50, 83.87 %",
)
