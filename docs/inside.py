"""Writes docs/INSIDE.md from the records in results/inside: python docs/inside.py (a test fails when the page is out of date).

Every verdict follows from a rule that stands in the page beside it; numbers come from records alone.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from highwaynet.analysis.records import DeletionsRecord, FlowRecord, GatesRecord, LesionsRecord, PairsRecord, RoutingRecord
from highwaynet.base.arrays import Numbers
from highwaynet.base.text import loss_text, percent
from highwaynet.figures.findings import deletions_finding, number_text, pairs_finding, routing_finding, same_accuracy
from highwaynet.runs.directory import RunDirectory

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "inside"
IDLE = 1.5


class Case(NamedTuple):
    """A network of the 2021 report."""

    label: str
    claim: str
    failure: str
    """What it is said to suffer from."""
    stays: bool = False
    """Whether the variance of its outputs is said to stay."""


NAMES = {"mnist-50": "MNIST", "cifar-100-50": "CIFAR-100"}
CASES = {
    "plain-relu-glorot": Case("ReLU, Glorot's weights", "activations fall to 0 with depth (dead ReLU); it does not train", "Dead ReLU"),
    "plain-relu-he": Case("ReLU, He's weights", "it can be trained", ""),
    "plain-sigmoid-glorot": Case(
        "sigmoid, Glorot's weights",
        "variance stays, the gradient vanishes in early layers; it does not train",
        "Vanishing gradient",
        stays=True,
    ),
    "plain-tanh-glorot": Case("tanh, Glorot's weights", "variance keeps its range; it trains", "", stays=True),
}


class Row(NamedTuple):
    """A finding of the paper beside ours."""

    claim: str
    rule: str
    found: str
    verdict: str


class Network:
    """The records of one network."""

    def __init__(self, name: str) -> None:
        run = RunDirectory(FOLDER / name)
        kinds = {
            "gates": GatesRecord,
            "routing": RoutingRecord,
            "lesions-train": LesionsRecord,
            "lesions-test": LesionsRecord,
            "pairs-train": PairsRecord,
            "deletions-train": DeletionsRecord,
        }
        found = {record: run.load_record(record, kind) for record, kind in kinds.items()}
        if missing := [record for record, value in found.items() if value is None]:
            raise SystemExit(f"{FOLDER / name}: no record {', '.join(missing)}")
        self.gates, self.routing, self.lesions, self.lesions_test, self.pairs, self.deletions = found.values()  # type: ignore[misc]
        self.history = run.read_history()
        self.label = NAMES[name]


def verdict(*, confirmed: bool, partly: bool = False) -> str:
    """The word for it."""
    return "confirmed" if confirmed else "partly" if partly else "not confirmed"


def both(first: bool, second: bool) -> str:
    """The word where two things are claimed."""
    return verdict(confirmed=first and second, partly=first or second)


def rank_correlation(values: Numbers) -> float:
    """Of a number for each layer with the layer's own number (Spearman)."""
    ranks = np.argsort(np.argsort(values))
    return float(np.corrcoef(np.arange(len(values)), ranks)[0, 1])


def change_within(outputs: Numbers, first: int) -> float:
    """Which share of the way from the first to the last block outputs lies in the first layers, for one sample."""
    steps = np.abs(np.diff(outputs.astype(float), axis=0)).sum(axis=1)
    return float(steps[: first - 1].sum() / steps.sum())


def near(record: LesionsRecord, times: float) -> list[int]:
    """The layers without which the loss is at most so many times the intact network's."""
    return [number for number, score in enumerate(record.closed, start=1) if score.loss <= times * record.intact.loss]


def biases(network: Network) -> Row:
    """Figure 2, first column."""
    gates = network.gates
    start, mean = number_text(float(gates.start_bias[0])), number_text(float(gates.bias.mean()))
    found = f"{percent(gates.fell)} of {gates.bias.size:,} biases are below {start}; their mean is {mean}"
    return Row("most gate biases fall below their start", "more than half", found, verdict(confirmed=gates.fell > 0.5))


def biases_rise(network: Network) -> Row:
    """Figure 2, CIFAR-100."""
    bias, mean = network.gates.bias.mean(axis=1), network.gates.mean.mean(axis=1)
    rise, fall = rank_correlation(bias), rank_correlation(mean)
    claim = "biases rise with depth while the mean gate activity falls"
    rule = "rank correlation with depth above 0.3 and below −0.3; one of the two: partly"
    found = f"biases {rise:+.2f}, activity {fall:+.2f}".replace("-", "−")
    return Row(claim, rule, found, both(rise > 0.3, fall < -0.3))


def sparse(network: Network) -> Row:
    """Figure 2, third column. That most gates are nearly closed is no finding: with these biases they start so."""
    gates = network.gates
    one, many = float(np.mean(gates.sample_gates > 0.5)), float(np.mean(gates.mean > 0.5))
    most = gates.sample_gates[gates.sample_gates > 0.5].size
    found = (
        f"sample {gates.sample} opens {most} of {gates.bias.size:,} gates above 0.5 ({percent(one)}); on average over all samples "
        f"{percent(float(gates.open_share.mean()))} are open, and {percent(many)} have a mean above 0.5"
    )
    rule = "for one sample less than a tenth of the gates is above 0.5; more are than have a mean above 0.5, so that samples open others"
    return Row("gates are sparse for one sample, and chosen by it", rule, found, both(0 < one < 0.1, one > many))


def stripes(network: Network, layers: int) -> Row:
    """Figure 2, last column."""
    share = change_within(network.gates.sample_outputs, layers)
    uniform = (layers - 1) / (len(network.gates.bias) - 1)
    claim = f"outputs stay constant over many layers; most of the change lies in the first {layers}"
    rule = f"of the sample's change of outputs at least two thirds, and more than the {percent(uniform)} that even change would give"
    found = f"{percent(share)} of the change lies in the first {layers} of {len(network.gates.bias)} layers"
    return Row(claim, rule, found, verdict(confirmed=share >= 2 / 3 and share > uniform, partly=share > uniform))


def routes(network: Network) -> Row:
    """Figure 3."""
    routing = network.routing
    between = float(routing.class_share.mean())
    intact, static = routing.intact.accuracy or 0.0, routing.static.accuracy or 0.0
    found = (
        f"with every gate held at its mean the training accuracy falls from {percent(intact)} to {percent(static)}; "
        f"{percent(between)} of what the input does to the gates lies between classes"
    )
    rule = "gates that do not look at the input cost more than 10 points of training accuracy"
    return Row("samples take different routes, by class", rule, found, verdict(confirmed=intact - static > 0.1))


def where_routes_part(network: Network) -> Row:
    """Figure 3: its two classes."""
    one, other = (0, 7) if network.label == "MNIST" else (0, 1)
    differences = np.square(network.routing.class_mean[[one, other]] - network.routing.mean).sum(axis=(0, 2))
    share, even = float(differences[:15].sum() / differences.sum()), 15 / len(differences)
    names = " and ".join(network.routing.class_names[number] for number in (one, other))
    found = f"{percent(share)} of the squared differences of classes {names} lie in the first 15 layers, of even ones {percent(even)}"
    if network.label == "MNIST":
        return Row(
            "differences between classes lie within the first 15 layers", "more than half of them", found, verdict(confirmed=share > 0.5)
        )
    rule = "no more than half in the first 15 layers"
    return Row("differences between classes are spread over all layers", rule, found, verdict(confirmed=share <= 0.5))


def counts(network: Network) -> str:
    """How many layers are idle, by several measures."""
    total = len(network.lesions.closed)
    by_loss = ", ".join(f"{len(near(network.lesions, times))} within {times:g}" for times in (1.01, 1.1, 1.5, 2))
    same = sum(same_accuracy(network.lesions.intact, score) for score in network.lesions.closed)
    return f"of {total} layers {by_loss} times the intact loss; {same} within 0.1 points of the training accuracy"


def idle_layers(network: Network) -> Row:
    """Figure 4, MNIST."""
    layers, losses = near(network.lesions, IDLE), [score.loss for score in network.lesions.closed]
    middle = [number for number in layers if 15 <= number <= 45]
    early, late = (float(np.median(part)) / network.lesions.intact.loss for part in (losses[:9], losses[14:45]))
    share = len(layers) / len(losses)
    found = (
        f"{len(layers)} of {len(losses)} ({percent(share)}), {len(middle)} of the 31 layers 15–45; without a layer the loss is {early:.0f} "
        f"times the intact one in the median of layers 1–9, {late:.2f} times in that of 15–45 ({counts(network)})"
    )
    rule = (
        f"idle: the loss without it is at most {IDLE:g} times the intact one (a measure chosen after seeing the curve). Between 45 % and "
        "75 % are idle; nine of ten layers of 15–45 are; one of the two: partly"
    )
    claim = "early layers matter, layers 15–45 hardly do: about 60 % are idle"
    return Row(claim, rule, found, both(0.45 <= share <= 0.75, len(middle) >= 28))


def busy_layers(network: Network) -> Row:
    """Figure 4, CIFAR-100."""
    layers, losses = near(network.lesions, IDLE), [score.loss for score in network.lesions.closed]
    busy, late = ([number for number in part if number not in layers] for part in (range(1, 41), range(41, 50)))
    first, last = (float(np.median(part)) / network.lesions.intact.loss for part in (losses[:40], losses[40:]))
    found = (
        f"{len(busy)} of the first 40 layers and {len(late)} of the last 9 do; without a layer the loss is {first:.0f} times the "
        f"intact one in the median of the first 40, {last:.1f} times in that of the last 9 ({counts(network)})"
    )
    rule = f"it hurts where the loss without the layer is more than {IDLE:g} times the intact one: at least 36 of the first 40; 20: partly"
    return Row("removing any of the first ≈40 layers hurts", rule, found, verdict(confirmed=len(busy) >= 36, partly=len(busy) >= 20))


def rows(network: Network) -> Iterator[Row]:
    """All findings that the paper has for this data set."""
    yield biases(network)
    if network.label == "CIFAR-100":
        yield biases_rise(network)
    yield sparse(network)
    yield stripes(network, 15 if network.label == "MNIST" else 40)
    yield routes(network)
    yield where_routes_part(network)
    yield idle_layers(network) if network.label == "MNIST" else busy_layers(network)


def section(name: str) -> str:
    """A network: its table and its figures."""
    network = Network(name)
    last = network.history[-1]
    about = network.gates.about
    settings = f"seed {about.seed}, {about.epochs} epochs, gate bias {number_text(float(network.gates.start_bias[0]))}"
    lines = [
        f"## {network.label}",
        "",
        f"50 layers (one plain, 49 highway) of 50 blocks, tanh, {settings}: training loss {loss_text(last.train_loss)} in the last epoch. "
        f"{'' if network.label == 'MNIST' else 'The 2021 report ended at 0.0137 after as many epochs. '}"
        f"Intact, over the whole training set: {network.lesions.intact}; test: {network.lesions_test.intact}.",
        "",
        "| the paper | rule | here | |",
        "|---|---|---|---|",
        *(f"| {row.claim} | {row.rule} | {row.found} | **{row.verdict}** |" for row in rows(network)),
        "",
        "Beyond the paper:",
        "",
        f"- Routes: {routing_finding(network.routing)}",
        f"- Pairs and spans: {pairs_finding(network.pairs)}",
        f"- Random deletions and shuffles: {deletions_finding(network.deletions)}",
        "",
    ]
    folder = f"../results/inside/{name}/figures"
    for title, text in (
        ("gates", "Figure 2: biases, mean gates, gates and outputs of one sample."),
        ("routing", "Figure 3: mean gates of single classes minus the mean over all samples."),
        ("lesions-train", "Figure 4: the training set with each single layer closed."),
        ("refinement", "Estimation error by layer."),
    ):
        lines += [f"![{text}]({folder}/{title}.png)", "", f"*{text}*", ""]
    return "\n".join(lines)


def flow_section() -> str:
    """The 2021 report's cases."""
    lines = [
        "## Where the signal dies",
        "",
        "50-layer plain networks, 71 wide, MNIST, learning rate 0.01, batches of 128, 5 epochs, seed 1: `highway inspect RUN --what flow`.",
        "Variance of the outputs and length of the weights' gradient in the first and the last layer before training, over 1,000 samples;",
        "what `highwaynet` says about it; and how training ended.",
        "",
        "| network | the 2021 report | variance, layer 1 → 50 | gradient, layer 1 → 50 | named here | training accuracy after 5 epochs | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, case in CASES.items():
        run = RunDirectory(FOLDER / name)
        record = run.load_record("flow", FlowRecord)
        if record is None:
            raise SystemExit(f"{FOLDER / name}: no record flow")
        start, accuracy = record.start, run.read_history()[-1].train_accuracy or 0.0
        failures = [finding.partition(":")[0] for finding in start.findings]
        ratio = float(start.variance[-1] / start.variance[0])
        true = [(accuracy > 0.5) != bool(case.failure), case.failure in failures if case.failure else not failures]
        true += [0.1 <= ratio <= 10] if case.stays else []
        numbers = [f"{values[0]:.1e} → {values[-1]:.1e}" for values in (start.variance, start.gradient)]
        named, word = "; ".join(failures) or "nothing wrong", verdict(confirmed=all(true), partly=any(true))
        lines.append(f"| {case.label} | {case.claim} | {' | '.join(numbers)} | {named} | {percent(accuracy)} | **{word}** |")
    rule = (
        "it trains (more than half right after 5 epochs) where the report says so, the failure is named that the report names, and where "
        "variance is said to stay it changes by less than a factor of 10 from the first layer to the last; not all of it: partly"
    )
    lines += ["", f"Rule: {rule}.", ""]
    for name, case in CASES.items():
        lines += [f"![Signal flow, {case.label}](../results/inside/{name}/figures/flow.png)", ""]
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    head = """# Inside two trained networks

What the paper found in its networks (section 4 and figures 2 to 4), beside what two networks of the same form show that were trained here:
one on MNIST, one on CIFAR-100. Records, histories and specs are in [results/inside](../results/inside); this page is written from them by
`python docs/inside.py`. One seed each: a verdict is about these networks. Repeat it with

```
highway train results/inside/mnist-50/spec.toml --out runs/mnist-50         # minutes; the same for the other five folders,
highway train results/inside/cifar-100-50/spec.toml --out runs/cifar-100-50 # this one takes about an hour on one core
highway inspect runs/mnist-50 --classes 0,7                                 # --classes 0,1 for CIFAR-100, --what flow for the plain ones
highway lesion runs/mnist-50 --what layers,pairs,deletions
highway lesion runs/mnist-50 --split test
```

which leaves records in `runs/mnist-50/analysis` and figures in `mnist-50-figures`; both lie here beside each run's spec and history.

"""
    return head + "\n".join([*(section(name) for name in NAMES), flow_section()]).rstrip() + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "INSIDE.md").write_text(page(), encoding="utf-8")
