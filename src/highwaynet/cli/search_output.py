"""Output of `highway search`: progress of a study, and its results."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from highwaynet.base.text import loss_text
from highwaynet.cli.output import Ongoing, console, print_json, print_table

if TYPE_CHECKING:
    from highwaynet.search.results import ConfigurationResult, StudyResult, TrialResult
    from highwaynet.search.spec import StudySpec
    from highwaynet.search.status import StudyStatus
    from highwaynet.search.study import Place

PLAIN_LINES = 10.0
"""Without a terminal, minimum seconds between two lines."""


def opening(spec: "StudySpec", workers: int, where: str) -> str:
    """Describe what will be run."""
    from highwaynet.search.configurations import configurations

    count = len(configurations(spec))
    what = f"{count} configuration{'s' if count > 1 else ''} of {spec.trials} trials"
    order = f"; with {_order(spec)}, results depend on the order in which trials end" if spec.depends_on_order else ""
    return f"study {spec.name}: {what}, {workers} worker{'s' if workers > 1 else ''}, storage {where}{order}"


def _order(spec: "StudySpec | StudyResult") -> str:
    words = ["sampler tpe"] if spec.sampler == "tpe" else []
    return " and ".join(words + ([f"pruner {spec.pruner}"] if spec.pruner != "none" else []))


class StudyDisplay(Ongoing):
    """Shows the progress of a study: a table on a terminal, lines elsewhere."""

    def __init__(self, spec: "StudySpec") -> None:
        super().__init__(PLAIN_LINES)
        self._spec = spec

    def show(self, standings: list["StudyStatus"], workers: int) -> None:
        """Show the progress of each configuration."""
        from highwaynet.search.status import seconds_left

        left = seconds_left(standings, workers)
        line = self._line(standings, left)
        over = all(one.is_over for one in standings)
        self.draw(lambda: self._table(standings, line), line, line.partition(";")[0], over=over)

    def _line(self, standings: list["StudyStatus"], left: float | None) -> str:
        total = {name: sum(getattr(one, name) for one in standings) for name in ("done", "running", "pruned", "failed", "trials")}
        pruned = f" ({total['pruned']} pruned)" if total["pruned"] else ""
        counts = f"{total['done']} of {total['trials']} done{pruned}, {total['running']} running, {total['failed']} failed"
        sign = -1 if self._spec.maximises else 1
        best = min((one for one in standings if one.best is not None), key=lambda one: sign * (one.best or 0.0), default=None)
        found = f"; best {self._spec.objective} {loss_text(best.best or 0.0)} ({best.label} {best.best_index})" if best else ""
        return counts + found + (f"; {_duration(left)} left" if left else "")

    def _table(self, standings: list["StudyStatus"], title: str) -> Table:
        table = Table(title=title, title_justify="left", header_style="bold")
        table.add_column("configuration", no_wrap=True)
        for heading in ("done", "running", "pruned", "failed", "best"):
            table.add_column(heading, justify="right", no_wrap=True)
        for one in standings:
            best = "" if one.best is None else f"{loss_text(one.best)} ({one.best_index})"
            table.add_row(one.label, f"{one.done}/{one.trials}", f"{one.running}", f"{one.pruned}", f"{one.failed}", best)
        return table


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def show_study(result: "StudyResult", place: "Place", *, as_json: bool, files: "list[Path] | None" = None) -> None:
    """Print the results of a study as a table or as JSON."""
    from highwaynet.search.importance import FEWEST

    if as_json:
        print_json(result.model_dump(mode="json") | {"figures": [str(path) for path in files or []]})
        return
    _print_configurations(result)
    rule = f"the share of settings whose lowest training loss is below {result.trained_below}"
    console.print(f"best: {_objective(result)}; trained: {rule}", soft_wrap=True)
    for one in result.configurations:
        if one.best is not None:
            console.print(f"{one.label}: trial {one.best.index}, {_settings(one.best)}", soft_wrap=True)
        if one.importance:
            shares = ", ".join(f"{field.partition('.')[2]} {100 * share:.0f}\u00a0%" for field, share in one.importance.items())
            console.print(f"  importance for the best tenth (PED-ANOVA): {shares}", soft_wrap=True)
        elif one.best is not None:
            console.print(f"  importance: needs at least {FEWEST} trials, and settings that all of them have", soft_wrap=True)
        for index, reason in one.failed.items():
            console.print(f"  trial {index} failed: {reason}", soft_wrap=True)
    if order := _order(result):
        console.print(f"with {order}, results depend on the order in which trials ended", soft_wrap=True)
    for path in files or []:
        console.print(f"figure: {path}", soft_wrap=True)
    where = shlex.quote(str(place.folder)) if place.storage.file else f"{place.name} --storage {shlex.quote(place.storage.shown)}"
    if not all(one.is_over for one in result.configurations):
        console.print(f"not finished; continue with: highway search {where}{'' if place.storage.file else ' --join'}", soft_wrap=True)
    elif result.best():
        console.print(f"next: highway search best {where} > run.toml", soft_wrap=True)


def _objective(result: "StudyResult") -> str:
    return {
        "train-loss": "the lowest training loss over the epochs",
        "validation-loss": "the lowest validation loss over the epochs",
        "validation-accuracy": "the highest validation accuracy over the epochs",
    }[result.objective]


def _print_configurations(result: "StudyResult") -> None:
    """Print a row for each configuration; columns for pruned, diverged and failed trials appear only if there are any."""
    from highwaynet.search.results import TOP

    known = result.configurations
    counts = {
        "pruned": [one.pruned for one in known],
        "diverged": [one.diverged for one in known],
        "failed": [len(one.failed) for one in known],
    }
    columns = {
        "configuration": [one.label for one in known],
        "done": [f"{one.done}/{one.trials}" for one in known],
        **{name: [f"{number}" for number in numbers] for name, numbers in counts.items() if any(numbers)},
        "trained": ["" if one.trained_share is None else f"{100 * one.trained_share:.0f}\u00a0%" for one in known],
        "best": ["" if one.best is None else loss_text(one.best.value or 0.0) for one in known],
        f"{TOP} best, mean ± std": [_mean_of_best(one) for one in known],
    }
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    print_table([(heading, "whole" if heading == "configuration" else "right") for heading in columns], rows)


def _mean_of_best(one: "ConfigurationResult") -> str:
    """Return mean ± std of the ten best; if there are fewer, with their number."""
    from highwaynet.search.results import TOP

    if one.top_mean is None or one.top_std is None:
        return ""
    fewer = f" ({len(one.top)})" if len(one.top) < TOP else ""
    return f"{loss_text(one.top_mean)} ± {loss_text(one.top_std)}{fewer}"


def _settings(trial: "TrialResult") -> str:
    return ", ".join(f"{field} {value:.4g}" if isinstance(value, float) else f"{field} {value}" for field, value in trial.settings.items())
