"""What layers refuse, and how they say it: the layer, what came, what is needed."""

import pytest
import torch
from torch import Tensor, nn

from highwaynet import (
    ConvHighway,
    ConvMaxout,
    ConvPlain,
    ConvResidual,
    DenseHighway,
    DenseMaxout,
    DensePlain,
    DenseResidual,
    PadChannels,
    Subsample,
    observe,
)

DENSE = [lambda: DenseHighway(5, layers=2), lambda: DenseHighway(5, carry="independent"), lambda: DensePlain(5), lambda: DensePlain(5, 4)]
DENSE += [lambda: DenseResidual(5), lambda: DenseMaxout(5, 4)]
MAPS = [lambda: ConvHighway(5), lambda: ConvPlain(5, 4), lambda: ConvMaxout(5, 4), lambda: ConvResidual(5)]


@pytest.mark.parametrize("make", DENSE)
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize(
    ("x", "error", "sentence"),
    [
        (torch.ones(2, 4), ValueError, r"takes \(\.\.\., 5\), but the input has shape \(2, 4\)"),
        (torch.ones(5, 3, 0), ValueError, r"takes \(\.\.\., 5\), but the input has shape \(5, 3, 0\)"),
        (torch.tensor(1.0), ValueError, r"takes \(\.\.\., 5\), but the input has shape \(\)"),
        (torch.ones(2, 5).double(), ValueError, r"weights, but the input is torch\.float64: .*layer\.to\(torch\.float64\)"),
        (torch.ones(2, 5).long(), ValueError, r"the input is torch\.int64: convert it, x\.to\(torch\.float32\)$"),
        (torch.ones(2, 5, device="meta"), ValueError, r"weights on cpu, but the input is on meta: move one of them, x\.to\('cpu'\)"),
        ([[1.0] * 5], TypeError, "takes a tensor, but got list"),
    ],
)
def test_dense_layers_say_what_they_need(make: type[nn.Module], watched: bool, x: Tensor, error: type[Exception], sentence: str) -> None:
    layer = make()
    if watched:
        with pytest.raises(error, match=f"{type(layer).__name__} {sentence}|{sentence}"), observe(layer):
            layer(x)
    else:
        with pytest.raises(error, match=rf"^{type(layer).__name__} .*{sentence}"):
            layer(x)


@pytest.mark.parametrize("make", MAPS)
@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (torch.ones(2, 4, 3, 3), r"takes \(batch, 5, height, width\) or \(5, height, width\), but the input has shape \(2, 4, 3, 3\)"),
        (torch.ones(5, 5), r"but the input has shape \(5, 5\)"),
        (torch.ones(1, 5, 3, 3).half(), r"has torch\.float32 weights, but the input is torch\.float16"),
        (torch.ones(1, 5, 3, 3).byte(), r"the input is torch\.uint8: convert it, x\.to\(torch\.float32\)$"),
        (torch.ones(1, 5, 3, 3, device="meta"), r"the input is on meta"),
    ],
)
def test_convolutional_layers_say_what_they_need(make: type[nn.Module], x: Tensor, sentence: str) -> None:
    layer = make()
    with pytest.raises(ValueError, match=rf"^{type(layer).__name__} .*{sentence}"):
        layer(x)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: DenseHighway(5, layers=0), "layers = 0: must be at least 1"),
        (lambda: DenseHighway(5, layers=-2), "layers = -2: must be at least 1"),
        (lambda: DenseHighway(5, layers=2.0), r"layers = 2\.0: give an integer of at least 1"),
        (lambda: DenseHighway(5, layers=True), "layers = True: give an integer"),
        (lambda: DenseHighway(0), "width = 0: must be at least 1"),
        (lambda: DenseHighway("5"), "width = '5': give an integer"),
        (lambda: DenseHighway(5, depth=0), "depth = 0: must be at least 1"),
        (lambda: DenseHighway(5, gate_bias=float("inf")), "gate_bias = inf: give a finite number or 'auto'"),
        (lambda: DensePlain(5, layers=0), "layers = 0"),
        (lambda: DensePlain(0, 5), "in_features = 0"),
        (lambda: DensePlain(5, 0), "out_features = 0"),
        (lambda: DenseResidual(5, layers=0), "layers = 0"),
        (lambda: DenseResidual(-1), "width = -1"),
        (lambda: DenseMaxout(0, 5), "in_features = 0"),
        (lambda: DenseMaxout(5, 5, 0), "pieces = 0"),
        (lambda: ConvHighway(0), "channels = 0"),
        (lambda: ConvHighway(4, 2.5), r"kernel_size = 2\.5: give an integer"),
        (lambda: ConvHighway(4, depth=0), "depth = 0"),
        (lambda: ConvPlain(3, 0), "out_channels = 0"),
        (lambda: ConvPlain(3, 4, stride=0), "stride = 0"),
        (lambda: ConvPlain(3, 4, padding=-1), "padding = -1: give the number of zeros on each side, or 'same'"),
        (lambda: ConvPlain(3, 4, padding="valid"), "padding = 'valid': give the number of zeros"),
        (lambda: ConvResidual(0), "in_channels = 0"),
        (lambda: ConvResidual(4, stride=0), "stride = 0"),
        (lambda: ConvMaxout(3, 4, pieces=0), "pieces = 0"),
        (lambda: PadChannels(0), "channels = 0"),
        (lambda: PadChannels(4)(torch.zeros(4, 4)), r"PadChannels takes \(batch, at most 4, height, width\)"),
        (lambda: Subsample(0), "stride = 0"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()  # type: ignore[operator]


def test_the_record_of_an_observed_layer_can_be_iterated() -> None:
    model = nn.Sequential(DensePlain(3, 4), DenseHighway(4, layers=2))
    with observe(model) as seen:
        model(torch.randn(5, 3))
    assert [[*layer] for layer in seen] == [["state", "output"], *[["transform", "carry", "state", "output"]] * 2]
    assert len(seen) == 3
    layer = seen.layers[1]
    assert list(layer.keys()) == [*layer]
    assert {quantity: recording.mean.shape for quantity, recording in layer.items()} == dict.fromkeys(layer, (4,))
    assert [recording.count for recording in layer.values()] == [5] * 4
    assert dict(layer)["transform"] is layer["transform"]
    with pytest.raises(KeyError, match="gates was not recorded"):
        layer["gates"]  # type: ignore[index]
