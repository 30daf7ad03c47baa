"""Damages files, lets commands read them, and keeps what goes wrong."""

import json
import os
import random
import re
import select
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attacking import forks
from attacking.forks import Ended, Job
from attacking.judge import finding_in
from attacking.materials import make
from attacking.mutations import damaged
from attacking.repacking import damaged_inside, seal_again
from attacking.scratch import Scratch
from attacking.targets import TARGETS, Question, Target, is_harmless

ODD = ("gone", "folder", "pipe", "link to itself")
"""What a file can be instead of a file."""


@dataclass
class Tally:
    """What was tried, and what came of it."""

    inputs: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kind of input, then by outcome."""
    longest: float = 0.0
    most_memory: int = 0
    """Bytes beyond what the undamaged input needs."""
    findings: list[dict[str, Any]] = field(default_factory=list)

    def add(self, found: dict[str, Any]) -> None:
        outcomes = self.inputs.setdefault(found["kind"], {})
        outcomes[found["outcome"]] = outcomes.get(found["outcome"], 0) + 1
        self.longest, self.most_memory = max(self.longest, found["seconds"]), max(self.most_memory, found["memory"])

    @property
    def total(self) -> int:
        return sum(sum(outcomes.values()) for outcomes in self.inputs.values())


class Fuzzer:
    """Attacks all targets, or some of them.

    Args:
        place: A folder for its files.
        seed: With the same seed, the N-th attack is the same.
        only: Names of targets; by default all.
        findings: A folder for files that show something wrong.
    """

    def __init__(self, place: Path, seed: int, only: Iterable[str] = (), findings: Path | None = None) -> None:
        self.targets = [target for target in TARGETS if not only or target.name in set(only)]
        self.tally = Tally()
        self._place, self._seed, self._findings = place, seed, findings
        self._scratches: dict[str, Scratch] = {}
        self._calm: dict[tuple[str, str], Ended] = {}

    def prepare(self) -> None:
        """Make the undamaged files."""
        for name in dict.fromkeys(target.material for target in self.targets):
            self._scratches[name] = Scratch(make(name, self._place / name))
        self._calm = {(one.name, question.name): self._undamaged(one, question) for one in self.targets for question in one.questions}

    def attack_many(self, first: int, count: int) -> None:
        """Make attacks in one fork, which is fast; each that seems to find something is made again in a fork of its own."""
        done = first
        while done < first + count:
            outcomes = self._in_one_fork(range(done, first + count))
            for outcome in outcomes:
                if outcome["wrong"]:
                    self.attack(done)
                else:
                    self.tally.add(outcome)
                done += 1
            if done < first + count:  # this one ended the fork, or did not end
                for scratch in self._scratches.values():
                    scratch.restore()
                self.attack(done)
                done += 1

    def _in_one_fork(self, numbers: range) -> Iterator[dict[str, Any]]:
        """Yield the outcomes of attacks, in order, until one fails to come."""
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            try:
                os.close(reading)
                forks.enter()
                for number in numbers:
                    os.write(writing, json.dumps(self._try(number, forks.run_here)[0]).encode() + b"\n")
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as lines:
            try:
                for _ in numbers:
                    if not select.select([lines], [], [], 1.5 * forks.PATIENCE)[0] or not (line := lines.readline()):
                        return
                    yield json.loads(line)
            finally:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def attack(self, number: int) -> str | None:
        """Make the N-th attack in a fork of its own; returns what is wrong, if something is."""
        outcome, about, content = self._try(number, forks.run)
        self.tally.add(outcome)
        if wrong := outcome["wrong"]:
            self._keep(about, content)
        return wrong

    def _try(self, number: int, run: Callable[[Job, Path], Ended]) -> tuple[dict[str, Any], dict[str, Any], bytes | None]:
        """Make the N-th attack: its outcome, more about it, and the damaged file."""
        chance = random.Random(f"{self._seed} {number}")
        target = chance.choices(self.targets, [one.weight for one in self.targets])[0]
        scratch, question = self._scratches[target.material], target.question(chance)
        name = chance.choice(target.names(scratch.folder, scratch.contents))
        calm = self._calm[target.name, question.name]
        what, content = self._damage(scratch, name, target, chance)
        ended = run(question.ask(scratch.folder, name), scratch.folder)
        scratch.restore()
        wrong = finding_in(ended, calm, question.expects)
        if wrong in {"not noticed", "silent change"} and is_harmless(question, name, scratch.contents[name], content):
            wrong = None
        fine = "refused" if ended.code else "the same answer" if question.expects == "same" else "answered"
        outcome = {
            "kind": target.name,
            "outcome": wrong or fine,
            "wrong": wrong,
            "seconds": ended.seconds,
            "memory": ended.peak - calm.peak,
        }
        about = {
            "finding": wrong,
            "target": target.name,
            "question": question.name,
            "file": str(name),
            "damage": what,
            "seed": self._seed,
            "case": number,
            "code": ended.code,
            "seconds": round(ended.seconds, 2),
            "stderr": ended.err[-3000:],
            "stdout": ended.out[-500:],
        }
        return outcome, about, content

    def _undamaged(self, target: Target, question: Question) -> Ended:
        """How a command ends with undamaged files."""
        scratch = self._scratches[target.material]
        if target.forged:
            seal_again(scratch.folder / "run")
        ended = forks.run(question.ask(scratch.folder, target.names(scratch.folder, scratch.contents)[0]), scratch.folder, longest=120)
        scratch.restore()
        assert ended.code == 0, f"{target.name}, {question.name}: {ended.err[-2000:]}"
        return ended

    def _damage(self, scratch: Scratch, name: Path, target: Target, chance: random.Random) -> tuple[str, bytes | None]:
        before = scratch.contents[name]
        other = scratch.contents[chance.choice(sorted(scratch.contents))]
        if chance.random() < 0.02 and not target.forged:
            what, content = chance.choice(ODD), None
            _make_odd(scratch.folder / name, what)
            return what, content
        inside = damaged_inside(before, chance, other) if chance.random() < 0.5 else None
        what, content = inside or damaged(before, chance, other)
        scratch.write(name, content)
        if target.forged:
            seal_again(scratch.folder / "run")
        return what, content

    def _keep(self, about: dict[str, Any], content: bytes | None) -> None:
        about |= {"repeat": f"python tests/attack.py --seed {self._seed} --case {about['case']}"}
        self.tally.findings.append(about)
        if self._findings is not None:
            self._findings.mkdir(parents=True, exist_ok=True)
            stem = re.sub(r"[^a-z0-9]+", "-", f"{about['target']}-{self._seed}-{about['case']}")
            (self._findings / f"{stem}.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
            if content is not None:
                (self._findings / f"{stem}.{Path(about['file']).name}").write_bytes(content)


def _make_odd(path: Path, what: str) -> None:
    path.unlink()
    match what:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "link to itself":
            path.symlink_to(path.name)
