"""What a type checker knows about calls of layers and networks."""

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]

# A user's module. mypy also reports an ignore that nothing needs, so each of them says: this is refused.
MINE = """
from typing import Any, assert_type

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from highwaynet import (
    CBHG, CharacterCNN, ConvHighway, ConvHighway1d, ConvMaxout, ConvPlain, ConvResidual, DenseHighway, DenseMaxout, DensePlain,
    DenseResidual, GatedResidualNetwork, Highway, PadChannels, RecurrentHighway, Subsample, matrix_parameters
)
from highwaynet import auto_gate_bias
from highwaynet.networks.convolutional import ConvNetwork
from highwaynet.networks.dense import DenseNetwork


def packed(x: PackedSequence) -> None:
    assert_type(RecurrentHighway(3, 4)(x), tuple[PackedSequence, Tensor])


def layers(x: Tensor, flag: bool) -> None:
    wrapped, stack, maps = Highway(nn.Linear(5, 5), nn.Linear(5, 5)), DenseHighway(5, layers=3), ConvHighway(3)
    assert_type(wrapped(x), Tensor)
    assert_type(wrapped(x, return_gates=True), tuple[Tensor, ...])
    assert_type(wrapped(x, return_gates=flag), Tensor | tuple[Tensor, ...])
    assert_type(stack(x), Tensor)
    assert_type(stack(x, return_gates=False), Tensor)
    assert_type(stack(x, return_gates=True), tuple[Tensor, ...])
    assert_type(stack(x, return_gates=flag), Tensor | tuple[Tensor, ...])
    assert_type(stack.forward(x, return_gates=True), tuple[Tensor, ...])
    assert_type(maps(x), Tensor)
    assert_type(maps(x, True), tuple[Tensor, ...])
    assert_type(maps(x, return_gates=flag), Tensor | tuple[Tensor, ...])
    assert_type(DensePlain(5, 4)(x), Tensor)
    assert_type(DenseResidual(5)(x), Tensor)
    assert_type(DenseMaxout(5, 4)(x), Tensor)
    assert_type(ConvPlain(3, 4)(x), Tensor)
    assert_type(ConvResidual(3)(x), Tensor)
    assert_type(ConvHighway1d(3)(x), Tensor)
    assert_type(ConvHighway1d(3)(x, return_gates=True), tuple[Tensor, ...])
    assert_type(wrapped(x, x, mask=None), Any)
    assert_type(CBHG(5)(x, lengths=[3]), Tensor)
    assert_type(CharacterCNN(5)(x), Tensor)
    assert_type(GatedResidualNetwork(5)(x, x), Tensor)
    assert_type(matrix_parameters(stack).matrices, list[nn.Parameter])
    assert_type(DenseHighway.from_state_dict({}, "allennlp"), DenseHighway)
    assert_type(ConvMaxout(3, 4)(x), Tensor)
    assert_type(PadChannels(4)(x), Tensor)
    assert_type(Subsample(2)(x), Tensor)
    assert_type(RecurrentHighway(3, 4)(x), tuple[Tensor, Tensor])
    assert_type(RecurrentHighway(3, 4)(x, x, lengths=[2]), tuple[Tensor, Tensor])
    assert_type(RecurrentHighway(3, 4)(x, return_gates=flag), tuple[Any, ...])
    assert_type(stack(x), int)  # type: ignore[assert-type]


def networks(x: Tensor, flag: bool, dense: DenseNetwork, conv: ConvNetwork, either: DenseNetwork | ConvNetwork) -> None:
    assert_type(dense(x), Tensor)
    assert_type(dense(x, return_gates=True), tuple[Tensor, ...])
    assert_type(dense(x, return_gates=flag), Tensor | tuple[Tensor, ...])
    assert_type(dense(x, targets=x), tuple[Tensor, Tensor])
    assert_type(conv(x), Tensor)
    assert_type(conv(x, return_companions=True), tuple[Tensor, list[Tensor]])
    assert_type(conv(x, return_gates=True), tuple[Any, ...])
    assert_type(conv(x, return_gates=True, return_companions=True), tuple[Any, ...])
    assert_type(conv(x, return_gates=flag), Tensor | tuple[Any, ...])
    logits, gates = conv(x, return_gates=True)
    assert_type(either(x), Tensor)


def names() -> None:
    assert_type(DensePlain(in_features=5, out_features=4).in_features, int)
    assert_type(ConvPlain(in_channels=3, out_channels=4, kernel_size=5).kernel_size, int)
    assert_type(auto_gate_bias(5, family="convolutional"), float)
    DenseHighway(5, 3)  # type: ignore[call-arg]
    DenseResidual(5, 3)  # type: ignore[call-arg]
    DensePlain(5, 5, 3)  # type: ignore[call-arg]
    DensePlain(width=5)  # type: ignore[call-arg]
    ConvPlain(3, 4, kernel=5)  # type: ignore[call-arg]
    auto_gate_bias(5, convolutional=True)  # type: ignore[call-arg]
    auto_gate_bias(5, family="round")  # type: ignore[arg-type]
"""


def test_types_of_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    monkeypatch.chdir(ROOT)  # where mypy finds its settings, and a cache that makes it fast
    report, errors, status = api.run([str(mine)])
    assert (status, errors) == (0, ""), report + errors
