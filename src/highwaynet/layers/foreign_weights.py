"""Weights of other people's highway layers, in the form of ours. Sources and formulas: docs/PYTORCH.md.

All of them compute y = H·T + x·(1 − T) in one of two ways: the gate is T, the factor of H, or it is 1 − T, the factor of x. The second is
the first with the opposite sign before the sigmoid, since 1 − sigmoid(z) = sigmoid(−z).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from highwaynet.layers.names import Activation

ForeignForm = Literal["allennlp", "fairseq", "keras", "elmo", "separate", "merged"]
Gate = Literal["transform", "carry"]

DOUBTFUL = 0.5
"""If the mean gate bias of every layer is beyond this, on the side where the layers would hardly carry, the gate's sign is refused."""

SEPARATE = [("H", "T"), ("transform", "gate"), ("nonlinear", "gate"), ("h", "t"), ("plain", "gate"), ("W_H", "W_T"), ("fc", "gate")]
"""Names of the two layers that are looked for, if none are given."""


class _Way(NamedTuple):
    """How one library stores its highway layers."""

    merged: bool
    gate: Gate | None
    activation: Activation | None


_WAYS: dict[str, _Way] = {
    "allennlp": _Way(merged=True, gate="carry", activation="relu"),
    "fairseq": _Way(merged=True, gate="carry", activation="relu"),
    "keras": _Way(merged=False, gate="transform", activation="identity"),
    "elmo": _Way(merged=False, gate="transform", activation="relu"),
    "separate": _Way(merged=False, gate=None, activation=None),
    "merged": _Way(merged=True, gate=None, activation=None),
}


class Converted(NamedTuple):
    """Parameters of a `DenseHighway`, and its activation."""

    weight: Tensor
    """(layers, 2·width, width), H above T."""
    bias: Tensor
    """(layers, 2·width)."""
    activation: Activation


def convert(
    state: Mapping[str, Any],
    form: ForeignForm,
    gate: Gate | None,
    activation: Activation | None,
    names: Sequence[str] | None,
    prefix: str,
    is_sure: bool,
) -> Converted:
    """Return the parameters of the highway layers in a state dict; see `DenseHighway.from_state_dict` for arguments and errors."""
    if form not in _WAYS:
        raise ValueError(f"form = {form!r}: choose one of {', '.join(_WAYS)}")
    way = _WAYS[form]
    gate = _decided("gate", gate, way.gate, form, ("transform", "carry"))
    activation = activation or way.activation
    if activation is None:
        raise ValueError(f"activation: form {form!r} does not say which; give tanh, relu, sigmoid or identity")
    own = _own(state, prefix)
    layers = _transposed(own) if form in {"keras", "elmo"} else _merged(own, names) if way.merged else _separate(own, names)
    if len(types := sorted({str(tensor.dtype) for layer in layers for tensor in layer})) > 1:
        raise ValueError(f"the layers have weights of types {' and '.join(types)}: convert them to one")
    width = layers[0][0].shape[1]
    for weight, bias in layers:
        if weight.shape != (2 * width, width) or bias.shape != (2 * width,):
            shapes = f"weight {tuple(weight.shape)} and bias {tuple(bias.shape)}"
            raise ValueError(
                f"a layer has {shapes} for H and the gate: a highway layer of width {width} has ({2 * width}, {width}) and ({2 * width},)"
            )
    weight, bias = torch.stack([weight for weight, _ in layers]), torch.stack([bias for _, bias in layers])
    if form != "keras" and not is_sure:  # Keras starts the biases of transform gates at +1
        _check_sign(bias[:, width:], gate, "" if way.gate is None else f"form={'merged' if way.merged else 'separate'!r} with ")
    if gate == "carry":
        sign = torch.cat([torch.ones(width), -torch.ones(width)]).to(bias)
        weight, bias = weight * sign[:, None], bias * sign
    return Converted(weight, bias, activation)


def _own(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return what the state dict has below the prefix, without the endings of TensorFlow's names."""
    if not isinstance(state, Mapping):
        raise ValueError(f"state = {type(state).__name__}: give a state dict, for instance model.state_dict()")
    if not isinstance(prefix, str):
        raise ValueError(f"prefix = {prefix!r}: give a text")
    if wrong := [key for key in state if not isinstance(key, str)]:
        raise ValueError(f"the state dict has the key {wrong[0]!r}: keys are texts, the names of parameters")
    own = {key.removeprefix(prefix).removesuffix(":0"): value for key, value in state.items() if key.startswith(prefix)}
    if not state:
        raise ValueError("the state dict is empty: give that of a module with highway layers")
    if not own:
        raise ValueError(f"prefix = {prefix!r}: no key of the state dict starts with it; the first keys are {_some(state)}")
    return own


def _tensor(state: Mapping[str, Any], key: str, axes: int) -> Tensor:
    """Return a weight (two axes) or a bias (one) of the state dict."""
    try:
        tensor = torch.as_tensor(state[key])
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{key} is of type {type(state[key]).__name__}: expected numbers, as a tensor or an array") from error
    if not tensor.is_floating_point():
        raise ValueError(f"{key} has type {tensor.dtype}: expected floating-point numbers")
    if tensor.is_meta:
        raise ValueError(f"{key} has no values, because it is on the device meta: load the weights first")
    if tensor.dim() != axes:
        raise ValueError(f"{key} has shape {tuple(tensor.shape)}: {'a weight has two axes' if axes == 2 else 'a bias has one axis'}")
    return tensor


def _checked_names(names: Sequence[str], count: int) -> Sequence[str]:
    """Return the names of the layers; a name may have {} for the number of the layer."""
    if isinstance(names, str):
        raise ValueError(f"names = {names!r}: give a tuple of names, for instance names=({names!r},)")
    if len(names) != count or not all(isinstance(name, str) for name in names):
        wanted = "one name, of the layer with H and the gate, as text" if count == 1 else "two names, of H and of the gate, as texts"
        raise ValueError(f"names = {tuple(names)}: give {wanted}")
    for name in names:
        if "{" in name.replace("{}", "", 1) or "}" in name.replace("{}", "", 1):
            raise ValueError(f"names = {name!r}: write {{}} where the number of the layer is, once")
    return names


def _below(h: tuple[Tensor, Tensor], gate: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a layer with H above the gate."""
    if h[0].shape != gate[0].shape or h[0].shape[0] != h[0].shape[1]:
        raise ValueError(f"H has weight {tuple(h[0].shape)} and the gate {tuple(gate[0].shape)}: both must be square and equal")
    if h[0].dtype is not gate[0].dtype:  # torch would convert one of them
        raise ValueError(f"the layers have weights of types {h[0].dtype} and {gate[0].dtype}: convert them to one")
    return torch.cat([h[0], gate[0]]), torch.cat([h[1], gate[1]])


def _decided(name: str, given: Any, known: Any, form: str, allowed: tuple[str, ...]) -> Any:
    if given is not None and given not in allowed:
        raise ValueError(f"{name} = {given!r}: choose {' or '.join(allowed)}")
    if given is None and known is None:
        raise ValueError(f"{name}: form {form!r} does not say what the gate multiplies; give 'transform' if it is H, 'carry' if it is x")
    if given is not None and known is not None and given != known:
        factor = {"transform": "H", "carry": "x"}
        raise ValueError(f"{name} = {given!r}: the gate of {form} multiplies {factor[known]}, not {factor[given]}; omit the argument")
    return given or known


def _check_sign(biases: Tensor, gate: Gate, remedy: str) -> None:
    """Raise ValueError if the biases are those of the other kind of gate: highway layers start by carrying, and stay near it."""
    means = biases.double().mean(dim=1)
    closing = means if gate == "transform" else -means  # positive: most of x is dropped
    if bool((closing > DOUBTFUL).all()):
        other = {"transform": "carry", "carry": "transform"}[gate]
        raise ValueError(
            f"gate = {gate!r}: its biases are {means.mean():+.2f} on average, so that the layers would carry little of their input; "
            f"this looks like a {other} gate, which multiplies {'x' if other == 'carry' else 'H'}. "
            f"Give {remedy}gate={other!r}, or is_sure=True"
        )


def _merged(state: Mapping[str, Any], names: Sequence[str] | None) -> list[tuple[Tensor, Tensor]]:
    """Return (weight, bias) of each layer, for layers that compute H and the gate in one product."""
    usual = ("_layers.{}" if "_layers.0.weight" in state else "layers.{}",)
    return _numbered(state, _checked_names(usual if names is None else names, 1)[0])


def _separate(state: Mapping[str, Any], names: Sequence[str] | None) -> list[tuple[Tensor, Tensor]]:
    """Return (weight, bias) of each layer, H above the gate, for layers with two modules."""
    if any(re.search(r"(^|\.)linear\.\d+\.weight$", key) for key in state) and names is None:
        raise ValueError(
            "the state dict has a third linear layer beside H and the gate, y = g·H + (1 − g)·(W·x + b): that is not a highway layer, "
            "which carries x unchanged; give names=(…, …) if it belongs to something else"
        )
    pair = _checked_names(_pair(state) if names is None else names, 2)
    transforms, gates = (_numbered(state, pattern) for pattern in pair)
    if len(transforms) != len(gates):
        raise ValueError(
            f"the state dict has {len(transforms)} layers {pair[0]!r} and {len(gates)} layers {pair[1]!r}: there must be as many"
        )
    return [_below(h, gate) for h, gate in zip(transforms, gates, strict=True)]


def _pair(state: Mapping[str, Any]) -> tuple[str, str]:
    """Find the two modules of a layer by their usual names: H.weight, H.0.weight, 0.H.weight or layers.0.H.weight."""
    for first, second in SEPARATE:
        for start in ("{}", "{}.{{}}", "{{}}.{}", "layers.{{}}.{}", "highways.{{}}.{}"):
            pair = start.format(first), start.format(second)
            if all(f"{name.format(0)}.weight" in state for name in pair):
                return pair
    known = ", ".join(f"{first} and {second}" for first, second in SEPARATE)
    raise ValueError(
        f"names: no known pair ({known}) is in the state dict, whose first keys are {_some(state)}; give names=('….{{}}', '….{{}}')"
    )


def _numbered(state: Mapping[str, Any], pattern: str) -> list[tuple[Tensor, Tensor]]:
    """Return weight and bias of pattern.format(0), pattern.format(1), …; a pattern without {} is one layer."""
    found: list[tuple[Tensor, Tensor]] = []
    while (key := pattern.format(len(found))) and f"{key}.weight" in state:
        weight = _tensor(state, f"{key}.weight", 2)
        found.append((weight, _tensor(state, f"{key}.bias", 1) if f"{key}.bias" in state else weight.new_zeros(len(weight))))
        if "{" not in pattern:
            break
    if not found:
        raise ValueError(f"{pattern.format(0)}.weight is not in the state dict, whose first keys are {_some(state)}")
    return found


def _transposed(state: Mapping[str, Any]) -> list[tuple[Tensor, Tensor]]:
    """Return (weight, bias) of each layer of Keras 1 (W, W_carry) or ELMo (W_transform, W_carry), whose weights are (in, out).

    In both, W_carry belongs to the gate that multiplies H, in spite of its name.
    """
    starts = sorted((key.removesuffix("W_carry") for key in state if key.endswith("W_carry")), key=_natural)
    if not starts:
        raise ValueError(f"no key ends in W_carry: these are not weights of Keras's or ELMo's highway layers; keys begin {_some(state)}")
    layers = []
    for start in starts:
        end = "_transform" if f"{start}W_transform" in state else ""
        if f"{start}W{end}" not in state:
            raise ValueError(f"{start}W is not in the state dict, which has {start}W_carry: both are needed")
        parts = []
        for name in (end, "_carry"):
            weight = _tensor(state, f"{start}W{name}", 2).T
            bias = _tensor(state, f"{start}b{name}", 1) if f"{start}b{name}" in state else weight.new_zeros(len(weight))
            parts.append((weight, bias))
        layers.append(_below(*parts))
    return layers


def _natural(text: str) -> list[tuple[int, str]]:
    """Order highway_2 before highway_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def _some(state: Mapping[str, Any]) -> str:
    return ", ".join([*state][:4]) or "none"
