"""Writes docs/INSIDE.md from the records in results/: python docs/inside.py (a test fails if the page is out of date).

Verdicts come from figures 2 to 4 (results/fig2 to fig4); analyses that the paper does not have are in results/inside.
"""

import runpy
from pathlib import Path

from highwaynet.analysis.analysis_records import DeletionsRecord, GatesRecord, LesionsRecord, PairsRecord, RoutingRecord
from highwaynet.base.text import loss_text, percent
from highwaynet.experiments.claim_records import ClaimRecord, RuleRecord, load_claim
from highwaynet.experiments.evidence import Evidence
from highwaynet.experiments.report_2021 import CASES, arrow, flow_of
from highwaynet.experiments.reproduce import stored_evidence
from highwaynet.figures.findings import deletions_finding, number_text, pairs_finding, routing_finding
from highwaynet.runs.directory import RunDirectory

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGE_OF_RESULTS = runpy.run_path(str(ROOT / "docs" / "results.py"))
finding, fresh_note, wrapped = (PAGE_OF_RESULTS[name] for name in ("finding", "fresh_note", "wrapped"))
FOLDER = RESULTS / "inside"
NAMES = {"mnist-50": "MNIST", "cifar-100-50": "CIFAR-100"}


def claim(name: str) -> ClaimRecord:
    """Return the record of a claim."""
    record = load_claim(RESULTS / name)
    if record is None:
        raise SystemExit(f"{RESULTS / name}: no record")
    return record


def evidence(name: str) -> Evidence:
    """Return the evidence of a claim."""
    return stored_evidence(RESULTS / name, claim(name))


class Network:
    """The records of one network."""

    def __init__(self, name: str) -> None:
        self.short, self.label = name.removesuffix("-50"), NAMES[name]
        gates, routing, lesions = (evidence(figure).labelled(self.short)[0] for figure in ("fig2", "fig3", "fig4"))
        self.gates = gates.record("gates", GatesRecord)
        self.routing = routing.record("routing", RoutingRecord)
        self.lesions = lesions.record("lesions", LesionsRecord)
        self.history = gates.history
        run = RunDirectory(FOLDER / name)
        kinds = {"lesions-test": LesionsRecord, "pairs-train": PairsRecord, "deletions-train": DeletionsRecord}
        found = {record: run.load_record(record, kind) for record, kind in kinds.items()}
        if missing := [record for record, value in found.items() if value is None]:
            raise SystemExit(f"{FOLDER / name}: no record {', '.join(missing)}")
        self.lesions_test, self.pairs, self.deletions = found.values()  # type: ignore[misc]

    @property
    def rules(self) -> list[RuleRecord]:
        """The rules of figures 2 to 4 about this network."""
        return [rule for figure in ("fig2", "fig3", "fig4") for rule in claim(figure).rules if rule.name.startswith(f"{self.label}:")]


def section(name: str) -> str:
    """Return the section about a network, with its numbers and figures."""
    network = Network(name)
    last = network.history[-1]
    about = network.gates.about
    settings = f"seed {about.seed}, {about.epochs} epochs, gate bias {number_text(float(network.gates.start_bias[0]))}"
    report = "" if network.label == "MNIST" else " The 2021 report ended at 0.0137 after the same number of epochs."
    lines = [
        f"## {network.label}",
        "",
        *wrapped(f"The network has 50 layers (one plain, 49 highway) of 50 blocks, with tanh; {settings}."),
        "",
        *wrapped(f"- Training loss in the last epoch: {loss_text(last.train_loss)}.{report}", rest="  "),
        f"- Intact network, whole training set: {network.lesions.intact}.",
        f"- Intact network, test set: {network.lesions_test.intact}.",
        "",
        "What the paper found:",
        "",
        *(line for rule in network.rules for line in finding(rule, "the paper")),
        "",
        "What the paper did not look at:",
        "",
        *wrapped(f"- Routes: {routing_finding(network.routing)}", rest="  "),
        *wrapped(f"- Pairs and spans: {pairs_finding(network.pairs)}", rest="  "),
        *wrapped(f"- Random deletions and shuffles: {deletions_finding(network.deletions)}", rest="  "),
        "",
    ]
    for path, text in (
        (f"fig2/figures/fig2-{network.short}", "Figure 2: biases, mean gates, gates and outputs of one sample."),
        (f"fig3/figures/fig3-{network.short}", "Figure 3: mean gates of single classes minus the mean over all samples."),
        (f"fig4/figures/fig4-{network.short}", "Figure 4: the training set with each single layer closed."),
        (f"inside/{name}/figures/refinement", "Estimation error by layer."),
    ):
        lines += [f"![{text}](../results/{path}.png)", "", f"*{text}*", ""]
    return "\n".join(lines)


def flow_section() -> str:
    """Return the section about the cases of the 2021 report."""
    runs = evidence("report2021")
    lines = [
        "## Where the signal dies",
        "",
        "Plain networks with 50 layers, 71 wide, on MNIST: learning rate 0.01, batches of 128, 5 epochs, the first seed.",
        "The table shows the variance of the outputs and the length of the weights' gradient in the first and in the last layer",
        "before training, over 1,000 samples. `highway inspect RUN --what flow` measures both and names what goes wrong.",
        "",
        "| network | variance, layer 1 → 50 | gradient, layer 1 → 50 | named here | accuracy |",
        "|---|---|---|---|---|",
    ]
    drawn = [(case, run) for case in CASES for run in case.runs(runs)[:1] if run.finished]
    for case, run in drawn:
        start, accuracy = flow_of(run).start, run.history[-1].train_accuracy or 0.0
        failures = "; ".join(finding.partition(":")[0] for finding in start.findings) or "nothing wrong"
        lines.append(f"| {case.title} | {arrow(start.variance)} | {arrow(start.gradient)} | {failures} | {percent(accuracy)} |")
    lines += ["", "The accuracy is that on the training set in the last epoch. The 2021 report says:", ""]
    lines += [line for rule in claim("report2021").rules for line in finding(rule, "the 2021 report")]
    lines.append("")
    for case, _ in drawn:
        lines += [f"![Signal flow, {case.title}](../results/report2021/figures/flow-{case.label}.png)", ""]
    return "\n".join(lines)


def page() -> str:
    """Return the whole page."""
    head = """# Inside two trained networks

This page shows what two 50-layer highway networks learned, one on MNIST and one on CIFAR-100: which gates open, which
routes samples take, and which layers can be removed. It compares them with the networks of the paper (section 4 and
figures 2 to 4). Numbers and figures are those of the first seed; a verdict says so if there is only one.

These commands repeat the analysis. They leave records in `runs/mnist-50/analysis` and figures in `mnist-50-figures`.

```
highway reproduce fig2 && highway reproduce fig3 && highway reproduce fig4   # an hour of one core, with the next line
highway reproduce report2021
# What the paper did not look at; the same with cifar-100-50 and --classes 0,1:
highway train results/inside/mnist-50/spec.toml --out runs/mnist-50
highway inspect runs/mnist-50 --classes 0,7
highway lesion runs/mnist-50 --what lesions,pairs,deletions
highway lesion runs/mnist-50 --split test
```

Records, histories and specs are in [results/fig2](../results/fig2), [fig3](../results/fig3), [fig4](../results/fig4)
and, for what the paper did not look at, [results/inside](../results/inside). `python docs/inside.py` writes this page.

"""
    head += "\n".join([*wrapped(fresh_note(("fig2", "fig3", "fig4"))[0]), "", ""])
    return head + "\n".join([*(section(name) for name in NAMES), flow_section()]).rstrip() + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "INSIDE.md").write_text(page(), encoding="utf-8")
