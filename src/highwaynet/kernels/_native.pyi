"""The compiled module, as module.cpp defines it. Addresses are those of contiguous float32 memory and are not checked."""

def gate(x: int, z: int, y: int, rows: int, channels: int, activation: int, threads: int, /) -> None: ...
def gate_backward(gy: int, x: int, z: int, gx: int, gz: int, rows: int, channels: int, activation: int, threads: int, /) -> None: ...
def activate(z: int, bias: int, rows: int, width: int, activation: int, /) -> None: ...
def activation_gradient(gy: int, y: int, gz: int, gb: int, rows: int, width: int, activation: int, /) -> None: ...
def cross_entropy(logits: int, targets: int, gradient: int, rows: int, classes: int, /) -> float: ...
def stack_memory(kind: int, layers: int, rows: int, width: int, keep: bool, gates: bool, /) -> int: ...
def stack_scratch(kind: int, layers: int, rows: int, width: int, threads: int, /) -> int: ...
def stack_forward(
    kind: int,
    activation: int,
    layers: int,
    rows: int,
    width: int,
    closed: int,
    weight: int,
    bias: int,
    x: int,
    y: int,
    t: int,
    h: int,
    kept: int,
    keep: bool,
    threads: int,
    /,
) -> None: ...
def stack_backward(
    kind: int,
    activation: int,
    layers: int,
    rows: int,
    width: int,
    closed: int,
    weight: int,
    kept: int,
    gy: int,
    gx: int,
    gw: int,
    gb: int,
    scratch: int,
    threads: int,
    /,
) -> None: ...
def use_parallel_region(address: int, /) -> None: ...
def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str, /) -> None: ...
