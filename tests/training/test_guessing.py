"""Notes about skewed classes, and about networks that are no better than guessing."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from highwaynet import TrainingSpec
from highwaynet.data.dataset import Split
from highwaynet.data.preparation import Preparation
from highwaynet.data.record import DataRecord
from highwaynet.training.guessing import skewed_classes
from support import Highway

QUICK = ("--depth", 3, "--width", 8, "--threads", 1)
HOPELESS = "the network is no better than guessing"


def part_of(*sizes: int) -> Split:
    names = tuple(f"c{number}" for number in range(len(sizes)))
    shape = {"kind": "features", "task": "classification", "input_shape": (1,), "class_names": names}
    record = DataRecord(found="made", train=sum(sizes), validation=0, test=0, **shape)  # type: ignore[arg-type]
    targets = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return Split(torch.zeros(len(targets), 1), targets, torch.arange(len(targets)), Preparation.restore(record, {}))


@pytest.mark.parametrize(
    ("sizes", "skewed"),
    [
        ((81, 19), True),  # more than 4 times the other
        ((80, 20), False),
        ((61, 20, 19), True),  # more than 60 %
        ((60, 20, 20), False),
        ((41, 10, 10, 10, 10), True),  # more than 4 times the median of the others
        ((40, 10, 10, 10, 10), False),
        ((10, 10, 10), False),
        ((50, 0, 50), False),  # an empty class does not count
        ((5,), False),
    ],
)
def test_when_classes_are_skewed(sizes: tuple[int, ...], skewed: bool) -> None:
    note = skewed_classes(part_of(*sizes), TrainingSpec())
    assert (note is not None) == skewed
    assert skewed_classes(part_of(*sizes), TrainingSpec(class_weight="balanced")) is None


def write(path: Path, inputs: np.ndarray, targets: np.ndarray) -> None:
    np.savez(path, x=inputs.astype(np.float32), y=targets)


def test_skewed_classes_are_told_at_the_start(tmp_path: Path, highway: Highway) -> None:
    classes = np.repeat([0, 1, 2], [320, 50, 30])
    write(tmp_path / "skewed.npz", np.eye(3)[classes] + np.random.default_rng(0).normal(0, 0.1, (400, 3)), classes)
    flags = ("--data", "skewed.npz", *QUICK, "--epochs", 8, "--learning-rate", 0.1)
    result = highway("train", *flags, "--out", "run")
    assert result.returncode == 0
    hint = "highway: class 0 has 79.86\xa0% of the training samples; --class-weight balanced makes all classes count alike"
    before, _, _ = result.stderr.partition("epoch 1/8")
    assert hint in before.splitlines()
    assert HOPELESS not in result.stderr
    again = highway("train", *flags, "--class-weight", "balanced", "--out", "weighted")
    assert "--class-weight" not in again.stderr


@pytest.mark.parametrize(
    ("name", "validation", "words"),
    [
        ("classes.npz", 0.2, "its validation accuracy is "),
        ("classes.npz", 0, "its training accuracy is "),
        ("numbers.npz", 0, "its training R² is -"),
    ],
)
def test_a_network_that_learned_nothing(name: str, validation: float, words: str, tmp_path: Path, highway: Highway) -> None:
    random = np.random.default_rng(0)
    inputs = random.normal(size=(300, 4))
    write(tmp_path / "classes.npz", inputs, np.repeat([0, 1], [200, 100]))
    write(tmp_path / "numbers.npz", inputs, random.normal(size=300))
    flags = ("--epochs", 1, "--learning-rate", 0.00001, "--validation", validation, "--out", "run")
    result = highway("train", "--data", name, *QUICK, *flags)
    assert result.returncode == 0
    (sentence,) = [line for line in result.stderr.splitlines() if HOPELESS in line]
    assert words in sentence
    guess = "guessing the mean gives 0" if name == "numbers.npz" else "always guessing the most frequent class gives 66.67\xa0%"
    assert f", and {guess}; try a training.learning_rate below 1e-05, more epochs or another network, and check the labels" in sentence
    assert HOPELESS in (tmp_path / "run" / "events.log").read_text()
    repeated = [sys.executable, "-m", "highwaynet", "train", "run", "--out", "again"]
    both = subprocess.run(repeated, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, check=True)
    assert both.stdout.splitlines()[-1] == sentence


def test_a_network_that_learned_something_gets_no_note(tmp_path: Path, highway: Highway) -> None:
    result = highway("train", "--depth", 4, "--epochs", 2, "--threads", 1, "--out", "run")
    assert (result.returncode, HOPELESS in result.stderr) == (0, False)


def test_rare_classes_that_are_recognised_count(tmp_path: Path, highway: Highway) -> None:
    """With balanced classes, the accuracy may be below that of guessing although the network has learned."""
    random = np.random.default_rng(0)
    classes = np.repeat([0, 1], [570, 30])
    overlapping = random.normal(size=(600, 1)) + classes[:, None]
    write(tmp_path / "rare.npz", overlapping, classes)
    flags = ("--data", "rare.npz", *QUICK, "--epochs", 20, "--validation", 0, "--learning-rate", 0.02)
    weighted = highway("train", *flags, "--class-weight", "balanced", "--out", "weighted")
    assert HOPELESS not in weighted.stderr
    last = weighted.stdout.splitlines()[0]
    assert float(last.partition("accuracy ")[2].split("\xa0")[0]) < 95, "guessing gives 95 %"
    plain = highway("train", *flags, "--out", "plain")
    assert HOPELESS in plain.stderr


def test_a_validation_part_with_one_class_cannot_judge(tmp_path: Path, highway: Highway) -> None:
    classes = np.repeat(["no", "yes"], [200, 3])
    rows = zip(np.random.default_rng(0).normal(size=203), classes, strict=True)
    (tmp_path / "rare.csv").write_text("x,y\n" + "".join(f"{number},{name}\n" for number, name in rows))
    result = highway("train", "--data", "rare.csv", "--target", "y", *QUICK, "--epochs", 2, "--out", "run")
    (sentence,) = [line for line in result.stderr.splitlines() if "guessing" in line]
    judged = "whether the network is better than guessing cannot be judged: the validation part has no sample of class 'yes'"
    assert sentence == f"{judged}; give more samples"


def test_advice_after_an_early_stop_and_for_skewed_classes(tmp_path: Path, highway: Highway) -> None:
    write(tmp_path / "noise.npz", np.random.default_rng(0).normal(size=(400, 3)), np.repeat([0, 1], [340, 60]))
    flags = ("--data", "noise.npz", *QUICK, "--patience", 1, "--epochs", 100, "--learning-rate", 0.01)
    plain = highway("train", *flags, "--out", "run")
    assert "stopped early" in plain.stderr
    ways = "a training.learning_rate below 0.01 or another network, and check the labels"
    assert f"; try --class-weight balanced, {ways}" in plain.stderr
