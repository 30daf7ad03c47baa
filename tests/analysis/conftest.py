"""A network small enough to compute by hand, and its two samples."""

import math

import pytest
import torch

from highwaynet import NetworkSpec, build_network
from highwaynet.analysis.analysis_records import About, Origin
from highwaynet.data.dataset import Split
from highwaynet.data.preparation import Preparation
from highwaynet.data.record import DataRecord
from highwaynet.networks.dense import DenseNetwork


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


@pytest.fixture
def images() -> Split:
    """Six random images of 4×4 pixels in two classes."""
    record = DataRecord(
        found="six", kind="images", task="classification", input_shape=(1, 4, 4), class_names=("a", "b"), train=6, validation=0, test=0
    )
    inputs = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    return Split(inputs, torch.arange(6) % 2, torch.arange(6), Preparation.restore(record, {}))


@pytest.fixture
def origin() -> Origin:
    """What records say about themselves."""
    return Origin("x", About(data="two", network="3-layer highway", seed=0, epochs=1), "train")
