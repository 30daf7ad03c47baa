"""Kills, full disks and folders that cannot be written to, in the middle of the file operations of seven commands.

A command that was killed is given again. What it then leaves must be what an undisturbed one leaves, to the bit. Where a write fails, the
command says so in one sentence; an earlier run is still there, and the same command succeeds once the disk has space again.
"""

import json
import random
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attacking import materials
from attacking.materials import CLAIM, highway
from attacking.shim import COUNT, ERRORS, FAIL, KILL, MOMENTS, Shim
from forked import start
from highwaynet.runs.replacing import earlier_runs
from holding import PATIENCE
from search.kill_search import results as study_results

RUN = ("spec.toml", "plan.json", "history.jsonl", "data.json", "data.safetensors", "checkpoints/final.safetensors")
LONGEST = 240
"""Seconds after which a command hangs."""
CLOCKS = ("timing.jsonl", "environment.json")


def run_results(run: Path) -> dict[str, bytes]:
    """What must be equal in two runs; what has times in it, or depends on how often a run was saved, is left out."""
    best = [str(path.relative_to(run)) for path in run.glob("checkpoints/best-*.safetensors")]
    return {name: (run / name).read_bytes() for name in (*RUN, *sorted(best))}


def all_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@dataclass(frozen=True)
class Command:
    """A command that is disturbed.

    Args:
        arguments: What is typed, in its folder.
        again: What is typed after a disturbance.
        prepare: Puts what it needs into its folder, given the folder of materials.
        results: What it leaves, to compare.
        codes: Exit codes after a failed write; 1 where another process failed, which the command reports.
        earlier: Whether the run that is there must survive a disturbance.
    """

    arguments: tuple[str, ...]
    again: tuple[str, ...]
    prepare: Callable[[Path, Path], object]
    results: Callable[[Path], Any]
    codes: Sequence[int] = (2,)
    earlier: bool = False


def _copy(*names: str) -> Callable[[Path, Path], object]:
    def prepare(base: Path, work: Path) -> None:
        for name in names:
            source = base / name
            shutil.copytree(source, work / source.name) if source.is_dir() else shutil.copy(source, work / source.name)

    return prepare


def _claim(work: Path) -> Any:
    folder = work / "out" / f"{CLAIM}-smoke"
    with zipfile.ZipFile(folder / "runs.zip") as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if not name.endswith(CLOCKS)}
    plan = json.loads((folder / "plan.json").read_text())
    return (folder / "record.json").read_bytes(), plan, kept, (folder / "figures" / "carry.png").exists()


def _shrunk(work: Path) -> Any:
    record = json.loads((work / "small" / "record.json").read_text())
    removed = [record["removed"], [one["test"] for one in record["healed"]]]
    return run_results(work / "small" / "network"), removed, (work / "small" / "shrink.html").exists()


def _exported(work: Path) -> Any:
    return (work / "weights.safetensors").read_bytes(), sorted(path.name for path in work.iterdir())


RESUME = ("train", "run", "--resume")
SEARCH = ("search", "study.toml", "--out", "done", "--workers", "1", "--json")
REPRODUCE = ("reproduce", CLAIM, "--scale", "smoke", "--out", "out", "--workers", "1", "--json")
SHRINK = ("shrink", "run", "--keep", "1", "--heal-epochs", "1", "--samples", "20", "--out", "small")
EXPORT = ("export", "run", "--to", "safetensors", "--out", "weights.safetensors")
TRAIN = ("train", "run.toml", "--out", "run")
COMMANDS = {
    "train": Command(TRAIN, (*TRAIN, "--resume"), _copy("run.toml"), lambda work: run_results(work / "run")),
    "overwrite": Command(
        (*TRAIN, "--overwrite"),
        (*TRAIN, "--overwrite"),
        _copy("run.toml", "other/run"),
        lambda work: run_results(work / "run"),
        earlier=True,
    ),
    "resume": Command(RESUME, RESUME, _copy("unfinished/run"), lambda work: run_results(work / "run")),
    "search": Command(SEARCH, SEARCH, _copy("study.toml"), lambda work: study_results(work / "done"), (2, 1)),
    "reproduce": Command(REPRODUCE, REPRODUCE, lambda *_: None, _claim, (2, 1)),
    "shrink": Command(SHRINK, SHRINK, _copy("run"), _shrunk, earlier=True),
    "export": Command(EXPORT, EXPORT, _copy("run"), _exported, earlier=True),
}


@dataclass
class Counts:
    """How often each command was disturbed."""

    kills: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)


class Disturber:
    """Disturbs the seven commands.

    Args:
        place: A folder for its files.
        seed: Which operations are hit.
        shim: The preloaded library.
        names: The commands.
    """

    def __init__(self, place: Path, seed: int, shim: Shim, names: Sequence[str] = tuple(COMMANDS)) -> None:
        self._names = names
        self._place, self._seed, self._shim = place, seed, shim
        self._base = place / "base"
        self._calm: dict[str, tuple[int, Any]] = {}
        self.counts = Counts()

    def prepare(self) -> None:
        """Make what the commands need, and let each run undisturbed."""
        self._base.mkdir(parents=True)
        materials.arrays(self._base)
        (self._base / "study.toml").write_text(materials.STUDY)
        data = str(self._base / "plain.npz")
        for name, seed in (("run.toml", 3), ("other.toml", 4)):
            text = materials.run_file(data, "validation = 0.2").replace("seed = 3", f"seed = {seed}")
            (self._base / name).write_text(text)
        highway("train", "run.toml", "--out", "run", cwd=self._base)
        highway("train", "other.toml", "--out", "other/run", cwd=self._base)
        process = start(45, "train", "run.toml", "--out", "unfinished/run", module="shaken", cwd=self._base)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == -9, "the run was to be killed"
        for name in self._names:
            command, work = COMMANDS[name], self._work(name)
            self._shim.arm(COUNT, work)
            highway(*command.arguments, cwd=work)
            operations, _ = self._shim.disarm()
            self._calm[name] = operations, command.results(work)

    def _work(self, name: str) -> Path:
        work = self._place / name  # always the same, because runs store paths
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        COMMANDS[name].prepare(self._base, work)
        return work

    def attack(self, number: int, name: str, way: str) -> str | None:
        """Disturb a command: way is kill, or the name of an error. Returns what is wrong afterwards, if something is."""
        chance = random.Random(f"{self._seed} {name} {number} {way}")
        command, (operations, expected) = COMMANDS[name], self._calm[name]
        work, hit = self._work(name), chance.randint(1, operations)
        moment = chance.choice(MOMENTS)
        before = all_files(work / "run") if command.earlier else {}
        if way == "kill":
            self._shim.arm(KILL, work, hit, moment)
        else:
            self._shim.arm(FAIL, work, hit, error=ERRORS[way])
        code, err = _run(command.arguments, work)
        _, hits = self._shim.disarm()
        wrong = _wrong_ending(code, err, command, way) if hits else None
        if hits and not wrong and command.earlier:
            wrong = _lost(before, work, expected if name == "overwrite" else None)
        if not wrong:
            wrong, err = _finish(command, work, expected, err)
        if hits:
            table = self.counts.kills if way == "kill" else self.counts.failures
            table[name] = table.get(name, 0) + 1
        if wrong:
            about = {"finding": wrong, "command": name, "way": way, "operation": hit, "of": operations, "moment": moment}
            about |= {"repeat": f"python tests/attack.py --seed {self._seed} --only {name} --case {number} --way {way}"}
            kept = work.rename(work.with_name(f"{name}-{number}-{way}"))
            self.counts.findings.append(about | {"stderr": err[-3000:], "folder": str(kept)})
        return wrong


def _run(arguments: Sequence[str], work: Path) -> tuple[int | None, str]:
    """Run a command; returns its exit code, None if it hangs, and what it said."""
    process = start(*arguments, cwd=work)
    try:
        return process.wait(LONGEST), process.communicate()[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return None, process.communicate()[1]


def _wrong_ending(code: int | None, err: str, command: Command, way: str) -> str | None:
    """What is wrong with how a disturbed command ended."""
    if code is None:
        return "hangs"
    if "Traceback" in err or "error in highwaynet itself" in err:
        return "traceback"
    if way == "kill":  # a command whose worker was killed starts another one, and succeeds
        return None if code in {-9, 0} else f"exit code {code} after a kill"
    if code == 0:
        return None  # what could not be written was not needed; the results are compared
    if code not in command.codes:
        return f"exit code {code} after a failed write"
    return None if err.splitlines()[-1:] and err.splitlines()[-1].startswith("highway: ") else "no sentence"


def _lost(before: dict[str, bytes], work: Path, replacement: Any) -> str | None:
    """Whether an earlier run is gone: it must be where it was, or set aside, or the new one must be complete."""
    for place in (work / "run", *earlier_runs(work / "run")):
        if place.is_dir() and before.items() <= all_files(place).items():
            return None
    try:
        if replacement is not None and run_results(work / "run") == replacement:
            return None
    except OSError:
        pass
    return "the earlier run is lost"


def _finish(command: Command, work: Path, expected: Any, err: str) -> tuple[str | None, str]:
    """Give the command again, undisturbed, and compare what it leaves."""
    code, err = _run(command.again, work)
    if code:
        return f"exit code {code} when it was given again", err
    try:
        found = command.results(work)
    except (OSError, KeyError, AssertionError) as error:
        return f"results are missing: {error!r}", err
    if found != expected:
        return "other results than without the disturbance", err
    # Next to a file that the user names, a temporary file may be that of another process that still writes; elsewhere, a lock tells.
    if leftovers := [path.name for path in work.glob("*/**/.*.tmp")]:
        return f"leftovers: {leftovers[:3]}", err
    return None, err
