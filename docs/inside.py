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
from highwaynet.figures.findings import deletions_finding, number_text, pairs_finding, routing_finding
from highwaynet.runs.directory import RunDirectory

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "inside"
NAMES = {"mnist-50": "MNIST", "cifar-100-50": "CIFAR-100"}
CASES = {
    "plain-relu-glorot": ("ReLU, Glorot's weights", "activations fall to 0 with depth (dead ReLU); it does not train"),
    "plain-relu-he": ("ReLU, He's weights", "it can be trained"),
    "plain-sigmoid-glorot": ("sigmoid, Glorot's weights", "variance stays, the gradient vanishes in early layers; it does not train"),
    "plain-tanh-glorot": ("tanh, Glorot's weights", "variance keeps its range; it trains"),
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


def idle(record: LesionsRecord) -> list[int]:
    """The layers that can be closed alone at a cost of at most 0.1 percentage points of the accuracy."""
    intact = record.intact.accuracy or 0.0
    return [number for number, score in enumerate(record.closed, start=1) if abs((score.accuracy or 0.0) - intact) <= 0.001]


def biases(network: Network) -> Row:
    """Figure 2, first column."""
    gates = network.gates
    fell = float(np.mean(gates.bias < gates.start_bias))
    start, mean = number_text(gates.start_bias), number_text(float(gates.bias.mean()))
    found = f"{percent(fell)} of {gates.bias.size:,} biases are below {start}; their mean is {mean}"
    return Row("most gate biases fall below their start", "more than half", found, verdict(confirmed=fell > 0.5))


def biases_rise(network: Network) -> Row:
    """Figure 2, CIFAR-100."""
    bias, mean = network.gates.bias.mean(axis=1), network.gates.mean.mean(axis=1)
    rise, fall = rank_correlation(bias), rank_correlation(mean)
    claim = "biases rise with depth while the mean gate activity falls"
    rule = "rank correlation with depth above 0.3 and below −0.3; one of the two: partly"
    found = f"biases {rise:+.2f}, activity {fall:+.2f}".replace("-", "−")
    return Row(claim, rule, found, both(rise > 0.3, fall < -0.3))


def sparse(network: Network) -> Row:
    """Figure 2, third column."""
    gates = network.gates
    closed, opened = float(gates.closed_share.mean()), float(gates.open_share.mean())
    found = f"on average {percent(closed)} of a sample's gates are below 0.1, {percent(opened)} above 0.5"
    rule = "half of the gates below 0.1 and less than a tenth above 0.5; one of the two: partly"
    return Row("gates are sparse for one sample", rule, found, both(closed > 0.5, opened < 0.1))


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
    within, between = float(routing.input_share.mean()), float(routing.class_share.mean())
    intact, static = routing.intact.accuracy or 0.0, routing.static.accuracy or 0.0
    found = (
        f"{percent(within)} of the gates' variance comes from the input, {percent(between)} of that lies between classes; "
        f"with every gate held at its mean the training accuracy falls from {percent(intact)} to {percent(static)}"
    )
    rule = (
        "the input makes more than half of the gates' variance; static gates cost more than 10 points of accuracy; one of the two: partly"
    )
    return Row("samples of different classes take different routes", rule, found, both(within > 0.5, intact - static > 0.1))


def idle_layers(network: Network) -> Row:
    """Figure 4, MNIST."""
    layers = idle(network.lesions)
    middle = [number for number in layers if 15 <= number <= 45]
    worst = 1 + max(range(len(network.lesions.closed)), key=lambda index: network.lesions.closed[index].loss)
    share = len(layers) / len(network.lesions.closed)
    losses = [score.loss for score in network.lesions.closed]
    found = (
        f"{len(layers)} of {len(losses)} layers ({percent(share)}), {len(middle)} of 31 among 15–45; layer {worst} matters most "
        f"(loss {loss_text(max(losses))}, intact {loss_text(network.lesions.intact.loss)}, "
        f"median of layers 15–45 {loss_text(float(np.median(losses[14:45])))})"
    )
    rule = (
        "idle: closing it costs at most 0.1 points of training accuracy. At least 60 % are idle; the layer that matters most is among the "
        "first 15; one of the two: partly"
    )
    return Row("early layers matter, layers 15–45 hardly do: about 60 % are idle", rule, found, both(share >= 0.6, worst <= 15))


def busy_layers(network: Network) -> Row:
    """Figure 4, CIFAR-100."""
    layers = idle(network.lesions)
    busy = [number for number in range(1, 41) if number not in layers]
    losses = [score.loss for score in network.lesions.closed]
    late = [number for number in range(41, 50) if number not in layers]
    intact, first, last = (
        loss_text(float(value)) for value in (network.lesions.intact.loss, np.median(losses[:40]), np.median(losses[40:]))
    )
    found = (
        f"closing costs more than 0.1 points of training accuracy in {len(busy)} of the first 40 layers and in {len(late)} of the last 9; "
        f"the loss goes from {intact} to {first} in the median of the first 40, to {last} in that of the last 9"
    )
    rule = "at least 36 of the first 40 layers; 20: partly"
    return Row("removing any of the first ≈40 layers hurts", rule, found, verdict(confirmed=len(busy) >= 36, partly=len(busy) >= 20))


def rows(network: Network) -> Iterator[Row]:
    """All findings that the paper has for this data set."""
    yield biases(network)
    if network.label == "CIFAR-100":
        yield biases_rise(network)
    yield sparse(network)
    yield stripes(network, 15 if network.label == "MNIST" else 40)
    yield routes(network)
    yield idle_layers(network) if network.label == "MNIST" else busy_layers(network)


def section(name: str) -> str:
    """A network: its table and its figures."""
    network = Network(name)
    last = network.history[-1]
    about = network.gates.about
    settings = f"seed {about.seed}, {about.epochs} epochs, gate bias {number_text(network.gates.start_bias)}"
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
        f"- Pairs and spans (1,000 training samples): {pairs_finding(network.pairs)}",
        f"- Random deletions and shuffles (1,000 training samples): {deletions_finding(network.deletions)}",
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
    for name, (label, claim) in CASES.items():
        run = RunDirectory(FOLDER / name)
        record = run.load_record("flow", FlowRecord)
        if record is None:
            raise SystemExit(f"{FOLDER / name}: no record flow")
        start, accuracy = record.start, run.read_history()[-1].train_accuracy or 0.0
        named = "; ".join(finding.partition(":")[0].partition(" (")[0] for finding in start.findings) or "nothing wrong"
        fails = "not train" in claim
        word = both((accuracy > 0.5) != fails, bool(start.findings) == fails)
        numbers = [f"{values[0]:.1e} → {values[-1]:.1e}" for values in (start.variance, start.gradient)]
        lines.append(f"| {label} | {claim} | {' | '.join(numbers)} | {named} | {percent(accuracy)} | **{word}** |")
    rule = "it trains (half right after 5 epochs) as the report says; a failure is named where it says one; one of the two: partly"
    lines += ["", f"Rule: {rule}.", ""]
    for name in CASES:
        lines += [f"![Signal flow, {CASES[name][0]}](../results/inside/{name}/figures/flow.png)", ""]
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    head = """# Inside two trained networks

What the paper found in its networks (section 4 and figures 2 to 4), beside what two networks of the same form show that were trained here:
one on MNIST, one on CIFAR-100. Records, histories and specs are in [results/inside](../results/inside); this page is written from them by
`python docs/inside.py`. One seed each: a verdict is about these networks. Repeat it with

```
highway train results/inside/mnist-50/spec.toml --out runs/mnist-50         # minutes
highway train results/inside/cifar-100-50/spec.toml --out runs/cifar-100-50 # about an hour on one core
highway inspect runs/mnist-50 --classes 0,7
highway lesion runs/mnist-50 --what layers,pairs,deletions
```

"""
    return head + "\n".join([*(section(name) for name in NAMES), flow_section()]).rstrip() + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "INSIDE.md").write_text(page(), encoding="utf-8")
