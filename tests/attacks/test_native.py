"""The compiled module called directly with arguments that do not fit: no address is trusted, and nothing is written over what is read."""

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from highwaynet.kernels.native import native_module

native: Any = native_module()
pytestmark = pytest.mark.skipif(native is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")

LAYERS, ROWS, WIDTH = 3, 5, 6
X, WEIGHT, BIAS = torch.randn(ROWS, WIDTH), torch.randn(LAYERS, 2 * WIDTH, WIDTH), torch.randn(LAYERS, 2 * WIDTH)
NAMES = ("highway", "tanh")


def _stack() -> list[Any]:
    kept = torch.empty(native.dense_stack_memory(X, WEIGHT, BIAS, *NAMES, True, True))
    h, t = torch.empty(LAYERS, ROWS, WIDTH), torch.empty(LAYERS, ROWS, WIDTH)
    return [X.clone(), WEIGHT.clone(), BIAS.clone(), torch.empty(ROWS, WIDTH), t, h, kept, *NAMES, [1], True, 1]


def _stack_backward() -> list[Any]:
    forward = _stack()
    native.dense_stack(*forward)
    scratch = torch.empty(native.dense_stack_scratch(X, WEIGHT, forward[6], *NAMES, 1))
    gradients = [torch.empty_like(X), torch.empty_like(WEIGHT), torch.empty_like(BIAS)]
    return [torch.randn(ROWS, WIDTH), WEIGHT.clone(), forward[6], *gradients, scratch, *NAMES, [1], 1]


def _inputs() -> list[Any]:
    weights = [torch.randn(2 * WIDTH, 3), WEIGHT.clone(), BIAS.clone()]
    return [torch.randn(8, 3), torch.randn(4, WIDTH), *weights, torch.ones(4, WIDTH), torch.tensor([4, 3, 1])]


def _recurrent() -> list[Any]:
    inputs = _inputs()
    sizes = native.recurrent_memory(*inputs, True)
    return [*inputs, torch.empty(8, WIDTH), *map(torch.empty, sizes), "tanh", [2], True, 1]


def _recurrent_backward() -> list[Any]:
    forward = _recurrent()
    native.recurrent(*forward)
    x, start, input_weight, weight, bias, mask, counts, _, kept, *_ = forward
    given = [torch.randn(8, WIDTH), x, start, input_weight, weight, mask, counts, kept]
    gradients = [torch.empty_like(tensor) for tensor in (x, start, input_weight, weight, bias)]
    return [*given, *gradients, torch.empty(native.recurrent_scratch(*given)), "tanh", [2], 1]


def _convolution() -> list[Any]:
    x, weight, bias = torch.randn(ROWS, 16, 1, 1), torch.randn(32, 16, 3, 3), torch.randn(32)
    return [x, weight, bias, torch.empty(ROWS, 32, 1, 1), torch.empty(native.convolution_scratch(x, weight, False, 1)), 1]


def _convolution_backward() -> list[Any]:
    x, weight, bias, gy, *_ = _convolution()
    gradients = [torch.empty_like(tensor) for tensor in (x, weight, bias)]
    return [gy.normal_(), x, weight, *gradients, torch.empty(native.convolution_scratch(x, weight, True, 1)), 1]


CALLS: dict[str, tuple[Callable[[], list[Any]], str, str]] = {  # arguments, their names, and those that are written
    "gate": (lambda: [X.clone(), torch.randn(ROWS, 2 * WIDTH), torch.empty(ROWS, WIDTH), "relu", 1], "x z y activation threads", "y"),
    "maxout": (lambda: [torch.randn(ROWS, 2 * WIDTH), torch.empty(ROWS, WIDTH), 2, 1], "z y pieces threads", "y"),
    "maxout_backward": (
        lambda: [X.clone(), torch.randn(ROWS, 2 * WIDTH), torch.empty(ROWS, 2 * WIDTH), 2, 1],
        "gy z gz pieces threads",
        "gz",
    ),
    "convolution": (_convolution, "x weight bias y scratch threads", "y scratch"),
    "convolution_backward": (_convolution_backward, "gy x weight gx gw gb scratch threads", "gx gw gb scratch"),
    "gate_backward": (
        lambda: [torch.randn(ROWS, n * WIDTH) for n in (1, 1, 2, 1, 2)] + ["relu", 1],
        "gy x z gx gz activation threads",
        "gx gz",
    ),
    "activate": (lambda: [X.clone(), torch.randn(WIDTH), "relu"], "z bias activation", "z"),
    "activation_gradient": (
        lambda: [*(torch.randn(ROWS, WIDTH) for _ in range(3)), torch.empty(WIDTH), "relu"],
        "gy y gz gb activation",
        "gb",  # gz may be gy
    ),
    "cross_entropy": (
        lambda: [torch.randn(ROWS, 4), torch.tensor([0, 3, 1, 2, 0]), torch.empty(ROWS, 4)],
        "logits targets gradient",
        "gradient",
    ),
    "dense_stack": (_stack, "x weight bias y t h kept kind activation closed keep threads", "y t h kept"),
    "dense_stack_backward": (_stack_backward, "gy weight kept gx gw gb scratch kind activation closed threads", "gx gw gb scratch"),
    "recurrent": (
        _recurrent,
        "x start input_weight weight bias mask counts y kept scratch activation closed keep threads",
        "y kept scratch",
    ),
    "recurrent_backward": (
        _recurrent_backward,
        "gy x start input_weight weight mask counts kept gx gstart giw gw gb scratch activation closed threads",
        "gx gstart giw gw gb scratch",
    ),
}


def unaligned(tensor: Tensor) -> Tensor:
    """The same values one byte further: as if they had been read from the middle of a file."""
    return torch.frombuffer(bytearray(b"x") + tensor.numpy().tobytes(), dtype=tensor.dtype, offset=1).view(tensor.shape)


WRONG: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "other type": (lambda tensor: tensor.to(torch.float64 if tensor.is_floating_point() else torch.int32), "has type"),
    "low precision": (lambda tensor: tensor.half(), "has type float16"),
    "an axis more": (lambda tensor: tensor[None], "has shape"),
    "wider": (lambda tensor: torch.cat([tensor, tensor[..., :1]], dim=-1).contiguous(), "has shape|counts = "),
    "spaced": (lambda tensor: torch.stack([tensor, tensor], dim=-1)[..., 0], "strides"),
    "expanded": (lambda tensor: tensor[:1].expand(tensor.shape), "strides"),
    "without values": (lambda tensor: tensor.to("meta"), "cannot be read from memory: expected a dense tensor on the CPU"),
    "sparse": (lambda tensor: tensor.to_sparse(), "cannot be read from memory: expected a dense tensor on the CPU"),
    "zeros without memory": (lambda tensor: torch._efficientzerotensor(tensor.shape, dtype=tensor.dtype), "memory"),
    "negated": (torch._neg_view, "negated when it is read"),
    "unaligned": (unaligned, "begins between two numbers"),
    "an array": (lambda tensor: tensor.numpy(), "is of type numpy.ndarray: expected a tensor"),
    "an address": (lambda tensor: tensor.data_ptr(), "is of type int: expected a tensor"),
}


@pytest.mark.parametrize("function", CALLS)
def test_right_arguments_are_taken(function: str) -> None:
    getattr(native, function)(*CALLS[function][0]())


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("function", CALLS)
@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_each_wrong_tensor_is_refused(function: str, how: str) -> None:
    make, names, _ = CALLS[function]
    change, words = WRONG[how]
    for place, name in enumerate(names.split()):
        arguments = make()
        if not isinstance(arguments[place], Tensor):
            continue
        arguments[place] = change(arguments[place])
        with pytest.raises((ValueError, TypeError), match=rf"^highwaynet::{function}: .*({words})") as caught:
            getattr(native, function)(*arguments)
        assert "\n" not in str(caught.value)
        assert how == "wider" or f" {name} " in str(caught.value)


@pytest.mark.parametrize("function", CALLS)
def test_outputs_need_memory_of_their_own(function: str) -> None:
    make, names, written = CALLS[function]
    places = [place for place, value in enumerate(make()) if isinstance(value, Tensor)]
    for name in written.split():
        place = names.split().index(name)
        for other in places:
            arguments = make()
            if other == place or arguments[other].dtype is not torch.float32:
                continue
            memory = torch.zeros(2 * max(arguments[place].numel(), arguments[other].numel()))
            for at in (place, other):
                memory[: arguments[at].numel()] = arguments[at].flatten()
                arguments[at] = memory[: arguments[at].numel()].view(arguments[at].shape)
            with pytest.raises(ValueError, match=rf"^highwaynet::{function}: \w+ shares memory with \w+: expected memory of its own"):
                getattr(native, function)(*arguments)


@pytest.mark.parametrize("function", CALLS)
def test_unknown_names_and_numbers_are_refused(function: str) -> None:
    make, names, _ = CALLS[function]
    wrong: dict[str, list[Any]] = {
        "kind": ["rail"],
        "activation": ["gelu", ""],
        "closed": [[0], [9], [-(2**63)]],
        "threads": [0, -1, 2**62],
    }
    for place, name in enumerate(names.split()):
        for value in wrong.get(name, []):
            arguments = make()
            arguments[place] = value
            with pytest.raises(ValueError, match=rf"^highwaynet::{function}: {name} .*expected"):
                getattr(native, function)(*arguments)


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        ("convolution_backward", "gw"),
        ("dense_stack", "h"),
        ("dense_stack_backward", "gb"),
        ("recurrent_backward", "gw"),
        ("recurrent_backward", "giw"),
    ],
)
def test_outputs_that_belong_together_are_given_together(function: str, missing: str) -> None:
    make, names, _ = CALLS[function]
    arguments = make()
    arguments[names.split().index(missing)] = None
    with pytest.raises(ValueError, match=rf"^highwaynet::{function}: .*expected"):
        getattr(native, function)(*arguments)


def test_a_single_row_may_be_its_own_sum_and_a_gradient_may_be_replaced() -> None:
    gy, y = torch.randn(1, WIDTH), torch.rand(1, WIDTH)
    expected = gy * (1 - y * y)
    sums = torch.empty(WIDTH)
    native.activation_gradient(gy, y, sums[None], sums, "tanh")
    torch.testing.assert_close(sums[None], expected)
    native.activation_gradient(gy, y, gy, sums, "tanh")
    torch.testing.assert_close(gy, expected)


def test_sizes_that_overflow_are_refused() -> None:
    for shape in ((2**62, 0), (0, 2**62)):
        with pytest.raises(ValueError, match=re.escape("expected at most 2^40 along an axis")):
            native.gate(torch.empty(shape), torch.empty(shape), torch.empty(shape), "relu", 1)
    huge = torch.empty(2**40, 0)
    native.gate(huge, huge, huge, "relu", 1)


def test_other_functions_check_their_arguments() -> None:
    for division in (-1, 3):
        with pytest.raises(ValueError, match=f"division = {division}: expected 0"):
            native.divide_recurrent(division)
    with pytest.raises(ValueError, match="cannot run sse"):
        native.use_instruction_set("sse")
    with pytest.raises(TypeError, match="expected a tensor"):
        native.prefer_large_pages(4096)
    assert not native.use_threads_of("/nowhere/libnothing.so")
    assert not native.readable(3)
    assert native.readable(X, WEIGHT)
    assert not native.readable(X, unaligned(X))


def test_tensors_are_described_by_older_versions_of_torch_too() -> None:
    code = (
        "import torch; torch.Tensor.__dlpack_c_exchange_api__ = None\n"
        "from highwaynet.kernels.native import native_module; native = native_module()\n"
        "x, z, y = torch.randn(3, 5, requires_grad=True), torch.randn(3, 10), torch.empty(3, 5)\n"
        "native.gate(x, z, y, 'tanh', 1)\n"
        "torch.testing.assert_close(y, torch.lerp(x, torch.tanh(z[:, :5]), torch.sigmoid(z[:, 5:])).detach())\n"
        "for wrong in (z.double(), z.T, z.to('meta'), torch._neg_view(z), torch.randn(3, 9)):\n"
        "    try:\n        native.gate(x, wrong, y, 'tanh', 1)\n"
        "    except ValueError as error:\n        print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("highwaynet::gate: z ") and "expected" in line for line in lines)
