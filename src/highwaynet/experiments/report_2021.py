"""The 2021 report, figures 5 to 7: why deep plain networks fail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from highwaynet.analysis.analysis_records import Flow, FlowRecord
from highwaynet.base.text import percent
from highwaynet.experiments.claims import NOT_RUN, Claim, Outcome, Row, Rule, Run, Scale, decided, most, ratio, spread, with_seeds
from highwaynet.experiments.specs import over_seeds, seeds_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence, RunEvidence

LEARNED = 0.5
"""A network trains if this share of the training samples is right in the last epoch."""


@dataclass(frozen=True)
class Case:
    """A network of the 2021 report, and what is said about it."""

    label: str
    title: str
    activation: str
    init: str
    trains: str
    """Whether it trains, as the report says it."""
    failure: str = ""
    """What is named here if it has the failure that the report names; empty if it is said to train."""
    named: str = ""
    """That failure, as the report says it."""
    variance: str = ""
    """What the report says about the variance of its outputs, if it is said to stay; empty if not."""
    also_trained: bool = False
    """Whether that is said of the trained network too."""

    @property
    def rules(self) -> list[Rule]:
        """One for each thing that is said about it."""
        word = "does not train" if self.failure else "trains"
        accuracy = f"{'at most' if self.failure else 'more than'} half of the training samples are right in the last of 5 epochs"
        lost = "; a run that diverged does not train" if self.failure else ""
        rules = [Rule(f"{self.title}: {word}", self.trains, accuracy + lost, self._judged(self._learns))]
        if self.failure:
            text = f"`highway inspect --what flow` names “{self.failure}” before training"
            rules.append(Rule(f"{self.title}: {self.failure[0].lower()}{self.failure[1:]}", self.named, text, self._judged(self._fails)))
        if self.variance:
            within = "the variance of the outputs of the last layer is within a factor of 10 of that of the first"
            rules.append(Rule(f"{self.title}: variance", self.variance, f"{within}, before training", self._judged(self._stays("start"))))
        if self.also_trained:
            what = f"{self.title}: variance, trained"
            rules.append(Rule(what, self.variance, f"{within}, after training", self._judged(self._stays("trained"))))
        return rules

    def runs(self, evidence: "Evidence") -> list["RunEvidence"]:
        """One for each seed."""
        return evidence.labelled(self.label)

    def learned(self, evidence: "Evidence") -> bool:
        """Whether it trains with more than half of the seeds."""
        return most([_accuracy(run) > LEARNED for run in self.runs(evidence)])

    def _judged(self, judge: Callable[[Sequence["RunEvidence"]], tuple[list[bool], str]]) -> Callable[["Evidence"], Outcome]:
        """A rule that is to hold with more than half of the seeds."""

        def judged(evidence: "Evidence") -> Outcome:
            if not (runs := self.runs(evidence)):
                return NOT_RUN
            holds, found = judge(runs)
            return decided(most(holds), with_seeds(holds) + found, evidence.seeds_of(runs))

        return judged

    def _learns(self, runs: Sequence["RunEvidence"]) -> tuple[list[bool], str]:
        accuracies = [_accuracy(run) for run in runs]
        return [(accuracy > LEARNED) != bool(self.failure) for accuracy in accuracies], f"training accuracy {spread(accuracies, percent)}"

    def _fails(self, runs: Sequence["RunEvidence"]) -> tuple[list[bool], str]:
        names = [_names(run) for run in runs]
        found = "; ".join(dict.fromkeys(", ".join(one) or "nothing" for one in names))
        return [self.failure in one for one in names], f"named: {found}"

    def _stays(self, moment: str) -> Callable[[Sequence["RunEvidence"]], tuple[list[bool], str]]:
        def judge(runs: Sequence["RunEvidence"]) -> tuple[list[bool], str]:
            flows = [_moment(run, moment) for run in runs]
            holds = [flow is not None and 0.1 <= _change(flow) <= 10 for flow in flows]
            return holds, "from the first layer to the last " + "; ".join(
                "diverged" if flow is None else arrow(flow.variance) for flow in flows
            )

        return judge


def flow_of(run: "RunEvidence") -> FlowRecord:
    """Activations and gradients by layer, of a run that did not diverge."""
    return run.record("flow", FlowRecord)


def arrow(values: Any) -> str:
    """From the first layer to the last."""
    return f"{values[0]:.1e} → {values[-1]:.1e}"


def _moment(run: "RunEvidence", moment: str) -> Flow | None:
    """Before or after training; None if the run diverged."""
    if not run.finished:
        return None
    return flow_of(run).start if moment == "start" else flow_of(run).trained


def _change(flow: Flow) -> float:
    return ratio(float(flow.variance[-1]), float(flow.variance[0]))


def _names(run: "RunEvidence") -> list[str]:
    """What is named before training; nothing of a run that diverged."""
    return [finding.partition(":")[0] for finding in flow_of(run).start.findings] if run.finished else []


def _accuracy(run: "RunEvidence") -> float:
    """On the training data, in the last epoch; nothing is right if the run diverged."""
    return (run.history[-1].train_accuracy or 0.0) if run.finished else 0.0


_NOT_TRAINED = "the networks with sigmoid could not be trained, with either initialisation"
_VANISHES = "the gradient becomes 0 for the early layers"
_NOT_ZERO = "the variance of the activations does not become zero"
CASES = (
    Case(
        "relu-glorot",
        "ReLU, Glorot's weights",
        "relu",
        "glorot-uniform",
        "the training failed",
        "Dead ReLU",
        "mean and variance of the activations decrease layer by layer and become 0 (dead ReLU)",
    ),
    Case("relu-he", "ReLU, He's weights", "relu", "he", "it can be trained by carefully setting the hyperparameters"),
    Case(
        "sigmoid-glorot",
        "sigmoid, Glorot's weights",
        "sigmoid",
        "glorot-uniform",
        _NOT_TRAINED,
        "Vanishing gradient",
        _VANISHES,
        _NOT_ZERO,
    ),
    Case("sigmoid-he", "sigmoid, He's weights", "sigmoid", "he", _NOT_TRAINED, "Vanishing gradient", _VANISHES, _NOT_ZERO),
    Case(
        "tanh-glorot",
        "tanh, Glorot's weights",
        "tanh",
        "glorot-uniform",
        "it trains, though less well than a highway network",
        variance="the variance of each layer remains in the same range",
        also_trained=True,
    ),
)


def _plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
    smoke = scale == "smoke"
    training = {"epochs": 5, "batch_size": 128, "learning_rate": 0.01, "momentum": 0.9, "decay": 0.1}
    runs: list[Run] = []
    for case in CASES:
        network = {"name": "fc-plain", "depth": 50, "width": 20 if smoke else 71, "activation": case.activation, "init": case.init}
        number = seeds_at(scale, seeds or (1 if smoke else 3))
        runs += over_seeds(case.label, network, "digits" if smoke else "mnist", training, number, ("flow",))
    return tuple(runs)


def _rows(evidence: "Evidence") -> list[Row]:
    """The gradients, which no rule is about beside the failures that are named."""
    rows = []
    for case in CASES:
        flows = [flow_of(run).start for run in case.runs(evidence) if run.finished]
        if flows:
            rows.append(Row(f"{case.title}, gradient before training, first layer → last", "only drawn", arrow(flows[0].gradient)))
    return rows


def _draw(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
    """The first seed of each that did not diverge."""
    from highwaynet.figures.captions import caption
    from highwaynet.figures.flow_plot import draw_flow

    drawn = {}
    for case in CASES:
        if records := [flow_of(run) for run in case.runs(evidence) if run.finished]:
            drawn[f"flow-{case.label}"] = (draw_flow(records[0]), f"{case.title}. {caption(records[0])}")
    return drawn


def _headline(evidence: "Evidence") -> str:
    trains = {case: case.learned(evidence) for case in CASES if case.runs(evidence)}
    agree = all(trained != bool(case.failure) for case, trained in trains.items())
    return f"{sum(trains.values())} of {len(trains)}" + (", as reported" if agree else ", but others")


REPORT_2021 = Claim(
    "report2021",
    "The 2021 report, figures 5 to 7: why deep plain networks fail",
    "Activations die (ReLU, Glorot), gradients vanish (sigmoid), or neither (ReLU with He's weights, tanh), in 50-layer plain networks.",
    _plan,
    tuple(rule for case in CASES for rule in case.rules),
    _draw,
    _rows,
    {
        "smoke": "digits instead of MNIST, networks 20 wide: shows that everything works, says nothing about the report.",
        "laptop": "5 epochs of MNIST, learning rate 0.01; the report gives neither for these networks.",
        "paper": "the same as at scale laptop: the report gives no other budget.",
    },
    source="the 2021 report",
    seen="runs of four of the five networks with seed 1 (docs/INSIDE.md)",
    short=f"{sum(not case.failure for case in CASES)} of {len(CASES)} plain networks train",
    headline=_headline,
)
