"""Registered operators called directly with arguments that do not fit: refused with a sentence that names operator and argument.

Each call runs in a forked process, because without checks some of them end it.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import highwaynet.kernels.convolution
import highwaynet.kernels.dense_stack
import highwaynet.kernels.gating
import highwaynet.kernels.maxout
import highwaynet.kernels.recurrent  # noqa: F401 (these register the operators)
from highwaynet.kernels.native import native_module

pytestmark = [
    pytest.mark.skipif(native_module() is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]

LAYERS, ROWS, WIDTH = 3, 5, 6
COUNTS = [4, 3, 1]


def _stack() -> list[Any]:
    return [torch.randn(ROWS, WIDTH), torch.randn(LAYERS, 2 * WIDTH, WIDTH), torch.randn(LAYERS, 2 * WIDTH), "highway", "tanh", [2], True]


def _stack_backward() -> list[Any]:
    x, weight, bias, *names, _ = _stack()
    return [torch.randn(ROWS, WIDTH), weight, torch.ops.highwaynet.dense_stack(x, weight, bias, *names, True)[1], *names]


def _recurrent() -> list[Any]:
    weights = [torch.randn(2 * WIDTH, 3), torch.randn(LAYERS, 2 * WIDTH, WIDTH), torch.randn(LAYERS, 2 * WIDTH)]
    return [torch.randn(8, 3), torch.randn(4, WIDTH), *weights, torch.ones(4, WIDTH), torch.tensor(COUNTS), "tanh", [2], True]


def _recurrent_backward() -> list[Any]:
    arguments = _recurrent()
    kept = torch.ops.highwaynet.recurrent(*arguments)[1]
    x, start, input_weight, weight, _, mask, counts, *names, _ = arguments
    return [torch.randn(8, WIDTH), x, start, input_weight, weight, mask, counts, kept, *names]


def _maps(channels: int) -> Tensor:
    return torch.randn(ROWS, channels, 7, WIDTH).contiguous(memory_format=torch.channels_last)


OPERATORS: dict[str, tuple[Callable[[], list[Any]], str]] = {
    "gate": (lambda: [torch.randn(ROWS, WIDTH), torch.randn(ROWS, 2 * WIDTH), "relu"], "x z activation"),
    "gate_backward": (lambda: [*(torch.randn(ROWS, n * WIDTH) for n in (1, 1, 2)), "relu"], "gy x z activation"),
    "maxout": (lambda: [torch.randn(ROWS, 2 * WIDTH), 2], "z pieces"),
    "maxout_backward": (lambda: [torch.randn(ROWS, WIDTH), torch.randn(ROWS, 2 * WIDTH), 2], "gy z pieces"),
    "convolution": (lambda: [_maps(16), torch.randn(32, 16, 3, 3), torch.randn(32)], "x weight bias"),
    "convolution_backward": (
        lambda: [_maps(32), _maps(16), torch.randn(32, 16, 3, 3), True, True, True],
        "gy x weight for_x for_weight for_bias",
    ),
    "dense_stack": (_stack, "x weight bias kind activation closed keep"),
    "dense_stack_backward": (_stack_backward, "gy weight kept kind activation closed"),
    "recurrent": (_recurrent, "x start input_weight weight bias mask counts activation closed keep"),
    "recurrent_backward": (_recurrent_backward, "gy x start input_weight weight mask counts kept activation closed"),
}

WRONG: dict[str, Callable[[Tensor], Any]] = {
    "float64": lambda tensor: tensor.double(),
    "bfloat16": lambda tensor: tensor.bfloat16(),
    "int32": lambda tensor: tensor.int(),
    "bool": lambda tensor: tensor.bool(),
    "complex": lambda tensor: tensor.cfloat(),
    "an axis more": lambda tensor: tensor[None],
    "an axis fewer": lambda tensor: tensor[0],
    "wider": lambda tensor: torch.cat([tensor, tensor[..., :1]], dim=-1),
    "narrower": lambda tensor: tensor[..., :-1],
    "longer": lambda tensor: torch.cat([tensor, tensor]),
    "shorter": lambda tensor: tensor[:-1],
    "empty": lambda tensor: tensor[:0],
    "without values": lambda tensor: torch.empty_like(tensor, device="meta"),
    "sparse": lambda tensor: tensor.to_sparse(),
    "nothing": lambda tensor: "x",
}
ALSO_RIGHT = {  # another batch, or the same with other numbers
    ("dense_stack", "x", "longer"),
    ("dense_stack", "x", "shorter"),
    ("dense_stack", "x", "empty"),
    *(("convolution", "x", how) for how in ("longer", "shorter", "empty", "wider", "narrower")),
    *(("maxout", "z", how) for how in ("longer", "shorter", "empty", "without values", "bfloat16")),
}


def outcome(call: Callable[[], object]) -> str:
    """The kind of error and its message, or how the forked process ended."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's about threads: the child computes with one
        child = os.fork()
    if child == 0:
        try:
            call()
            answer = "no error"
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as stream:
        answer = stream.read()
    _, status = os.waitpid(child, 0)
    return answer if status == 0 else f"ended by signal {status}"


def refused(answer: str, operator: str, names: Sequence[str]) -> bool:
    """Whether it is a sentence about this operator that names one of the arguments; torch writes its own about types of arguments."""
    kinds = ("ValueError: ", "TypeError: ", "RuntimeError: ", "NotImplementedError: ")
    first = answer.splitlines()[0]
    return first.startswith(kinds) and f"highwaynet::{operator}" in first and ("SparseCPU" in first or any(name in first for name in names))


def call(operator: str, arguments: list[Any]) -> Callable[[], object]:
    return lambda: getattr(torch.ops.highwaynet, operator)(*arguments)


@pytest.mark.parametrize("operator", OPERATORS)
def test_right_arguments_are_taken(operator: str) -> None:
    assert outcome(call(operator, OPERATORS[operator][0]())) == "no error"


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_wrong_tensor_is_refused(operator: str) -> None:
    make, names = OPERATORS[operator]
    failures = []
    for place, name in enumerate(names.split()):
        for how, change in WRONG.items():
            arguments = make()
            if not isinstance(arguments[place], Tensor) or (operator, name, how) in ALSO_RIGHT:
                continue
            arguments[place] = change(arguments[place])
            answer = outcome(call(operator, arguments))
            if not refused(answer, operator, names.split()):
                failures.append((name, how, answer[:300]))
    assert not failures, "\n".join(map(str, failures))


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_unknown_name_and_number_is_refused(operator: str) -> None:
    make, names = OPERATORS[operator]
    wrong: dict[str, list[Any]] = {
        "kind": ["rail", ""],
        "activation": ["gelu", "", "TANH", 3],
        "closed": [[0], [-1], [LAYERS + 1], [2**40]],
    }
    failures = []
    for place, name in enumerate(names.split()):
        for value in wrong.get(name, []):
            arguments = make()
            arguments[place] = value
            answer = outcome(call(operator, arguments))
            if not refused(answer, operator, [name]):
                failures.append((name, value, answer[:300]))
    assert not failures, "\n".join(map(str, failures))


@pytest.mark.parametrize("counts", [[4, 5], [4, 3, 2], [3, 4, 1], [4, 4, 0], [4, -1, 5], [8], [], [2**62, 2**62, 2**62, 2**62, 8], [5, 3]])
def test_counts_that_do_not_fit_are_refused(counts: list[int]) -> None:
    for operator, place in (("recurrent", 6), ("recurrent_backward", 6)):
        arguments = OPERATORS[operator][0]()
        arguments[place] = torch.tensor(counts, dtype=torch.int64)
        answer = outcome(call(operator, arguments))
        assert refused(answer, operator, ["counts"]), answer


@pytest.mark.parametrize("operator", OPERATORS)
def test_other_strides_give_the_same_numbers(operator: str) -> None:
    make, names = OPERATORS[operator]
    torch.manual_seed(0)
    right = make()
    expected = getattr(torch.ops.highwaynet, operator)(*right)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for place in range(len(names.split())):
        if not isinstance(right[place], Tensor):
            continue
        spaced = torch.stack([right[place], right[place]], dim=-1)[..., 0]
        turned = right[place].mT.contiguous().mT if right[place].dim() > 1 else spaced
        negated = torch._neg_view(-right[place]) if right[place].is_floating_point() else spaced
        for other in (spaced, turned, negated):
            arguments = [*right]
            arguments[place] = other
            found = getattr(torch.ops.highwaynet, operator)(*arguments)
            found = found if isinstance(found, tuple) else (found,)
            assert all(torch.equal(mine, one) for mine, one in zip(found, expected, strict=True))


def test_layers_without_features() -> None:
    """Torch allows a width of 0; the kernel must not divide by it."""
    x, weight, bias = torch.empty(ROWS, 0), torch.empty(LAYERS, 0, 0), torch.empty(LAYERS, 0)

    def both() -> None:
        for kind in ("highway", "plain", "residual"):
            y, kept = torch.ops.highwaynet.dense_stack(x, weight, bias, kind, "tanh", [], True)
            gradients = torch.ops.highwaynet.dense_stack_backward(y, weight, kept, kind, "tanh", [])
            assert [tuple(found.shape) for found in (y, *gradients)] == [(ROWS, 0), (ROWS, 0), (LAYERS, 0, 0), (LAYERS, 0)]
        assert torch.ops.highwaynet.gate(x, x, "relu").shape == (ROWS, 0)

    assert outcome(both) == "no error"
