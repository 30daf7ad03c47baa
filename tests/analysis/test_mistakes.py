"""What a network gets wrong: by hand, and against scikit-learn."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from highwaynet import RunSpec, evaluate, inspect, train
from highwaynet.analysis.analysis_records import Origin
from highwaynet.analysis.mistakes import analyse_mistakes, calibration, class_scores
from highwaynet.analysis.mistakes_record import MistakesRecord
from highwaynet.data.dataset import Split
from highwaynet.data.load import load_dataset
from highwaynet.data.preparation import Preparation
from highwaynet.data.record import DataRecord
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.record_files import load_record, save_record


class Given(nn.Module):
    """A network whose outputs are its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return x


def split_of(outputs: Tensor, targets: Tensor, names: tuple[str, ...] = (), **more: object) -> Split:
    """Samples for which `Given` answers with these outputs, (samples, classes) or (samples, 1)."""
    kind = {"kind": "features", "task": "classification" if names else "regression", "class_names": names} | more
    counts = {"train": len(targets), "validation": 0, "test": 0}
    record = DataRecord(found="made", input_shape=tuple(outputs.shape[1:]), **kind | counts)  # type: ignore[arg-type]
    return Split(outputs, targets, torch.arange(len(targets)), Preparation.restore(record, {}))


def mistakes_of(split: Split, origin: Origin, trained_on: Split | None = None) -> MistakesRecord:
    return analyse_mistakes(Given(), split, origin=origin, train=trained_on or split)


def logits(*probabilities: tuple[float, ...]) -> Tensor:
    return torch.tensor(probabilities).log()


PROBABILITIES = ((0.7, 0.2, 0.1), (0.6, 0.3, 0.1), (0.1, 0.8, 0.1), (0.9, 0.05, 0.05), (0.3, 0.5, 0.2), (0.55, 0.25, 0.2))
TRUTH = (0, 1, 1, 2, 1, 0)  # predicted: 0, 0, 1, 0, 1, 0


def test_classes_by_hand(origin: Origin) -> None:
    record = mistakes_of(split_of(logits(*PROBABILITIES), torch.tensor(TRUTH), ("ant", "bee", "cat")), origin)
    assert record.confusion.tolist() == [[2, 0, 0], [1, 2, 0], [1, 0, 0]]
    rows = [(row.name, row.precision, row.recall, row.support, row.predicted) for row in record.classes]
    assert rows == [("ant", 2 / 4, 1.0, 2, 4), ("bee", 1.0, 2 / 3, 3, 2), ("cat", None, 0.0, 1, 0)]
    assert record.score.accuracy == pytest.approx(4 / 6)
    assert record.balanced_accuracy == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert (record.majority, record.baseline_accuracy) == ("bee", 3 / 6)
    told = [(one.row, one.name, one.true, one.predicted, round(one.probability or 0, 4)) for one in record.worst]
    assert told == [(3, "sample 3", "cat", "ant", 0.9), (1, "sample 1", "bee", "ant", 0.6)], "the most confident first"
    assert [row.name for row in record.hardest(2)] == ["cat", "bee"]


def test_the_majority_is_that_of_the_training_data(origin: Origin) -> None:
    part = split_of(logits(*PROBABILITIES), torch.tensor(TRUTH), ("ant", "bee", "cat"))
    trained_on = split_of(logits(*PROBABILITIES), torch.tensor((2, 2, 2, 2, 1, 0)), ("ant", "bee", "cat"))
    record = mistakes_of(part, origin, trained_on)
    assert (record.majority, record.baseline_accuracy) == ("cat", 1 / 6)


def test_calibration_by_hand() -> None:
    sure = np.array([0.5, 0.52, 0.95, 1.0, 1.0])  # bins of 1/15: number 7 (7/15 to 8/15), and number 14 (14/15 to 1)
    right = np.array([True, False, True, True, False])
    found = calibration(sure, right)
    assert found["bin_samples"].tolist() == [0] * 7 + [2] + [0] * 6 + [3]
    assert found["bin_confidence"][[7, 14]] == pytest.approx([0.51, 2.95 / 3])
    assert found["bin_accuracy"][[7, 14]] == pytest.approx([0.5, 2 / 3])
    assert np.isnan(found["bin_accuracy"][0])
    assert found["calibration_error"] == pytest.approx(2 / 5 * 0.01 + 3 / 5 * (2.95 / 3 - 2 / 3))
    edge = calibration(np.array([1 / 3, 0.0]), np.array([True, True]))["bin_samples"]  # 1/3 is the upper edge of bin 4
    assert (edge[4], edge[0]) == (1, 1)


def test_numbers_by_hand(origin: Origin) -> None:
    standardised = torch.tensor([-1.0, 0.0, 1.0, 2.0])
    outputs = torch.tensor([[-0.5], [0.0], [0.0], [2.5]])
    split = split_of(outputs, standardised, kind="table", target_name="price", target_mean=1000.0, target_std=100.0)
    record = mistakes_of(split, origin)
    assert record.mae == pytest.approx(100 * (0.5 + 0 + 1 + 0.5) / 4)
    assert record.score.rmse == pytest.approx(100 * ((0.25 + 0 + 1 + 0.25) / 4) ** 0.5)
    assert record.largest_error == pytest.approx(100)
    assert record.baseline_rmse == pytest.approx(100 * (6 / 4) ** 0.5)
    assert record.baseline_mae == pytest.approx(100)
    assert record.baseline_r2 == pytest.approx(1 - 1.5 / 1.25)
    assert record.predictions.tolist() == [950, 1000, 1000, 1250]
    assert record.targets.tolist() == [900, 1000, 1100, 1200]
    told = [(one.name, one.target, one.prediction) for one in record.worst]
    assert told == [("row 3", 1100, 1000), ("row 1", 900, 950), ("row 4", 1200, 1250), ("row 2", 1000, 1000)]


def test_many_numbers_are_sampled_evenly(origin: Origin) -> None:
    numbers = torch.arange(5000.0)
    record = mistakes_of(split_of(numbers[:, None], numbers), origin)
    assert (len(record.targets), len(record.worst)) == (2000, 12)
    assert record.targets[[0, 1, 1999]].tolist() == [0, 2, 4997]
    assert record.targets.tolist() == record.predictions.tolist()


def test_a_network_that_diverged_still_gets_a_record(origin: Origin, tmp_path: Path) -> None:
    record = mistakes_of(split_of(torch.full((3, 2), torch.nan), torch.tensor([0, 1, 1]), ("a", "b")), origin)
    assert record.calibration_error is None
    assert len(record.worst) + (record.score.accuracy or 0) * 3 == 3
    save_record(tmp_path, "mistakes-test", record)
    assert load_record(tmp_path, "mistakes-test", MistakesRecord) == record
    numbers = mistakes_of(split_of(torch.tensor([[torch.nan], [0.0]]), torch.tensor([1.0, 2.0])), origin)
    save_record(tmp_path, "numbers", numbers)
    assert load_record(tmp_path, "numbers", MistakesRecord) == numbers
    assert numbers.worst[0].row == 0


SKLEARN = """
import json, sys, warnings
import numpy as np
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, precision_recall_fscore_support
warnings.simplefilter("ignore")
truth, found = json.load(sys.stdin)
precision, recall, _, support = precision_recall_fscore_support(truth, found, labels=range(6), zero_division=0)
print(json.dumps({"confusion": confusion_matrix(truth, found, labels=range(6)).tolist(), "precision": precision.tolist(),
    "recall": recall.tolist(), "support": support.tolist(), "balanced": balanced_accuracy_score(truth, found)}))
"""


def test_scikit_learn_says_the_same(origin: Origin) -> None:
    """In a process of its own, because scikit-learn brings a second OpenMP runtime."""
    random = np.random.default_rng(0)
    truth = random.choice(5, size=300, p=[0.5, 0.3, 0.1, 0.07, 0.03])  # class 5 has no samples
    found = np.where(random.random(300) < 0.7, truth, random.integers(0, 6, size=300))
    outputs = torch.nn.functional.one_hot(torch.from_numpy(found), 6).float()
    record = mistakes_of(split_of(outputs, torch.from_numpy(truth), tuple("abcdef")), origin)
    told = json.dumps([truth.tolist(), found.tolist()])
    command = [sys.executable, "-c", SKLEARN]
    theirs = json.loads(subprocess.run(command, input=told, capture_output=True, text=True, check=True).stdout)
    assert record.confusion.tolist() == theirs["confusion"]
    for field in ("precision", "recall", "support"):
        assert [getattr(row, field) or 0 for row in record.classes] == pytest.approx(theirs[field])
    assert record.balanced_accuracy == pytest.approx(theirs["balanced"])
    assert record.classes[5].recall is None
    assert class_scores(truth, found, tuple("abcdef")) == record.classes


def test_a_run_s_record(finished_run: Callable[..., RunDirectory]) -> None:
    run = finished_run()
    record = inspect(run).mistakes()
    assert record.score == evaluate(run), "the measure of the loop, to the bit"
    assert record.confusion.sum() == record.samples == 359
    assert np.trace(record.confusion) == round((record.score.accuracy or 0) * 359)
    assert record.pictures.shape == (12, 1, 8, 8)
    test = load_dataset("digits").test
    for one, picture in zip(record.worst, record.pictures, strict=True):
        assert picture.tolist() == (test.inputs[one.row].float() / 16 * 255).round().tolist()
        assert int(test.targets[one.row]) == int(one.true or -1)
    again = inspect(run).mistakes()
    assert again == record
    assert np.array_equal(again.pictures, record.pictures)
    assert "pictures" not in json.loads(record.model_dump_json())
    assert inspect(run).mistakes("train").samples == 1294


def test_large_and_centred_pictures(origin: Origin) -> None:
    images = torch.zeros(2, 3, 256, 128)
    images[0, :, :128] = -1.0
    images[0, :, 128:] = 1.0
    shape = {"kind": "images", "full_scale": 1.0}
    undecided = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    nn.init.zeros_(undecided[2].weight)
    nn.init.zeros_(undecided[2].bias)  # always says "a"
    split = split_of(images, torch.tensor([1, 0]), ("a", "b"), **shape)
    record = analyse_mistakes(undecided, split, origin=origin, train=split)
    assert [one.row for one in record.worst] == [0]
    assert record.pictures.shape == (1, 3, 64, 32)
    assert (record.pictures[0, :, :32].max(), record.pictures[0, :, 32:].min()) == (0, 255)


def test_files_of_images_are_named(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(20):
        for name, level in (("dark", 40), ("light", 200)):
            (tmp_path / "data" / name / "deep").mkdir(parents=True, exist_ok=True)
            shade = level if number else 120
            Image.new("L", (6, 6), shade + number).save(tmp_path / "data" / name / "deep" / f"{number:02}.png")
    spec = RunSpec(network={"depth": 3, "width": 5}, data={"name": str(tmp_path / "data")}, training={"epochs": 1, "learning_rate": 1e-6})
    run = train(spec, tmp_path / "run")
    record = inspect(run).mistakes("train")
    assert record.worst, "the network has learned nothing"
    for one in record.worst:
        assert one.name.startswith(f"{one.true}/deep/")
        assert one.name.endswith(".png")
    assert "deep/" not in (run.path / "data.json").read_text()
