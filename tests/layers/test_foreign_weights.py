"""Weights of other people's highway layers: equal outputs and gradients, and refusals with a reason.

The twins are written from the published descriptions of each library's layer.
"""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from highwaynet import DenseHighway


class Merged(nn.Module):
    """As in AllenNLP and fairseq: H and the gate in one product; the gate is the factor of x, and its bias starts at +1."""

    def __init__(self, width: int, layers: int, name: str) -> None:
        super().__init__()
        self.name = name
        setattr(self, name, nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(layers)))
        for layer in getattr(self, name):
            nn.init.constant_(layer.bias[width:], 1.0)

    def forward(self, x: Tensor) -> Tensor:
        for layer in getattr(self, self.name):
            candidate, gate = layer(x).chunk(2, dim=-1)
            gate = torch.sigmoid(gate)
            x = gate * x + (1 - gate) * torch.relu(candidate)
        return x


class Separate(nn.Module):
    """Two linear layers for each highway layer; the gate is the factor of H, or of x."""

    def __init__(self, width: int, layers: int, names: tuple[str, str] = ("H", "T"), *, carry: bool = False, bias: float = -1.0) -> None:
        super().__init__()
        self.names, self.carry = names, carry
        for name in names:
            setattr(self, name, nn.ModuleList(nn.Linear(width, width) for _ in range(layers)))
        for gate in getattr(self, names[1]):
            nn.init.constant_(gate.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        for transform, gate in zip(*(getattr(self, name) for name in self.names), strict=True):
            h, g = torch.tanh(transform(x)), torch.sigmoid(gate(x))
            x = g * x + (1 - g) * h if self.carry else g * h + (1 - g) * x
        return x


def equal(ours: DenseHighway, theirs: nn.Module, width: int) -> None:
    torch.manual_seed(1)
    x = torch.randn(7, width)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    mine, other = ours(inputs[0]), theirs(inputs[1])
    torch.testing.assert_close(mine, other)
    for y in (mine, other):
        y.square().sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)


@pytest.mark.parametrize(("form", "name"), [("allennlp", "_layers"), ("fairseq", "layers")])
@pytest.mark.parametrize("layers", [1, 3])
def test_merged_products_of_allennlp_and_fairseq(form: str, name: str, layers: int) -> None:
    torch.manual_seed(0)
    theirs = Merged(6, layers, name)
    ours = DenseHighway.from_state_dict(theirs.state_dict(), form)
    assert (ours.num_layers, ours.width, ours.activation) == (layers, 6, "relu")
    equal(ours, theirs, 6)
    torch.testing.assert_close(ours.gate_bias, torch.full((layers, 6), -1.0))
    inside = DenseHighway.from_state_dict(nn.ModuleDict({"encoder": theirs}).state_dict(), form, prefix="encoder.")
    equal(inside, theirs, 6)


@pytest.mark.parametrize("names", [("H", "T"), ("nonlinear", "gate"), ("fc", "keep")])
@pytest.mark.parametrize("carry", [False, True])
def test_separate_layers_with_either_gate(names: tuple[str, str], carry: bool) -> None:
    torch.manual_seed(0)
    theirs = Separate(5, 2, names, carry=carry, bias=1.0 if carry else -1.0)
    given = ("fc.{}", "keep.{}") if names[0] == "fc" else None
    ours = DenseHighway.from_state_dict(
        theirs.state_dict(), "separate", gate="carry" if carry else "transform", activation="tanh", names=given
    )
    equal(ours, theirs, 5)


def test_layers_that_are_modules_of_their_own_and_one_layer() -> None:
    torch.manual_seed(0)
    theirs = Separate(5, 2)
    layers = nn.ModuleList(nn.ModuleDict({"H": h, "T": t}) for h, t in zip(theirs.H, theirs.T, strict=True))
    equal(DenseHighway.from_state_dict(layers.state_dict(), "separate", gate="transform", activation="tanh"), theirs, 5)
    one = Separate(5, 1)
    single = nn.ModuleDict({"H": one.H[0], "T": one.T[0]})
    equal(DenseHighway.from_state_dict(single.state_dict(), "separate", gate="transform", activation="tanh"), one, 5)


def test_a_merged_product_of_unknown_code() -> None:
    torch.manual_seed(0)
    theirs = Merged(4, 2, "highway")
    found = DenseHighway.from_state_dict(theirs.state_dict(), "merged", gate="carry", activation="relu", names=["highway.{}"])
    equal(found, theirs, 4)


@pytest.mark.parametrize("layers", [1, 12])
def test_keras(layers: int) -> None:
    """Keras 1: kernels are (in, out), and W_carry belongs to the gate that multiplies H, in spite of its name. Biases start at +1."""
    generator = np.random.default_rng(0)
    arrays = {}
    for number in range(1, layers + 1):
        start = f"highway_{number}_"
        arrays |= {f"{start}{name}": generator.normal(size=(4, 4)).astype("float32") / 2 for name in ("W", "W_carry")}
        arrays |= {f"{start}b": generator.normal(size=4).astype("float32"), f"{start}b_carry": np.ones(4, dtype="float32")}

    class Keras(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for number in range(1, layers + 1):
                w, wc, b, bc = (torch.from_numpy(arrays[f"highway_{number}_{name}"]) for name in ("W", "W_carry", "b", "b_carry"))
                gate = torch.sigmoid(x @ wc + bc)
                x = torch.tanh(x @ w + b) * gate + (1 - gate) * x
            return x

    ours = DenseHighway.from_state_dict(arrays, "keras", activation="tanh")
    assert ours.num_layers == layers
    equal(ours, Keras(), 4)
    assert DenseHighway.from_state_dict(arrays, "keras").activation == "identity"


def test_elmo() -> None:
    """The released weights, by their names in the HDF5 file; also as TensorFlow names variables."""
    generator = np.random.default_rng(0)
    arrays = {f"CNN_high_{n}/W_{part}": generator.normal(size=(4, 4)).astype("float32") for n in (0, 1) for part in ("carry", "transform")}
    arrays |= {f"CNN_high_{n}/b_carry": np.full(4, -2.0, dtype="float32") for n in (0, 1)}
    arrays |= {f"CNN_high_{n}/b_transform": generator.normal(size=4).astype("float32") for n in (0, 1)}

    class Elmo(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for number in (0, 1):
                w, wc, b, bc = (
                    torch.from_numpy(arrays[f"CNN_high_{number}/{end}"]) for end in ("W_transform", "W_carry", "b_transform", "b_carry")
                )
                gate = torch.sigmoid(x @ wc + bc)
                x = gate * torch.relu(x @ w + b) + (1 - gate) * x
            return x

    equal(DenseHighway.from_state_dict(arrays, "elmo"), Elmo(), 4)
    equal(DenseHighway.from_state_dict({f"bilm/{key}:0": value for key, value in arrays.items()}, "elmo", prefix="bilm/"), Elmo(), 4)


def test_a_gate_with_the_wrong_sign_is_refused_with_the_reason() -> None:
    theirs = Separate(5, 2, bias=2.0, carry=True).state_dict()
    with pytest.raises(ValueError, match=r"biases are \+2\.00 on average.*carry little.*looks like a carry gate, which multiplies x"):
        DenseHighway.from_state_dict(theirs, "separate", gate="transform", activation="tanh")
    with pytest.raises(ValueError, match=r"biases are -1\.00 on average.*looks like a transform gate, which multiplies H"):
        DenseHighway.from_state_dict(Separate(5, 2).state_dict(), "separate", gate="carry", activation="tanh")
    sure = DenseHighway.from_state_dict(theirs, "separate", gate="transform", activation="tanh", is_sure=True)
    assert torch.equal(sure.gate_bias, torch.full((2, 5), 2.0))
    negative = Merged(4, 2, "_layers")
    for layer in negative._layers:
        nn.init.constant_(layer.bias[4:], -2.0)
    with pytest.raises(ValueError, match=r"Give form='merged' with gate='transform', or is_sure=True"):
        DenseHighway.from_state_dict(negative.state_dict(), "allennlp")
    with pytest.raises(ValueError, match="gate = 'transform': the gate of allennlp multiplies x, not H"):
        DenseHighway.from_state_dict(negative.state_dict(), "allennlp", gate="transform")


@pytest.mark.parametrize(
    ("state", "options", "sentence"),
    [
        (Separate(3, 1).state_dict(), {"form": "tensorflow"}, "'tensorflow': choose one of allennlp, fairseq, keras, elmo, separate"),
        (Separate(3, 1).state_dict(), {"form": "separate", "activation": "relu"}, "give 'transform' if it is H, 'carry' if it is x"),
        (Separate(3, 1).state_dict(), {"form": "separate", "gate": "T", "activation": "relu"}, "gate = 'T': choose transform or carry"),
        (Separate(3, 1).state_dict(), {"form": "separate", "gate": "transform"}, "activation: form 'separate' does not say which"),
        (Separate(3, 1).state_dict(), {"form": "allennlp"}, "layers.0.weight is not in the state dict, whose first keys are H.0.weight"),
        (Separate(3, 1).state_dict(), {"form": "keras"}, "no key ends in W_carry"),
        (Separate(3, 1).state_dict(), {"form": "allennlp", "prefix": "x."}, "prefix = 'x.': no key of the state dict starts with it"),
        (
            Separate(3, 1, ("a", "b")).state_dict(),
            {"form": "separate", "gate": "transform", "activation": "relu"},
            r"names: no known pair \(H and T, .*give names=",
        ),
        (
            {f"{name}.0.weight": torch.zeros(3, 3) for name in ("nonlinear", "linear", "gate")},
            {"form": "separate", "gate": "transform", "activation": "relu"},
            "a third linear layer beside H and the gate.*which carries x unchanged",
        ),
        (
            {"layers.0.weight": torch.zeros(6, 4), "layers.0.bias": torch.zeros(6)},
            {"form": "fairseq"},
            r"weight \(6, 4\) and bias \(6,\) for H and the gate: a highway layer of width 4 has \(8, 4\)",
        ),
    ],
)
def test_other_forms_are_refused(state: dict[str, Tensor], options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DenseHighway.from_state_dict(state, **options)


SEPARATE = {"form": "separate", "gate": "transform", "activation": "relu"}
LAYER = {"layers.0.weight": torch.zeros(6, 3), "layers.0.bias": torch.zeros(6)}
PAIR = {"H.weight": torch.zeros(3, 3), "H.bias": torch.zeros(3), "T.weight": torch.zeros(3, 3), "T.bias": torch.zeros(3)}
KERAS = {"W": np.zeros((3, 3)), "W_carry": np.zeros((3, 3)), "b": np.zeros(3), "b_carry": np.zeros(3)}


@pytest.mark.parametrize(
    ("state", "options", "sentence"),
    [
        ([1, 2], {"form": "fairseq"}, "state = list: give a state dict"),
        (nn.Linear(3, 3), {"form": "fairseq"}, r"state = Linear: give a state dict.*state_dict\(\)"),
        ({1: torch.zeros(3, 3)}, {"form": "fairseq"}, "the state dict has the key 1: keys are texts"),
        ({}, {"form": "fairseq"}, "the state dict is empty"),
        (LAYER, {"form": "fairseq", "prefix": 3}, "prefix = 3: give a text"),
        (LAYER | {"layers.0.weight": None}, {"form": "fairseq"}, "layers.0.weight is of type NoneType: expected numbers"),
        (LAYER | {"layers.0.weight": "6x3"}, {"form": "fairseq"}, "layers.0.weight is of type str: expected numbers"),
        (LAYER | {"layers.0.weight": [[1.0], [2.0, 3.0]]}, {"form": "fairseq"}, "layers.0.weight is of type list: expected numbers"),
        (LAYER | {"layers.0.weight": torch.zeros(6, 3, dtype=torch.int64)}, {"form": "fairseq"}, "layers.0.weight has type torch.int64"),
        (
            LAYER | {"layers.0.weight": torch.zeros(6, 3, dtype=torch.cfloat)},
            {"form": "fairseq"},
            "layers.0.weight has type torch.complex64",
        ),
        (LAYER | {"layers.0.weight": torch.zeros(6, 3, device="meta")}, {"form": "fairseq"}, "layers.0.weight has no values"),
        (LAYER | {"layers.0.weight": torch.zeros(6)}, {"form": "fairseq"}, r"layers.0.weight has shape \(6,\): a weight has two axes"),
        (LAYER | {"layers.0.weight": torch.tensor(1.0)}, {"form": "fairseq"}, r"layers.0.weight has shape \(\): a weight has two axes"),
        (LAYER | {"layers.0.bias": torch.zeros(6, 1)}, {"form": "fairseq"}, r"layers.0.bias has shape \(6, 1\): a bias has one axis"),
        (LAYER | {"layers.0.bias": torch.zeros(5)}, {"form": "fairseq"}, r"and bias \(5,\) for H and the gate"),
        (
            LAYER | {"layers.1.weight": torch.zeros(8, 4)},
            {"form": "fairseq"},
            r"weight \(8, 4\) and bias \(8,\) for H and the gate: a highway layer of width 3 has \(6, 3\)",
        ),
        (LAYER, {"form": "merged", "gate": "carry", "activation": "relu", "names": ("a", "b")}, r"names = \('a', 'b'\): give one name"),
        (
            LAYER,
            {"form": "merged", "gate": "carry", "activation": "relu", "names": "layers.{}"},
            r"names = 'layers.\{\}': give a tuple of names",
        ),
        (PAIR, SEPARATE | {"names": ("H",)}, r"names = \('H',\): give two names"),
        (PAIR, SEPARATE | {"names": ("H", 3)}, r"names = \('H', 3\): give two names, of H and of the gate, as texts"),
        (PAIR, SEPARATE | {"names": ("H.{", "T")}, r"names = 'H.\{': write \{\} where the number of the layer is"),
        (PAIR, SEPARATE | {"names": ("H.{layer}", "T")}, r"names = 'H.\{layer\}': write \{\} where the number of the layer is"),
        (PAIR, SEPARATE | {"names": ("H.{}.{}", "T")}, r"names = 'H.\{\}.\{\}': write \{\} where the number of the layer is"),
        (PAIR | {"T.weight": torch.zeros(4, 4)}, SEPARATE, r"H has weight \(3, 3\) and the gate \(4, 4\): both must be square and equal"),
        (PAIR | {"T.weight": torch.zeros(3, 3).double()}, SEPARATE, "the layers have weights of types torch.float32 and torch.float64"),
        (KERAS | {"W": np.zeros((3, 3, 3))}, {"form": "keras"}, r"W has shape \(3, 3, 3\): a weight has two axes"),
        (KERAS | {"W": np.zeros((3, 4))}, {"form": "keras"}, r"H has weight \(4, 3\) and the gate \(3, 3\): both must be square and equal"),
        (KERAS | {"b": np.zeros((3, 1))}, {"form": "keras"}, r"b has shape \(3, 1\): a bias has one axis"),
        (KERAS | {"W": np.array("x")}, {"form": "keras"}, "W is of type ndarray: expected numbers"),
        (LAYER, {"form": "fairseq", "activation": "gelu"}, "activation"),
    ],
)
def test_malformed_names_and_values_are_refused(state: object, options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        DenseHighway.from_state_dict(state, **options)
    assert "\n" not in str(caught.value)


def test_values_that_are_not_needed_do_not_matter() -> None:
    DenseHighway.from_state_dict(LAYER | {"layers.version": None, "note": "text"}, "fairseq")


def test_the_type_of_the_weights_is_kept() -> None:
    double = {name: value.double() for name, value in LAYER.items()}
    assert DenseHighway.from_state_dict(double, "fairseq").weight.dtype is torch.float64
