"""Notes about skewed classes, and about networks that are no better than guessing."""

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
    assert result.stderr.splitlines()[1] == hint
    assert HOPELESS not in result.stderr
    again = highway("train", *flags, "--class-weight", "balanced", "--out", "weighted")
    assert "--class-weight" not in again.stderr


def test_a_network_that_learned_nothing(tmp_path: Path, highway: Highway) -> None:
    random = np.random.default_rng(0)
    write(tmp_path / "noise.npz", random.normal(size=(300, 4)), np.repeat([0, 1], [200, 100]))
    write(tmp_path / "numbers.npz", random.normal(size=(300, 4)), random.normal(size=300))
    for data, rate, words in (
        ("noise.npz", 1e-05, "%, and always guessing the most frequent class gives 66.67\xa0%"),
        ("numbers.npz", 0.1, ", and guessing the mean gives 0"),  # it learns the noise
    ):
        result = highway("train", "--data", data, *QUICK, "--epochs", 40, "--learning-rate", f"{rate:.5f}", "--out", f"run-{data}")
        assert result.returncode == 0
        (sentence,) = [line for line in result.stderr.splitlines() if HOPELESS in line]
        assert words in sentence
        ways = f"; try a training.learning_rate below {rate:g}, more epochs or another network, and check the labels"
        assert sentence.endswith(ways)
        assert HOPELESS in (tmp_path / f"run-{data}" / "events.log").read_text()
    without = highway("train", "--data", "noise.npz", *QUICK, "--epochs", 5, "--learning-rate", 0.00001, "--validation", 0, "--out", "all")
    assert "its training accuracy is " in without.stderr


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
