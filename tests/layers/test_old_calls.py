"""Calls in their old form give what the new form gives, with a warning that shows the new form; modules stay what they were."""

import copy
import inspect
import io
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from highwaynet import (
    ConvHighway,
    ConvMaxout,
    ConvPlain,
    ConvResidual,
    DenseHighway,
    DenseMaxout,
    DensePlain,
    DenseResidual,
    auto_gate_bias,
)

Make = Callable[[], object]

OLD_AND_NEW: list[tuple[Make, Make, str]] = [
    (lambda: DenseHighway(5, 3), lambda: DenseHighway(5, layers=3), "DenseHighway(…, 3) → DenseHighway(…, layers=3)"),
    (lambda: DenseHighway(5, None), lambda: DenseHighway(5), "DenseHighway(…, None) → DenseHighway(…, layers=None)"),
    (lambda: DenseResidual(5, 3), lambda: DenseResidual(5, layers=3), "DenseResidual(…, 3) → DenseResidual(…, layers=3)"),
    (lambda: DensePlain(5, None, 3), lambda: DensePlain(5, layers=3), "DensePlain(…, 3) → DensePlain(…, layers=3)"),
    (lambda: DensePlain(width=5), lambda: DensePlain(5), "DensePlain(width=5) → DensePlain(in_features=5)"),
    (lambda: DensePlain(5, out_width=4), lambda: DensePlain(5, 4), "DensePlain(out_width=4) → DensePlain(out_features=4)"),
    (lambda: DenseMaxout(inputs=5, out_features=4), lambda: DenseMaxout(5, 4), "DenseMaxout(inputs=5) → DenseMaxout(in_features=5)"),
    (lambda: DenseMaxout(5, outputs=4), lambda: DenseMaxout(5, 4), "DenseMaxout(outputs=4) → DenseMaxout(out_features=4)"),
    (lambda: ConvPlain(inputs=3, out_channels=4), lambda: ConvPlain(3, 4), "ConvPlain(inputs=3) → ConvPlain(in_channels=3)"),
    (lambda: ConvPlain(3, outputs=4), lambda: ConvPlain(3, 4), "ConvPlain(outputs=4) → ConvPlain(out_channels=4)"),
    (lambda: ConvPlain(3, 4, kernel=5), lambda: ConvPlain(3, 4, 5), "ConvPlain(kernel=5) → ConvPlain(kernel_size=5)"),
    (lambda: ConvMaxout(inputs=3, out_channels=4), lambda: ConvMaxout(3, 4), "ConvMaxout(inputs=3) → ConvMaxout(in_channels=3)"),
    (lambda: ConvMaxout(3, outputs=4), lambda: ConvMaxout(3, 4), "ConvMaxout(outputs=4) → ConvMaxout(out_channels=4)"),
    (lambda: ConvMaxout(3, 4, kernel=5), lambda: ConvMaxout(3, 4, 5), "ConvMaxout(kernel=5) → ConvMaxout(kernel_size=5)"),
    (lambda: ConvResidual(inputs=3), lambda: ConvResidual(3), "ConvResidual(inputs=3) → ConvResidual(in_channels=3)"),
    (lambda: ConvResidual(3, outputs=4), lambda: ConvResidual(3, 4), "ConvResidual(outputs=4) → ConvResidual(out_channels=4)"),
    (lambda: ConvHighway(3, kernel=5), lambda: ConvHighway(3, 5), "ConvHighway(kernel=5) → ConvHighway(kernel_size=5)"),
    (
        lambda: auto_gate_bias(20, convolutional=True),
        lambda: auto_gate_bias(20, family="convolutional"),
        "auto_gate_bias(convolutional=True) → auto_gate_bias(family='convolutional')",
    ),
    (
        lambda: auto_gate_bias(20, convolutional=False),
        lambda: auto_gate_bias(20),
        "auto_gate_bias(convolutional=False) → auto_gate_bias(family='dense')",
    ),
]


@pytest.mark.parametrize(("old", "new", "forms"), OLD_AND_NEW, ids=[forms for _, _, forms in OLD_AND_NEW])
def test_the_old_form_gives_the_same_and_a_warning(old: Make, new: Make, forms: str) -> None:
    before, after = forms.split(" → ")
    message = f"{before} is deprecated and will be removed in the next version: use {after}"
    torch.manual_seed(0)
    with pytest.warns(FutureWarning, match=f"^{re.escape(message)}$") as caught:
        found = old()
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name], "the line of the call is shown, once"
    torch.manual_seed(0)
    wanted = new()
    if not isinstance(wanted, nn.Module):
        assert found == wanted
        return
    assert repr(found) == repr(wanted)
    for (name, parameter), (_, other) in zip(found.state_dict().items(), wanted.state_dict().items(), strict=True):
        assert torch.equal(parameter, other), name


def test_each_old_name_of_a_call_has_its_warning() -> None:
    with pytest.warns(FutureWarning) as caught:
        layer = DensePlain(width=5, out_width=4)
    assert layer.weight.shape == (1, 4, 5)
    assert len(caught) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DensePlain(in_features=5, width=5), "DensePlain() got in_features and also width, its old name: give only in_features"),
        (lambda: DensePlain(5, width=5), "DensePlain() got in_features and also width, its old name: give only in_features"),
        (
            lambda: ConvPlain(3, 4, kernel=5, kernel_size=5),
            "ConvPlain() got kernel_size and also kernel, its old name: give only kernel_size",
        ),
        (lambda: DenseHighway(5, 3, layers=3), "DenseHighway() got layers twice: give it only as a keyword"),
        (
            lambda: auto_gate_bias(5, family="dense", convolutional=True),
            "auto_gate_bias() got family and also convolutional, its old name: give only family",
        ),
        (lambda: DenseHighway(5, 3, "relu"), "DenseHighway.__init__() takes 2 positional arguments but 4 were given"),
        (lambda: ConvPlain(3, 4, channels=5), "ConvPlain.__init__() got an unexpected keyword argument 'channels'"),
        (DensePlain, "DensePlain.__init__() missing 1 required positional argument: 'in_features'"),
    ],
)
def test_a_call_that_says_two_things_is_refused(call: Make, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        call()


def test_signatures_are_those_of_the_new_form() -> None:
    parameters = inspect.signature(DensePlain).parameters
    assert list(parameters)[:3] == ["in_features", "out_features", "layers"]
    assert parameters["layers"].kind is inspect.Parameter.KEYWORD_ONLY
    assert list(inspect.signature(ConvPlain).parameters)[:3] == ["in_channels", "out_channels", "kernel_size"]
    assert list(inspect.signature(auto_gate_bias).parameters) == ["depth", "family"]


def test_sizes_are_attributes_as_in_pytorch() -> None:
    for dense in (DensePlain(5, 4), DenseMaxout(5, 4, pieces=3)):
        assert (dense.in_features, dense.out_features) == (5, 4)
    for conv in (ConvPlain(3, 4, 5), ConvMaxout(3, 4, 5, pieces=3)):
        assert (conv.in_channels, conv.out_channels, conv.kernel_size) == (3, 4, 5)
    block = ConvResidual(3, 4)
    assert (block.in_channels, block.out_channels) == (3, 4)
    assert ConvHighway(3, 5).kernel_size == 5
    assert all(layer.kernel == 5 for layer in (ConvPlain(3, 4, 5), ConvMaxout(3, 4, 5), ConvHighway(3, 5))), "the old name"


def test_names_in_state_dicts() -> None:
    for layer in (DensePlain(5), DenseHighway(5), DenseResidual(5), DenseMaxout(5, 4), ConvPlain(3, 4), ConvMaxout(3, 4), ConvHighway(3)):
        assert list(layer.state_dict()) == ["weight", "bias"]
    assert list(ConvResidual(3, norm=False).state_dict()) == ["first.weight", "first.bias", "second.weight", "second.bias"]


LAYERS: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [
    (lambda: DensePlain(5, 4), (2, 5)),
    (lambda: DenseHighway(5, layers=3), (2, 5)),
    (lambda: DenseMaxout(5, 4), (2, 5)),
    (lambda: ConvPlain(3, 4), (2, 3, 6, 6)),
    (lambda: ConvHighway(3), (2, 3, 6, 6)),
    (lambda: ConvResidual(3, 4), (2, 3, 6, 6)),
]


@pytest.mark.parametrize(("make", "shape"), LAYERS, ids=["plain", "highway", "maxout", "conv plain", "conv highway", "conv residual"])
def test_copies_compiled_exported_and_saved_modules_compute_the_same(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    layer, x = make().eval(), torch.randn(shape)
    saved = io.BytesIO()
    torch.save(layer, saved)
    saved.seek(0)
    twins = [
        copy.deepcopy(layer),
        torch.load(saved, weights_only=False),
        torch.export.export(layer, (x,)).module(),
        torch.compile(layer, backend="eager", fullgraph=True),
    ]
    for twin in twins:
        torch.testing.assert_close(twin(x), layer(x), atol=1e-6, rtol=1e-6)


def test_users_see_the_warning(tmp_path: Path) -> None:
    """Also from a module that their program imports, where Python hides a DeprecationWarning."""
    (tmp_path / "mine.py").write_text("from highwaynet import DenseHighway\nstack = DenseHighway(5, 3)\n")
    done = subprocess.run([sys.executable, "-c", "import mine"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "mine.py:2: FutureWarning: DenseHighway(…, 3) is deprecated" in done.stderr
