"""The compiled module, as module.cpp defines it.

Tensors are checked: type, shape, contiguous memory, device, and that outputs share no memory with other arguments. A wrong argument raises
ValueError or TypeError. Outputs are written whole; those that may be None are then not computed. Names of activations and of kinds of
layers are those of `ACTIVATIONS` and `KINDS`.
"""

from collections.abc import Sequence

from torch import Tensor

def gate(x: Tensor, z: Tensor, y: Tensor, activation: str, threads: int, /) -> None: ...
def gate_backward(gy: Tensor, x: Tensor, z: Tensor, gx: Tensor, gz: Tensor, activation: str, threads: int, /) -> None: ...
def maxout(z: Tensor, y: Tensor, pieces: int, threads: int, /) -> None: ...
def maxout_backward(gy: Tensor, z: Tensor, gz: Tensor, pieces: int, threads: int, /) -> None: ...
def convolution_scratch(x: Tensor, weight: Tensor, backward: bool, threads: int, /) -> int: ...
def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, scratch: Tensor, threads: int, /) -> None: ...
def convolution_backward(
    gy: Tensor, x: Tensor, weight: Tensor, gx: Tensor | None, gw: Tensor | None, gb: Tensor | None, scratch: Tensor, threads: int, /
) -> None: ...
def activate(z: Tensor, bias: Tensor, activation: str, /) -> None: ...
def activation_gradient(gy: Tensor, y: Tensor, gz: Tensor, gb: Tensor, activation: str, /) -> None: ...
def cross_entropy(logits: Tensor, targets: Tensor, gradient: Tensor, /) -> float: ...
def dense_stack_lanes() -> int: ...
def dense_stack_memory(x: Tensor, weight: Tensor, bias: Tensor, kind: str, activation: str, keep: bool, gates: bool, /) -> int: ...
def dense_stack_scratch(gy: Tensor, weight: Tensor, kept: Tensor, kind: str, activation: str, threads: int, /) -> int: ...
def dense_stack(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    y: Tensor,
    t: Tensor | None,
    h: Tensor | None,
    kept: Tensor,
    kind: str,
    activation: str,
    closed: Sequence[int],
    keep: bool,
    threads: int,
    /,
) -> None: ...
def dense_stack_backward(
    gy: Tensor,
    weight: Tensor,
    kept: Tensor,
    gx: Tensor,
    gw: Tensor | None,
    gb: Tensor | None,
    scratch: Tensor,
    kind: str,
    activation: str,
    closed: Sequence[int],
    threads: int,
    /,
) -> None: ...
def recurrent_lanes() -> int: ...
def recurrent_memory(
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    keep: bool,
    /,
) -> list[int]: ...
def recurrent_scratch(
    gy: Tensor,
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    kept: Tensor,
    /,
) -> int: ...
def recurrent(
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    y: Tensor,
    kept: Tensor,
    scratch: Tensor,
    activation: str,
    closed: Sequence[int],
    keep: bool,
    threads: int,
    /,
) -> None: ...
def recurrent_backward(
    gy: Tensor,
    x: Tensor,
    start: Tensor,
    input_weight: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    counts: Tensor,
    kept: Tensor,
    gx: Tensor | None,
    gstart: Tensor,
    giw: Tensor | None,
    gw: Tensor | None,
    gb: Tensor | None,
    scratch: Tensor,
    activation: str,
    closed: Sequence[int],
    threads: int,
    /,
) -> None: ...
def readable(*tensors: Tensor) -> bool: ...
def prefer_large_pages(tensor: Tensor, /) -> None: ...
def divide_recurrent(division: int, /) -> None: ...
def use_threads_of(library: str, /) -> bool: ...
def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str, /) -> None: ...
