"""Analyses on networks small enough to compute by hand, and the records of a run."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from highwaynet import NetworkSpec, build_network
from highwaynet.analysis.collect import collect_records
from highwaynet.analysis.gates import analyse_gates
from highwaynet.analysis.lesions import analyse_lesions
from highwaynet.analysis.records import GatesRecord
from highwaynet.data.dataset import Split
from highwaynet.data.preparation import Preparation
from highwaynet.data.record import DataRecord
from highwaynet.figures.gate_map import draw_gate_map
from highwaynet.networks.dense import DenseNetwork
from highwaynet.runs.directory import RunDirectory


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


@pytest.fixture
def two_by_two() -> DenseNetwork:
    """Two highway layers of two blocks between identities. Layer 1: H = x + 1, T = sigmoid(x). Layer 2: H = 0, T = 0.5, 0.25."""
    network = build_network(NetworkSpec(depth=3, width=2, activation="identity", gate_bias=-1), (2,), 2)
    eye = torch.eye(2)
    with torch.no_grad():
        network.entry.weight[0], network.head.weight[:] = eye, eye
        stack = network.stack
        stack.weight.zero_()
        stack.bias.zero_()
        stack.weight[0, :2], stack.weight[0, 2:] = eye, eye
        stack.bias[0, :2] = 1.0
        stack.bias[1, 2:] = torch.tensor([0.0, math.log(1 / 3)])
    return network


@pytest.fixture
def split() -> Split:
    """Two samples: (0, 1) of class 0 and (1, 0) of class 1."""
    record = DataRecord(
        found="two samples", kind="features", task="classification", input_shape=(2,), class_names=("a", "b"), train=2, validation=0, test=0
    )
    inputs, rows = torch.tensor([[0, 1], [1, 0]], dtype=torch.uint8), torch.arange(2)
    return Split(inputs, torch.tensor([0, 1]), rows, Preparation.restore(record, {}))


def test_gates_by_hand(two_by_two: DenseNetwork, split: Split) -> None:
    record = analyse_gates(two_by_two, split, part="train", fingerprint="x")
    open_ = (sigmoid(0) + sigmoid(1)) / 2
    assert record.mean == [pytest.approx([open_, open_], rel=1e-6), pytest.approx([0.5, 0.25], rel=1e-6)]
    assert record.bias == [[0, 0], pytest.approx([0, math.log(1 / 3)], rel=1e-6)]
    assert (record.start_bias, record.samples) == (-1.0, 2)


def test_gates_of_maps_are_averaged_over_their_pixels() -> None:
    network = build_network(NetworkSpec(name="highway-a"), (1, 4, 4), 2, generator=torch.Generator().manual_seed(0)).eval()
    record = DataRecord(
        found="six", kind="images", task="classification", input_shape=(1, 4, 4), class_names=("a", "b"), train=6, validation=0, test=0
    )
    inputs = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    images = Split(inputs, torch.arange(6) % 2, torch.arange(6), Preparation.restore(record, {}))
    gates = analyse_gates(network, images, part="train", fingerprint="x")
    assert [len(row) for row in gates.mean] == [len(row) for row in gates.bias] == [16, 16, 32, 32, 64, 64]
    assert gates.convolutional
    wanted = network(inputs, return_gates=True)[1]
    for row, gate in zip(gates.mean, wanted, strict=True):
        assert row == pytest.approx(gate.mean(dim=(0, 2, 3)).tolist(), rel=1e-5)
    assert draw_gate_map(gates).axes[0].get_xlabel() == "map"


def test_lesions_by_hand(two_by_two: DenseNetwork, split: Split) -> None:
    def loss(outputs: list[tuple[float, float]]) -> float:
        (a0, a1), (b0, b1) = outputs  # logits of both samples
        return (math.log(1 + math.exp(a1 - a0)) + math.log(1 + math.exp(b0 - b1))) / 2

    def first(x: float) -> float:
        return x + sigmoid(x)  # (x + 1)·T + x·(1 − T)

    record = analyse_lesions(two_by_two, split, part="train", fingerprint="x")
    intact = loss([(0.5 * first(0), 0.75 * first(1)), (0.5 * first(1), 0.75 * first(0))])
    assert record.intact.loss == pytest.approx(intact, rel=1e-6)
    assert record.closed[0].loss == pytest.approx(loss([(0, 0.75), (0.5, 0)]), rel=1e-6)
    assert record.closed[1].loss == pytest.approx(loss([(first(0), first(1)), (first(1), first(0))]), rel=1e-6)
    assert len(record.closed) == 2
    assert record.intact.accuracy == 0.0


def test_a_plain_network_has_no_gates(split: Split) -> None:
    network = build_network(NetworkSpec(name="fc-plain", depth=3, width=2), (2,), 2)
    with pytest.raises(ValueError, match="no transform gates"):
        analyse_gates(network, split, part="train", fingerprint="x")
    assert analyse_lesions(network, split, part="train", fingerprint="x").closed == []


@pytest.mark.parametrize(("name", "gates", "lesions"), [("fc-highway", 5, 5), ("fc-plain", None, None), ("fc-residual", None, 5)])
def test_records_of_a_run(
    finished_run: Callable[..., RunDirectory], tmp_path: Path, name: str, gates: int | None, lesions: int | None
) -> None:
    shutil.copytree(finished_run(name).path, tmp_path / "run")
    run = RunDirectory.open(tmp_path / "run")
    records = collect_records(run)
    assert (records.gates and len(records.gates.mean)) == gates
    assert (records.lesions and len(records.lesions.closed)) == lesions
    if records.lesions:
        assert records.lesions.intact == records.evaluation.train
    assert records.evaluation.validation is not None
    assert records.evaluation.validation.loss == run.read_history()[-1].validation_loss
    assert collect_records(run) == records, "read back from the directory"


def test_a_record_of_another_checkpoint_or_a_damaged_one_is_made_anew(finished_run: Callable[..., RunDirectory], tmp_path: Path) -> None:
    shutil.copytree(finished_run().path, tmp_path / "run")
    run = RunDirectory.open(tmp_path / "run")
    right = collect_records(run).gates
    assert right is not None
    run.save_record("gates", right.model_copy(update={"fingerprint": "old", "mean": [[0.0]]}))
    (run.path / "analysis" / "lesions.json").write_text("{")
    assert collect_records(run).gates == right
    assert run.load_record("gates", GatesRecord) == right
