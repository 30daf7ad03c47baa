"""What is attacked: kinds of files, and the commands that read them."""

import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from attacking.forks import Job, command, function
from attacking.judge import Expects, means_the_same

Ask = Callable[[Path, Path], Job]
"""Given the folder and the name of the damaged file, what is run."""


@dataclass(frozen=True)
class Question:
    """A command, and what is expected of it."""

    name: str
    ask: Ask
    expects: Expects = "any"
    weight: float = 1.0
    unsealed: tuple[str, ...] = ()
    """Files that it need not notice."""


@dataclass(frozen=True)
class Target:
    """A kind of files.

    Args:
        name: Its name.
        material: Which files are made for it.
        files: Which of them are damaged.
        questions: The commands that read them.
        weight: How often it is attacked.
        forged: Whether checksums are computed again.
    """

    name: str
    material: str
    files: tuple[str, ...]
    questions: tuple[Question, ...]
    weight: float = 1.0
    forged: bool = False

    def names(self, folder: Path, known: dict[Path, bytes]) -> list[Path]:
        found = [name for name in known if any(name.match(pattern) or str(name) == pattern for pattern in self.files)]
        assert found, f"{self.name}: no files in {folder}"
        return found

    def question(self, chance: random.Random) -> Question:
        return chance.choices(self.questions, [one.weight for one in self.questions])[0]


def says(*arguments: str) -> Ask:
    """A command; FILE stands for the damaged file."""
    return lambda _, file: command(*(str(file) if argument == "FILE" else argument for argument in arguments))


def _unpack(folder: Path, file: Path) -> Job:
    from highwaynet.data.archives import unpack_tar

    place = folder / "unpacked"
    return function(lambda: sorted(unpack_tar(folder / file, place, size_limit=10**6, member_limit=32)))


def _check_spec(_: Path, file: Path) -> Job:
    """All that `highway train` does before the first step."""

    def stop(*_: object) -> None:
        sys.exit(0)

    def run() -> None:
        with patch("highwaynet.training.loop._train", stop):
            command("train", str(file), "--out", "new")()

    return run


def _check_study(folder: Path, file: Path) -> Job:
    """All that `highway search` does before anything is written."""
    from highwaynet.search.configurations import check_runs
    from highwaynet.search.spec import read_study

    return function(lambda: check_runs(read_study(folder / file)))


def _judge(folder: Path, _: Path) -> Job:
    """What the tests of committed records do."""
    from attacking.materials import CLAIM
    from highwaynet.experiments.claim_records import load_claim, load_plan
    from highwaynet.experiments.registry import CLAIMS
    from highwaynet.experiments.reproduce import judged, stored_evidence

    def run() -> object:
        place = folder / "out" / f"{CLAIM}-smoke"
        record, plan = load_claim(place), load_plan(place)
        return record and plan and judged(CLAIMS[CLAIM], stored_evidence(place, record), plan)

    return function(run)


def _resume(folder: Path, _: Path) -> Job:
    """Resume a run; the answer is what it leaves."""

    def run() -> None:
        try:
            command("train", "run", "--resume")()
        except SystemExit as ended:
            if ended.code:
                raise
        from highwaynet.base.files import sha256

        place = folder / "run"
        names = [
            "history.jsonl",
            "checkpoints/final.safetensors",
            *sorted(f"checkpoints/{one.name}" for one in place.glob("*/best-*.safetensors")),
        ]
        os.ftruncate(1, 0)
        os.lseek(1, 0, os.SEEK_SET)
        print([(name, sha256((place / name).read_bytes())) for name in names])

    return run


def _describes(*more: str) -> tuple[Question, ...]:
    return (Question("describe", says("data", "describe", "FILE", "--json", *more)),)


def _reads(name: str, root: str) -> tuple[Question, ...]:
    return (Question("describe", says("data", "describe", name, "--data-root", root, "--json")),)


RUN_FILES = ("run/*", "run/checkpoints/*", "run/analysis/*")
UNSEALED = ("run/events.log",)
TARGETS = (
    Target("csv", "tables", ("t.csv", "t.tsv", "t.csv.gz"), _describes("--target", "kind"), 2),
    Target("parquet", "tables", ("*.parquet",), _describes("--target", "kind"), 2),
    Target("image folder", "images", ("images/*/*",), (Question("describe", says("data", "describe", "images", "--json")),), 2),
    Target("arrays (.npz)", "arrays", ("*.npz",), _describes(), 2),
    Target("arrays (.npy)", "arrays", ("arrays/*",), (Question("describe", says("data", "describe", "arrays", "--json")),)),
    Target("idx", "sets", ("plain/mnist/*",), _reads("mnist", "plain")),
    Target("idx.gz", "sets", ("zipped/mnist/*",), _reads("mnist", "zipped")),
    Target("cifar-10 binary", "sets", ("binary/cifar-10-batches-bin/*",), _reads("cifar-10", "binary"), 0.5),
    Target("cifar-100 binary", "sets", ("binary/cifar-100-binary/*",), _reads("cifar-100", "binary"), 0.5),
    Target("cifar-10 python", "sets", ("python/cifar-10-batches-py/*",), _reads("cifar-10", "python")),
    Target("cifar-10 python 3", "sets", ("modern/cifar-10-batches-py/*",), _reads("cifar-10", "modern"), 0.5),
    Target("cifar-100 python", "sets", ("python/cifar-100-python/*",), _reads("cifar-100", "python"), 0.5),
    Target("archive", "sets", ("archived/*",), (Question("unpack", _unpack),)),
    Target(
        "table to predict for",
        "run",
        ("new.csv", "t.parquet", "t.csv.gz"),
        (
            Question("predict", says("predict", "run", "FILE", "--json")),
            Question("predict --skip-bad", says("predict", "run", "FILE", "--skip-bad", "--keep", "colour", "--csv")),
        ),
    ),
    Target(
        "image to predict for",
        "image-run",
        ("images/*/*",),
        (
            Question("predict", says("predict", "run", "FILE", "--json")),
            Question("predict --skip-bad", says("predict", "run", "images/cat", "--skip-bad", "--csv"), weight=0.3),
        ),
    ),
    Target(
        "run",
        "run",
        RUN_FILES,
        (
            Question("predict", says("predict", "run", "new.csv", "--json"), "same", 4),
            Question("verify", says("verify", "run"), "noticed", 3, UNSEALED),
            Question("evaluate", says("evaluate", "run", "--json"), "same", 2),
            Question("runs", says("runs", ".", "--json"), "listed", 1),
            Question("inspect", says("inspect", "run", "--what", "gates", "--out", "gates.png"), weight=0.05),
            Question("report", says("report", "run", "--quick", "--out", "report.html"), weight=0.02),
            Question("export", says("export", "run", "--to", "onnx", "--out", "run.onnx"), weight=0.05),
        ),
        4,
    ),
    Target(
        "forged run",
        "run",
        ("run/spec.toml", "run/plan.json", "run/data.json", "run/data.safetensors", "run/checkpoints/*.safetensors"),
        (
            Question("predict", says("predict", "run", "new.csv", "--json"), weight=3),
            Question("evaluate", says("evaluate", "run", "--json"), weight=1),
            Question("runs", says("runs", ".", "--json"), "listed", 1),
        ),
        3,
        forged=True,
    ),
    Target(
        "forged image run",
        "image-run",
        ("run/plan.json", "run/data.json"),
        (Question("predict", says("predict", "run", "images/cat")),),
        1,
        True,
    ),
    Target("unfinished run", "unfinished", RUN_FILES, (Question("resume", _resume, "same"),), 0.3),
    Target("spec", "spec", ("run.toml", "conv.toml"), (Question("train", _check_spec),), 1),
    Target("study file", "spec", ("study.toml",), (Question("check", _check_study),), 0.5),
    Target(
        "study",
        "study",
        ("done/study.db", "done/study.toml"),
        (
            Question("show", says("search", "show", "done", "--json"), weight=3),
            Question("best", says("search", "best", "done")),
            Question("finals", says("search", "finals", "done", "--top", "1"), weight=0.5),
        ),
        1.5,
    ),
    Target(
        "claim",
        "claim",
        ("out/*-smoke/*.json", "out/*-smoke/runs.zip"),
        (Question("judge", _judge, weight=4), Question("list", says("reproduce", "list", "--out", "out", "--json"), "listed")),
        1.5,
    ),
    Target(
        "run of a claim",
        "claim",
        ("out/runs/*/*", "out/runs/*/checkpoints/*", "out/*-smoke/*.json", "out/*-smoke/runs.zip"),
        (Question("reproduce", says("reproduce", "carry", "--scale", "smoke", "--out", "out", "--workers", "1", "--json")),),
        0.1,
    ),
)


def is_harmless(question: Question, name: Path, before: bytes, after: bytes | None) -> bool:
    """Whether a command may call this damage none: the file says the same, is not sealed, or is a seal that is gone (an older run)."""
    if str(name) in question.unsealed or before == after:
        return True
    if name.name == "seals.json" and after is None:
        return True
    return name.suffix == ".json" and after is not None and means_the_same(before, after)
