"""`highway reproduce`: figures and tables of the paper, from runs on this machine."""

import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from highwaynet.base.errors import InputError, unknown
from highwaynet.cli.data import DATA_ROOT, use_data_root
from highwaynet.cli.output import Ongoing, console, print_json, print_table, usual_workers

if TYPE_CHECKING:
    from highwaynet.experiments.claim_records import ClaimRecord
    from highwaynet.experiments.precision import Format
    from highwaynet.experiments.reproduce import Job
    from highwaynet.experiments.runner import Standing
    from highwaynet.runs.spec import RunSpec

OUT = Path("reproduce")
NOT_JUDGED = "the rules are written for the networks and data of scale laptop; at scale smoke nothing is judged"
PLAIN_LINES = 30.0
"""Without a terminal, minimum seconds between two lines."""


def reproduce_command(
    name: Annotated[str, typer.Argument(help="A claim, or the word list.", show_default=False)],
    scale: Annotated[
        Literal["smoke", "laptop", "paper"],
        typer.Option(help="smoke: a minute, on digits. laptop: what two cores do in an evening. paper: the original budget, for a GPU."),
    ] = "laptop",
    seeds: Annotated[int | None, typer.Option(min=1, max=100, help="Seeds of each network, with its best setting.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, records and figures.")] = OUT,
    reuse: Annotated[
        list[Path] | None, typer.Option(help="A folder with existing runs to use, for instance those of a study; repeatable.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Runs at a time, with one thread each; by default one for each core.")
    ] = None,
    precision: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option(help="Number format in which convolutional networks are trained; bfloat16 is mixed precision."),
    ] = "float32",
    plan: Annotated[bool, typer.Option("--plan", help="Only show what would be run, and how long it takes on this machine.")] = False,
    data_root: Annotated[Path | None, DATA_ROOT] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Repeat a figure or table of the paper: its runs, its numbers beside ours, its figure, and verdicts by rules that are written first.

    The rules are stored before the runs. After Ctrl-C, a crash or a reboot, the same command continues. Claims share runs with the same
    settings. Every ten minutes, and after Ctrl-C, what the rules need of finished runs is written to the claim's folder: with this folder,
    the same command continues on another machine.

    Examples:
    highway reproduce list;
    highway reproduce fig1 --scale smoke;
    highway reproduce table1 --plan
    """
    use_data_root(data_root)
    from highwaynet.experiments.registry import CLAIMS

    if name == "list":
        _list(out, as_json=as_json)
        return
    if name not in CLAIMS:
        raise unknown("claim", name, [*CLAIMS, "list"])
    from highwaynet.cli.asking import need_figures

    need_figures()
    from highwaynet.experiments.reproduce import check_data, prepare, reproduce, seconds_by_format, seconds_left
    from highwaynet.training.interruption import InterruptedRunError, Interruption

    with Interruption(), _Display() as display:  # before and after the runs, signals end the program immediately
        job = prepare(CLAIMS[name], scale, seeds, out, reuse or [], precision, need_data=not plan)
        count = workers or usual_workers()
        if plan:
            if not as_json:
                _show_plan(job)
            check_data(job)
            seconds = seconds_left(job, count, display)
            by_format = seconds_by_format(job, count, display)
            if as_json:
                _print_plan(job, seconds, by_format, count)
            else:
                _show_time(job, seconds, by_format, count)
            return
        for line in _introduction(job):
            display.note(line)
        if job.left:
            display.note(f"{_time_needed(seconds_left(job, count, display), count)}; Ctrl-C stops, and the same command continues")
        try:
            record = reproduce(job, count, display)
        except InterruptedRunError as error:
            raise error.with_way("the same command") from error
    if as_json:
        print_json(record.model_dump(mode="json") | {"folder": str(job.folder)})
    else:
        _show(record, job.claim.source, job.folder)


def _introduction(job: "Job") -> list[str]:
    """Describe what will be run, and how it differs from the paper."""
    from highwaynet.experiments.precision import formats
    from highwaynet.experiments.reproduce import slow_in_bfloat16

    claim, left = job.claim, len(job.left)
    runs = job.expected
    elsewhere = sum(job.pool.is_from_elsewhere(run) for run in runs)
    there = f", {len(runs) - left} of them already done" if left < len(runs) else ""
    lines = [f"{claim.name}, scale {job.scale}: {claim.title}"]
    lines.append(f"runs: {len(runs)}{there}{f' ({elsewhere} from --reuse)' if elsewhere else ''}")
    kinds = Counter((run.spec.network.title, run.spec.data.title, run.spec.training.epochs, _format(run.spec)) for run in runs)
    lines += [f"  {count} × {network} on {data}, epochs: {epochs}{form}" for (network, data, epochs, form), count in kinds.items()]
    if "bfloat16" in formats(runs) and slow_in_bfloat16():
        lines.append("note: this processor has no instructions for bfloat16: --precision float32 is faster")
    if any(run.first for run in runs):
        lines.append("each setting is tried with the first seed; the best one on validation data is repeated with the other seeds")
    return [*lines, *(f"note: {note}" for note in [claim.notes.get(job.scale)] if note)]


def _format(spec: "RunSpec") -> str:
    precision = spec.training.precision
    return "" if precision == "float32" else f", {precision}"


def _time_needed(seconds: float, workers: int) -> str:
    return f"this takes about {_duration(seconds)} here with {workers} {'run' if workers == 1 else 'runs'} at a time"


def _show_time(job: "Job", seconds: float, by_format: dict["Format", float], workers: int) -> None:
    """Print how long a claim takes, and how long it would with convolutional networks in the other number format."""
    from highwaynet.experiments.precision import formats

    if not job.left:
        console.print("nothing is left to run")
        return
    console.print(_time_needed(seconds, workers), soft_wrap=True)
    used = formats(run for run, _ in job.left)
    for other, needed in by_format.items():
        if other not in used:
            console.print(f"with --precision {other}, it would take about {_duration(needed)}", soft_wrap=True)


def _print_plan(job: "Job", seconds: float, by_format: dict["Format", float], workers: int) -> None:
    from highwaynet.experiments.claim_records import rule_texts

    runs = [{"label": run.label, "epochs": run.spec.training.epochs, "done": job.is_done(run)} for run in job.expected]
    rules = [rule.model_dump(mode="json") for rule in rule_texts(job.claim)]
    print_json(
        {
            "claim": job.claim.name,
            "scale": job.scale,
            "runs": runs,
            "rules": rules,
            "judged": job.scale != "smoke",
            "seconds": seconds,
            "seconds_by_precision": by_format,
            "workers": workers,
        }
    )


def _show_plan(job: "Job") -> None:
    names: dict[str, list[str]] = {}
    for rule in job.claim.rules:
        names.setdefault(rule.text, []).append(rule.name)
    rules = [f"rule: {'; '.join(same)}: {text}" for text, same in names.items()]
    for line in [*_introduction(job), *([NOT_JUDGED] if job.scale == "smoke" else rules)]:
        console.print(line, soft_wrap=True)


def _list(out: Path, *, as_json: bool) -> None:
    from highwaynet.experiments.claim_records import folder_name, load_claim
    from highwaynet.experiments.claims import SCALES
    from highwaynet.experiments.registry import CLAIMS

    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: this is a file; name a folder")
    found: dict[str, dict[str, str]] = {name: {} for name in CLAIMS}
    for name, scale in product(CLAIMS, SCALES):
        try:
            if record := load_claim(out / folder_name(name, scale)):
                found[name][scale] = record.shown
        except InputError:
            found[name][scale] = "damaged record"
    if as_json:
        print_json(
            [{"name": claim.name, "title": claim.title, "paper": claim.paper, "done": found[claim.name]} for claim in CLAIMS.values()]
        )
        return
    rows = [
        [claim.name, f"{claim.title}. {claim.paper}", "\n".join(f"{scale}: {verdict}" for scale, verdict in found[claim.name].items())]
        for claim in CLAIMS.values()
    ]
    print_table([("name", "whole"), ("claim", "left"), (f"in {out}", "left")], rows)
    console.print("next: highway reproduce NAME --plan shows what would be run, and how long it takes on this machine", soft_wrap=True)


def _show(record: "ClaimRecord", source: str, folder: Path) -> None:
    if record.rows:
        print_table([("", "left"), (source, "left"), ("here", "left")], [[row.what, row.paper, row.here] for row in record.rows])
    rules, text = [], ""
    for rule in record.rules:
        same, text = rule.text == text, rule.text
        rules.append([f"{rule.name}: {rule.paper}\nrule: {'the same' if same else text}\n", rule.found, rule.shown])
    if record.scale == "smoke":
        console.print(NOT_JUDGED, soft_wrap=True)
    print_table([(source, "left"), ("here", "left"), ("", "left")], rules)
    console.print(f"verdict: {record.shown} (scale {record.scale})", soft_wrap=True)
    if any(rule.fresh for rule in record.rules):
        console.print("fresh: the rule was committed before the runs, and their seeds had not been used before", soft_wrap=True)
    if record.note:
        console.print(f"note: {record.note}", soft_wrap=True)
    for name in record.figures:
        console.print(f"figure: {folder / 'figures' / name}", soft_wrap=True)
    console.print(f"record: {folder / 'record.json'}", soft_wrap=True)


class _Display(Ongoing):
    """Shows the progress of the runs in one line, with the elapsed time on a terminal."""

    def __init__(self) -> None:
        super().__init__(PLAIN_LINES)
        self._began = time.monotonic()

    def show(self, standing: "Standing") -> None:
        """Show the progress of the runs."""
        running = ", ".join(f"{label} epoch {done}/{epochs}" for label, done, epochs in standing.running)
        line = f"{standing.done} of {standing.runs} runs done" + (f"; {running}" if running else "")
        timed = f"{line}; {_duration(time.monotonic() - self._began)}"
        self.draw(lambda: Text(timed), line, line, over=standing.done == standing.runs)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    hours = seconds / 3600
    return f"{minutes} minutes" if minutes < 120 else f"{hours:.1f} hours" if hours < 72 else f"{hours / 24:.0f} days"
