"""Several processes under torchrun against one."""

import json
import math
import os
import signal
import subprocess
from pathlib import Path

import pytest
import torch

from forked import Forked, start
from highwaynet.base.share import Share
from highwaynet.data.augmentation import Augmentation
from highwaynet.layers.dropout import Dropout
from holding import PATIENCE, Gate
from support import Highway

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
SPEC = """
[network]
depth = 8
width = 20
dropout = [0.2, 0.3]
[training]
epochs = 3
threads = 1
batch_size = 90
checkpoint = "3 steps"
clip_norm = 3.0
label_smoothing = 0.1
weight_average = 0.9
"""  # 1294 samples: the last batch has 34


def launch(folder: Path, *arguments: object, processes: int = 2, restarts: int = 0, **more: str) -> Forked:
    """The launcher is forked; the processes that it starts are fresh."""
    options = ("--standalone", "--nproc-per-node", processes, "--max-restarts", restarts, "-m", "highwaynet", "train")
    return start(*options, *arguments, module="torch.distributed.run", cwd=folder, **ENVIRONMENT | more)


def finished(process: Forked) -> str:
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return errors


def alone(folder: Path, *arguments: object) -> None:
    finished(start("train", *arguments, cwd=folder, **ENVIRONMENT))


def history(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("precision", "tolerance", "processes"), [("float64", 1e-8, 2), ("float32", 1e-4, 2), ("float64", 1e-8, 3)])
def test_processes_have_the_history_of_one(precision: str, tolerance: float, processes: int, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC + f'precision = "{precision}"\n')
    alone(tmp_path, "spec.toml", "--out", "one")
    finished(launch(tmp_path, "spec.toml", "--out", "many", processes=processes))
    one, many = history(tmp_path / "one"), history(tmp_path / "many")
    assert len(one) == len(many) == 3
    for mine, theirs in zip(one, many, strict=True):
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            assert math.isclose(value, theirs[name], rel_tol=tolerance), name
    assert json.loads((tmp_path / "many" / "environment.json").read_text())["processes"] == processes
    assert (tmp_path / "one" / "spec.toml").read_bytes() == (tmp_path / "many" / "spec.toml").read_bytes()


def test_a_convolutional_network_with_augmentation_and_companions(tmp_path: Path) -> None:
    flags = ["--network", "mnist-plain-16", "--epochs", 1, "--batch-size", 400, "--precision", "float64", "--threads", 1]
    flags += ["--set", "training.crop=1", "--set", "training.rotate=10.0", "--set", "training.mirror=true"]
    flags += ["--set", "network.deep_supervision=true", "--set", "network.dropout=[0.1,0.1,0.1,0.1]"]
    alone(tmp_path, *flags, "--out", "one")
    finished(launch(tmp_path, *flags, "--out", "two"))
    for name, value in history(tmp_path / "one")[0].items():
        assert math.isclose(value, history(tmp_path / "two")[0][name], rel_tol=1e-8), name


@pytest.mark.parametrize("network", ["fc-plain", "mnist-plain-16"])
def test_hints_and_distillation(network: str, tmp_path: Path) -> None:
    """Both stages, with weights and limits that change on the way."""
    shared = ["--precision", "float64", "--threads", 1, "--batch-size", 400, "--epochs", 2]
    alone(tmp_path, "--network", "mnist-highway-16", *shared, "--out", "wise")
    flags = ["--network", network, *shared, "--teacher", "wise", "--hints", "4:3", "--set", "teacher.final_weight=0.1"]
    flags += ["--set", "data.preprocessing=['standardise']", "--set", "training.max_kernel_norm=1.3", "--set", "training.max_unit_norm=1.3"]
    flags += ["--set", "teacher.hint_epochs=1", "--set", "teacher.form=fitnets"]
    alone(tmp_path, *flags, "--out", "one")
    finished(launch(tmp_path, *flags, "--out", "two"))
    for prefix in ("hints-", ""):
        one, two = history(tmp_path / f"{prefix}one"), history(tmp_path / f"{prefix}two")
        assert len(one) == len(two) == (1 if prefix else 2)
        for mine, theirs in zip(one, two, strict=True):
            for name, value in mine.items():
                assert math.isclose(value, theirs[name], rel_tol=1e-8), (prefix, name)


def workers_of(launcher: int) -> list[int]:
    listed = subprocess.run(["ps", "--no-headers", "-o", "pid", "--ppid", str(launcher)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def test_a_killed_worker_is_restarted_and_the_result_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC.replace("epochs = 3", "epochs = 40"))
    finished(launch(tmp_path, "spec.toml", "--out", "calm"))
    gate = Gate(tmp_path / "gate", epoch=3)
    process = launch(tmp_path, "spec.toml", "--out", "shaken", restarts=2, **gate.environment)
    gate.wait(process, epoch=3)
    os.kill(workers_of(process.pid)[-1], signal.SIGKILL)
    gate.move(12)
    gate.wait(process, epoch=12)
    os.kill(workers_of(process.pid)[-1], signal.SIGKILL)
    gate.open()
    errors = finished(process)
    assert errors.count("highway: resumed from epoch") == 2
    for name in ("history.jsonl", "checkpoints/final.safetensors"):
        assert (tmp_path / "calm" / name).read_bytes() == (tmp_path / "shaken" / name).read_bytes()


def test_a_launcher_that_is_asked_to_stop_saves_and_one_process_goes_on(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC.replace("epochs = 3", "epochs = 60"))
    alone(tmp_path, "spec.toml", "--out", "one")
    gate = Gate(tmp_path / "gate", epoch=3)
    process = launch(tmp_path, "spec.toml", "--out", "two", **gate.environment)
    gate.wait(process, epoch=3)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert errors.count("continue with: torchrun --nproc-per-node 2 -m highwaynet train two --resume") == 1, errors
    alone(tmp_path, "two", "--resume")
    assert "the checkpoint was saved by 2 processes, and now there are 1" in (tmp_path / "two" / "events.log").read_text()
    one, two = history(tmp_path / "one")[-1], history(tmp_path / "two")[-1]
    assert math.isclose(one["train_loss"], two["train_loss"], rel_tol=1e-3)


def test_a_restart_takes_up_only_what_the_first_start_began(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    alone(tmp_path, "spec.toml", "--out", "there")
    before = (tmp_path / "there" / "events.log").read_bytes()
    process = launch(tmp_path, "spec.toml", "--out", "there", restarts=1)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert errors.count("there already exists") == 2
    assert (tmp_path / "there" / "events.log").read_bytes() == before


def test_batch_norm_is_validated_with_the_statistics_that_are_saved(tmp_path: Path, highway: Highway) -> None:
    flags = ["--network", "resnet-20", "--epochs", 1, "--batch-size", 400, "--threads", 1, "--out", "run"]
    finished(launch(tmp_path, *flags))
    score = json.loads(highway("evaluate", "run", "--split", "validation", "--json").stdout)
    assert math.isclose(score["loss"], history(tmp_path / "run")[0]["validation_loss"], rel_tol=1e-5)


def test_errors_are_told_once(tmp_path: Path) -> None:
    for arguments, sentence in (
        (["--depth", 0], "network.depth = 0"),
        (["--data", "nowhere.csv"], "nowhere.csv"),
        (["--batch-size", 1], "training.batch_size = 1: 2 processes share a batch"),
        (["--network", "fc-residual", "--activation", "relu", "--learning-rate", 1e6, "--depth", 6], "no longer finite in epoch 1"),
    ):
        process = launch(tmp_path, *arguments, "--epochs", 1, "--out", "run")
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode != 0
        assert errors.count(sentence) == 1, errors
        assert "an error in highwaynet itself" not in errors


class TestShares:
    """The parts of a batch."""

    @pytest.mark.parametrize("total", [1, 2, 3, 7, 64])
    @pytest.mark.parametrize("processes", [1, 2, 3, 5])
    def test_they_cover_the_batch_and_their_weighted_mean_is_its_mean(self, total: int, processes: int) -> None:
        values = torch.arange(total, dtype=torch.float64)
        shares = [Share.of(total, rank, processes) for rank in range(processes)]
        assert [n for share in shares if share.weight for n in range(share.start, share.stop)] == list(range(total))
        mean = sum(share.weight * share.cut(values).mean() for share in shares) / processes
        assert mean.item() == pytest.approx(values.mean().item())
        assert all(len(share.cut(values)) >= 1 for share in shares)

    def test_dropout_is_torchs_and_cut(self) -> None:
        x = torch.randn(10, 6)
        layer = Dropout(0.4)
        torch.manual_seed(1)
        whole = layer(x)
        torch.manual_seed(1)
        assert torch.equal(whole, torch.nn.functional.dropout(x, 0.4))
        parts = []
        for rank in range(3):
            layer.share = Share.of(10, rank, 3)
            torch.manual_seed(1)
            parts.append(layer(layer.share.cut(x)))
        assert torch.equal(torch.cat(parts), whole)
        assert torch.equal(layer.eval()(x), x)

    def test_augmentation_is_cut(self) -> None:
        images = torch.randint(0, 255, (11, 1, 9, 9), dtype=torch.uint8)
        augmentation = Augmentation(crop=2, mirror=True, rotate=20.0)
        whole = augmentation.apply(images, torch.Generator().manual_seed(3))
        parts = []
        for rank in range(2):
            share = Share.of(11, rank, 2)
            parts.append(augmentation.apply(share.cut(images), torch.Generator().manual_seed(3), share))
        assert torch.equal(torch.cat(parts), whole)
