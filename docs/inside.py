"""Writes docs/INSIDE.md from the records in results/inside: python docs/inside.py (a test fails when the page is out of date).

Every verdict follows from a rule that stands in the page beside it; numbers come from records alone.
"""

from pathlib import Path

from highwaynet.analysis.records import DeletionsRecord, GatesRecord, LesionsRecord, PairsRecord, RoutingRecord
from highwaynet.base.text import loss_text, percent
from highwaynet.experiments.claims import Rule
from highwaynet.experiments.depth import CASES, FLOW_RULE
from highwaynet.experiments.evidence import Evidence, RunEvidence
from highwaynet.experiments.inside import FIG2_RULES, FIG3_RULES, FIG4_RULES
from highwaynet.figures.findings import deletions_finding, number_text, pairs_finding, routing_finding
from highwaynet.runs.directory import RunDirectory

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "inside"
FLOW = ROOT / "results" / "report2021"
NAMES = {"mnist-50": "MNIST", "cifar-100-50": "CIFAR-100"}


def evidence() -> Evidence:
    """All networks, as the rules of the claims see them."""
    runs = [RunEvidence(name.removesuffix("-50"), FOLDER / name, "finished") for name in NAMES]
    return Evidence("laptop", [*runs, *(RunEvidence(case.label, FLOW / "runs" / case.label, "finished") for case in CASES)])


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

    @property
    def rules(self) -> list[Rule]:
        """Those of figures 2 to 4 that are about it."""
        return [rule for rule in (*FIG2_RULES, *FIG3_RULES, *FIG4_RULES) if rule.name.startswith(f"{self.label}:")]


def row(rule: Rule) -> str:
    """A finding of the paper beside ours."""
    outcome = rule.judge(evidence())
    return f"| {rule.paper} | {rule.text} | {outcome.found} | **{outcome.verdict}** |"


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
        *map(row, network.rules),
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
    for case in CASES:
        start, accuracy = case.flow(evidence()).start, case.accuracy(evidence())
        failures = "; ".join(finding.partition(":")[0] for finding in start.findings) or "nothing wrong"
        numbers = [f"{values[0]:.1e} → {values[-1]:.1e}" for values in (start.variance, start.gradient)]
        word = case.judge(evidence()).verdict
        lines.append(f"| {case.title} | {case.paper} | {' | '.join(numbers)} | {failures} | {percent(accuracy)} | **{word}** |")
    lines += ["", f"Rule: {FLOW_RULE}.", ""]
    for case in CASES:
        lines += [f"![Signal flow, {case.title}](../results/report2021/figures/flow-{case.label}.png)", ""]
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    head = """# Inside two trained networks

What the paper found in its networks (section 4 and figures 2 to 4), beside what two networks of the same form show that were trained here:
one on MNIST, one on CIFAR-100. Records, histories and specs are in [results/inside](../results/inside); this page is written from them by
`python docs/inside.py`. One seed each: a verdict is about these networks. Repeat it with

```
highway reproduce fig2 && highway reproduce fig3 && highway reproduce fig4 && highway reproduce report2021   # an hour of one core
highway train results/inside/mnist-50/spec.toml --out runs/mnist-50         # what the paper does not have; the same with cifar-100-50
highway inspect runs/mnist-50 --classes 0,7                                 # --classes 0,1 for CIFAR-100
highway lesion runs/mnist-50 --what layers,pairs,deletions
highway lesion runs/mnist-50 --split test
```

which leaves records in `runs/mnist-50/analysis` and figures in `mnist-50-figures`; both lie here beside each run's spec and history.

"""
    return head + "\n".join([*(section(name) for name in NAMES), flow_section()]).rstrip() + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "INSIDE.md").write_text(page(), encoding="utf-8")
