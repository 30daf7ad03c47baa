"""Tables 1, 2 and 3, and the table of the 2016 report: test accuracies of convolutional networks."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from highwaynet.experiments.claims import Claim, Outcome, Row, Rule, Run, Scale, at_least, at_most
from highwaynet.experiments.specs import over_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from highwaynet.experiments.evidence import Evidence

NEAR = 0.1
"""MNIST: accuracies up to this many points below the paper's mean count as partly reproduced."""


@dataclass(frozen=True)
class Entry:
    """A network in a table."""

    label: str
    """Label of its runs, before the seed."""
    title: str
    network: dict[str, Any]
    data: str
    paper: float
    """The mean accuracy in the paper, in percent; the best if no mean is given."""
    reported: str
    """The accuracy as the paper writes it."""
    plans: dict[Scale, tuple[int, dict[str, Any]]]
    """Number of seeds and training settings, for each scale at which it is run."""
    spread: float = 0.0
    near: float = 1.0
    """Accuracies up to this many points below the paper's count as partly reproduced."""
    changes: dict[Scale, dict[str, Any]] = field(default_factory=dict)
    """Settings of the network that differ at a scale."""
    judged: bool = True
    """Whether it has a rule; if not, it is only shown if it was run."""

    @property
    def short(self) -> str:
        """The first words of the title."""
        return self.title.partition(",")[0]

    def accuracies(self, evidence: "Evidence") -> list[float]:
        """Test accuracies of our runs, in percent."""
        return [100 * (run.test.accuracy or 0.0) for run in evidence.labelled(self.label) if run.finished]

    def mean(self, evidence: "Evidence") -> float:
        """Return the mean test accuracy over the seeds, in percent; a run that diverged counts as 0."""
        return sum(self.accuracies(evidence)) / len(evidence.labelled(self.label))

    def found(self, evidence: "Evidence") -> str:
        """Return the accuracies in words."""
        values, seeds = self.accuracies(evidence), len(evidence.labelled(self.label))
        if not seeds:
            return "not run"
        lost = f"{seeds - len(values)} diverged" if len(values) < seeds else ""
        epochs = next((f"{len(run.history)} epochs" for run in evidence.labelled(self.label) if run.finished), "")
        return ", ".join(filter(None, [as_in_paper(values) if values else "", lost, epochs]))

    def judge(self, evidence: "Evidence") -> Outcome:
        """Compare the mean over the seeds with the paper's."""
        if not evidence.labelled(self.label):
            return Outcome("not run", "not run at this scale")
        low, mean = self.paper - self.near, self.mean(evidence)
        # The paper's decimals are not exact in binary floating point.
        verdict = at_least(round(mean, 6), self.paper, round(low, 6))
        return Outcome(verdict, self.found(evidence))

    @property
    def rule(self) -> Rule:
        """The rule for this entry."""
        text = (
            f"mean test accuracy over the seeds, where one that diverged has 0 %, at least {self.paper:.2f} %; at least "
            f"{self.paper - self.near:.2f} %: partly"
        )
        return Rule(self.title, f"{self.reported} %", text, self.judge)


def as_in_paper(values: Sequence[float]) -> str:
    """Format accuracies as the paper does: best (mean ± standard deviation).

    >>> as_in_paper([99.4, 99.5]), as_in_paper([99.4])
    ('99.50 (99.45 ± 0.07), 2 seeds', '99.40, 1 seed')
    """
    if len(values) == 1:
        return f"{values[0]:.2f}, 1 seed"
    return f"{max(values):.2f} ({statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}), {len(values)} seeds"


def _planner(entries: Sequence[Entry]) -> Callable[[Scale, int | None], tuple[Run, ...]]:
    def plan(scale: Scale, seeds: int | None) -> tuple[Run, ...]:
        runs: list[Run] = []
        for entry in entries:
            if scale in entry.plans:
                usual, training = entry.plans[scale]
                data = "digits" if scale == "smoke" else entry.data
                network = entry.network | entry.changes.get(scale, {})
                runs += over_seeds(entry.label, network, data, training, seeds or usual, ("evaluation",))
        return tuple(runs)

    return plan


def _rows(entries: Sequence[Entry], reported: Sequence[Row] = ()) -> Callable[["Evidence"], list[Row]]:
    def rows(evidence: "Evidence") -> list[Row]:
        found: list[Row] = []
        for entry in entries:
            if not entry.judged and not evidence.labelled(entry.label):
                continue
            finished = [run for run in evidence.labelled(entry.label) if run.finished]
            size = f", {finished[0].parameters:,} parameters" if finished else ""
            found.append(Row(f"{entry.title}{size}", entry.reported, entry.found(evidence)))
        return [*found, *reported]

    return rows


def _drawer(name: str, title: str, entries: Sequence[Entry], source: str) -> Callable[["Evidence"], Mapping[str, tuple["Figure", str]]]:
    def draw(evidence: "Evidence") -> Mapping[str, tuple["Figure", str]]:
        from highwaynet.figures.comparison_plot import Compared, draw_accuracies

        smoke = evidence.scale == "smoke"
        shown = [one for one in entries if one.judged or evidence.labelled(one.label)]
        rows = [Compared(one.title, one.accuracies(evidence), None if smoke else one.paper, one.spread) for one in shown]
        data = " and ".join(dict.fromkeys(run.spec.data.title for run in evidence))
        epochs = " or ".join(dict.fromkeys(str(len(run.history)) for run in evidence if run.finished))
        caption = f"{title}: test accuracy on {data}" + (f"; here after {epochs} epochs." if epochs else ".")
        return {name: (draw_accuracies(rows, source), caption)}

    return draw


def _table(
    name: str,
    title: str,
    paper: str,
    entries: Sequence[Entry],
    reported: Mapping[str, str],
    notes: Mapping[Scale, str],
    *,
    figure: str = "",
    source: str = "the paper",
    seen: str = "",
    more: Sequence[Rule] = (),
    short: str = "",
) -> Claim:
    """Make the claim of a table: a rule for each judged entry, further rules, and numbers that others reported."""
    rows = [Row(f"{what}, as reported", number, "") for what, number in reported.items()]
    rules = (*(entry.rule for entry in entries if entry.judged), *more)
    drawer = _drawer(name, figure or title.partition(":")[0], entries, source)
    short = short or ", ".join(f"{entry.short} {entry.paper:.2f} %" for entry in entries if entry.judged)
    return Claim(name, title, paper, _planner(entries), rules, drawer, _rows(entries, rows), notes, source, seen, short, _headline(entries))


def _headline(entries: Sequence[Entry]) -> Callable[["Evidence"], str]:
    """Return a function that lists the mean accuracies of the judged entries."""
    judged = [entry for entry in entries if entry.judged]

    def headline(evidence: "Evidence") -> str:
        run = [entry for entry in judged if evidence.labelled(entry.label)]
        means = ", ".join(f"{entry.short} {entry.mean(evidence):.2f} %" for entry in run)
        return means + ("" if len(run) == len(judged) else "; others not run" if run else "not run")

    return headline


_SMOKE = {"epochs": 2, "batch_size": 100, "recipe": "quick"}


_RELEASED = {"variant": "released"}
CHANGED: Scale = "paper"
"""The scale at which network and recipe are those of the released files."""


def _mnist(width: int, seeds: int, paper: float, spread: float, reported: str) -> Entry:
    """Make an entry of table 1: at scale laptop with our recipe, at scale paper with that of the released files."""
    plans: dict[Scale, tuple[int, dict[str, Any]]] = {
        "smoke": (2, _SMOKE),
        "laptop": (seeds, {"recipe": "quick", "epochs": 30}),
        "paper": (5, {"recipe": "released", "epochs": 300}),
    }
    network, changes = {"name": f"mnist-highway-{width}"}, {CHANGED: _RELEASED}
    return Entry(f"w{width}", f"{width} wide", network, "mnist", paper, reported, plans, spread, NEAR, changes)


WIDTH_16, WIDTH_32 = _mnist(16, 3, 99.40, 0.03, "99.43 (99.40 ± 0.03)"), _mnist(32, 1, 99.54, 0.02, "99.55 (99.54 ± 0.02)")
SHORT_RELEASED = replace(
    WIDTH_16,
    label="w16-released",
    title="16 wide, released recipe",
    network=WIDTH_16.network | _RELEASED,
    plans={"laptop": (1, {"recipe": "released", "epochs": 30})},
    judged=False,
)
TABLE1 = _table(
    "table1",
    "Table 1: MNIST, convolutional highway networks",
    "Ten-layer networks with 39,000 and 151,000 parameters come close to the state of the art on MNIST, with far fewer parameters.",
    (WIDTH_16, WIDTH_32, SHORT_RELEASED),
    {"Maxout, 420,000 parameters": "99.55", "DSN, 350,000 parameters": "99.61"},
    {
        "smoke": "digits instead of MNIST, 2 epochs: shows that everything works, says nothing about the paper.",
        "laptop": "30 epochs with a recipe of our own (quick: one cycle); of the released files' recipe, 300 epochs, a tenth.",
        "paper": "the released files' recipe for 300 epochs, 5 seeds.",
    },
    seen="runs of 10 epochs with the same recipe (results/quick)",
)


def _cifar(
    label: str,
    title: str,
    network: dict[str, Any],
    paper: float,
    reported: str,
    laptop: int = 0,
    data: str = "cifar-10",
    spread: float = 0.0,
    recipe: str = "paper",
) -> Entry:
    plans: dict[Scale, tuple[int, dict[str, Any]]] = {"paper": (5, {"recipe": recipe})}
    if laptop:
        plans |= {"laptop": (1, {"recipe": "quick", "epochs": laptop}), "smoke": (1, _SMOKE)}
    return Entry(label, title, network, data, paper, reported, plans, spread)


HIGHWAY_A = _cifar("highway-a", "Highway A, 11 layers", {"name": "highway-a"}, 89.18, "89.18", 30)
TABLE2_ENTRIES = (
    HIGHWAY_A,
    _cifar("highway-b", "Highway B, 19 layers", {"name": "highway-b", "head": "dense"}, 92.28, "92.46 (92.28 ± 0.16)", spread=0.16),
    _cifar("highway-c", "Highway C, 32 layers", {"name": "highway-c"}, 91.20, "91.20"),
)
TABLE2 = _table(
    "table2",
    "Table 2: CIFAR-10, highway networks beside FitNets",
    "Highway networks are trained directly to the accuracy that FitNets reach with hints from a teacher.",
    TABLE2_ENTRIES,
    {"FitNet's teacher, 5 layers": "90.18", "FitNet A, 11 layers": "89.01", "FitNet B, 19 layers": "91.61"},
    {
        "smoke": "digits instead of CIFAR-10, Highway A alone, 2 epochs: shows that everything works, says nothing about the paper.",
        "laptop": "Highway A (a reconstruction) for 30 epochs with a recipe of our own, one seed; Highway B and C need a GPU: not run.",
        "paper": "400 epochs, 5 seeds; all three networks are reconstructions.",
    },
    seen="a run of Highway A for 15 epochs with the same recipe (results/quick)",
    short="Highway " + ", ".join(f"{entry.short.removeprefix('Highway ')} {entry.paper:.2f} %" for entry in TABLE2_ENTRIES),
)

_GAP = {"name": "highway-b"} | _RELEASED
"""The network of the released files."""
TABLE3_ENTRIES = tuple(
    _cifar(data, f"{name}, Highway B with global average pooling", _GAP, paper, reported, data=data, spread=spread, recipe="released")
    for data, name, paper, reported, spread in (
        ("cifar-10", "CIFAR-10", 92.31, "92.40 (92.31 ± 0.12)", 0.12),
        ("cifar-100", "CIFAR-100", 67.61, "67.76 (67.61 ± 0.15)", 0.15),
    )
)
TABLE3 = _table(
    "table3",
    "Table 3: CIFAR-10 and CIFAR-100",
    "A 19-layer highway network is close to the best of its time on CIFAR-10, and the best on CIFAR-100.",
    TABLE3_ENTRIES,
    {
        f"{name}, CIFAR-10 / CIFAR-100": numbers
        for name, numbers in {
            "Maxout": "90.62 / 61.42",
            "dasNet": "90.78 / 66.22",
            "NiN": "91.19 / 64.32",
            "DSN": "92.03 / 65.43",
            "All-CNN": "92.75 / 66.29",
        }.items()
    },
    {
        "smoke": "there is no small version of it; table2 runs the same code at this scale",
        "laptop": "a 19-layer network needs 330 million multiply-adds a sample, days on a laptop: run --scale paper on a GPU",
        "paper": "network and recipe of the released files, 400 epochs, 5 seeds.",
    },
)

RESNET = Entry(
    "resnet-20",
    "ResNet-20",
    {"name": "resnet-20", "variant": "2016"},
    "cifar-10",
    85.50,
    "85.50",
    {
        "laptop": (1, {"recipe": "quick", "epochs": 30}),
        "smoke": (1, _SMOKE),
        "paper": (5, {"recipe": "quick", "epochs": 200}),
    },
)
REPORT_A = replace(
    RESNET, label="highway-a", title=HIGHWAY_A.title, network={"name": "highway-a", "head": "gap"}, paper=85.49, reported="85.49"
)


def _close(evidence: "Evidence") -> Outcome:
    if not all(entry.accuracies(evidence) for entry in (REPORT_A, RESNET)):
        return Outcome("not reproduced", f"Highway A {REPORT_A.found(evidence)}; ResNet-20 {RESNET.found(evidence)}")
    highway, residual = (entry.mean(evidence) for entry in (REPORT_A, RESNET))
    return Outcome(at_most(round(abs(highway - residual), 6), 1, 3), f"Highway A {highway:.2f} %, ResNet-20 {residual:.2f} %")


REPORT_2016 = _table(
    "report2016",
    "The 2016 report: highway and residual networks on CIFAR-10",
    "Highway A (11 layers) and ResNet-20, trained alike, are equally good: 85.49 % and 85.50 %.",
    (REPORT_A, RESNET),
    {"Highway B": "85.34", "ResNet-32": "83.87"},
    {
        "smoke": "digits instead of CIFAR-10, 2 epochs: shows that everything works, says nothing about the report.",
        "laptop": "one recipe of ours for both, 30 epochs, one seed. The networks are the report's: Highway A has another head than in "
        "table 2, and ResNet-20 neither batch normalisation nor strides.",
        "paper": "one recipe of ours for both, 200 epochs, 5 seeds; networks as at scale laptop.",
    },
    figure="The 2016 report's table",
    source="the 2016 report",
    seen="runs of a Highway A and a ResNet-20 that are not quite the report's, for 15 and 30 epochs with the same recipe (results/quick, "
    "results/table2)",
    more=[Rule("alike", "85.49 % and 85.50 %", "the two accuracies differ by at most 1 point; by at most 3: partly", _close)],
)
