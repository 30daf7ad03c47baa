"""An attack with everything there is: damaged files, kills, failing writes, bombs, two writers, edited records."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attacking import forks
from attacking.disturbances import COMMANDS, Disturber
from attacking.fuzzing import Fuzzer
from attacking.shim import ERRORS, Shim, compiler
from attacking.staged import STAGED
from attacking.targets import TARGETS

BATCH = 25
SHARES = {"damage": 0.45, "kill": 0.35, "failure": 0.2}
"""How the time is divided."""
ROUND = ("train", "overwrite", "resume", "export", "shrink", "reproduce", "train", "overwrite", "resume", "export", "shrink", "search")
"""The order in which commands are disturbed; those that take long come less often."""
KINDS = (*SHARES, *STAGED, *(target.name for target in TARGETS), *COMMANDS)
"""What --only may name."""

Say = Callable[[str], None]


class Session:
    """Attacks in turn.

    Args:
        place: A folder for its files.
        seed: With the same seed, the same attacks are made; how many depends on the time.
        only: Kinds to attack; by default all.
        findings: A folder for what is found.
        say: Called with a line for each finding.
    """

    def __init__(self, place: Path, seed: int, only: Sequence[str] = (), findings: Path | None = None, say: Say = print) -> None:
        self._place, self._seed, self._only, self._findings, self._say = place, seed, only, findings, say
        self._spent = dict.fromkeys(SHARES, 0.0)
        self._done = dict.fromkeys(SHARES, 0)
        self._told: set[int] = set()
        self.staged: dict[str, str] = {}
        targets = [target.name for target in TARGETS if target.name in only]
        self._commands = [name for name in COMMANDS if not only or name in only or {"kill", "failure"} & set(only)]
        wanted = set(SHARES) if not only else {way for way in SHARES if way in only}
        wanted |= {"damage"} if targets else set()
        wanted |= {"kill", "failure"} if not wanted and self._commands else set()
        self.without_compiler = bool(wanted & {"kill", "failure"}) and compiler() is None
        self.ways = [way for way in SHARES if way in wanted and (way == "damage" or not self.without_compiler)]
        shim = Shim(place / "shim") if {"kill", "failure"} & set(self.ways) else None  # before the fork server starts
        self.fuzzer = Fuzzer(place / "damage", seed, targets, findings)
        self.disturber = Disturber(place / "disturbed", seed, shim, self._commands) if shim else None

    def prepare(self) -> None:
        """Make everything that is attacked."""
        forks.preload()
        if "damage" in self.ways:
            self.fuzzer.prepare()
        if self.disturber:
            self.disturber.prepare()

    def stage(self) -> None:
        """Make the attacks that are always the same: bombs, two writers, edited records."""
        for name, attack in STAGED.items():
            if not self._only or name in self._only:
                folder = self._place / name.replace(" ", "-")
                folder.mkdir(parents=True)
                self.staged[name] = attack(folder) or "withstood"
                if self.staged[name] != "withstood":
                    self._say(f"finding: {name}: {self.staged[name]}")

    def step(self, way: str, most: int = BATCH) -> None:
        """Make the next attack of a kind; of damages, a few."""
        began, number = time.monotonic(), self._done[way]
        if way == "damage":
            self.fuzzer.attack_many(number, min(most, BATCH))
            self._done[way] += min(most, BATCH)
        elif self.disturber:
            names = [name for name in ROUND if name in self._commands]
            error = list(ERRORS)[number // len(names) % len(ERRORS)]
            self.disturber.attack(number, names[number % len(names)], "kill" if way == "kill" else error)
            self._done[way] += 1
        self._spent[way] += time.monotonic() - began
        for found in self.findings:
            if id(found) not in self._told:
                self._told.add(id(found))
                self._say(f"finding: {json.dumps(found)[:700]}")

    def run(self, minutes: float, each_minute: Callable[[], None]) -> None:
        """Attack for some time, or until Ctrl-C."""
        end = time.monotonic() + 60 * minutes
        told = time.monotonic()
        with suppress(KeyboardInterrupt):
            while self.ways and time.monotonic() < end:
                self.step(min(self.ways, key=lambda way: self._spent[way] / SHARES[way]))
                if time.monotonic() > told + 60:
                    told = time.monotonic()
                    each_minute()

    def run_cases(self, count: int) -> None:
        """Make this many attacks of each kind."""
        for way in self.ways:
            while self._done[way] < count:
                self.step(way, count - self._done[way])

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What went wrong, of damages and disturbances."""
        return [*self.fuzzer.tally.findings, *(self.disturber.counts.findings if self.disturber else [])]

    def record(self) -> dict[str, Any]:
        """What was tried, and what came of it."""
        tally, counts = self.fuzzer.tally, self.disturber.counts if self.disturber else None
        kills, failures = (counts.kills, counts.failures) if counts else ({}, {})
        wrong = [name for name, outcome in self.staged.items() if outcome != "withstood"]
        return {
            "seed": self._seed,
            "damaged_inputs": tally.total,
            "kills": sum(kills.values()),
            "failing_writes": sum(failures.values()),
            "open_findings": len(self.findings) + len(wrong),
            "inputs_by_kind": {kind: dict(sorted(outcomes.items())) for kind, outcomes in sorted(tally.inputs.items())},
            "kills_by_command": dict(sorted(kills.items())),
            "failing_writes_by_command": dict(sorted(failures.items())),
            "staged": self.staged,
            "longest_seconds": round(tally.longest, 2),
            "largest_memory_mb": round(tally.most_memory / 2**20),
            "findings": self.findings,
        }
