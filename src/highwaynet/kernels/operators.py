"""Shared code of the compiled operators: the loaded module, its threads, and which tensors it can read."""

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from highwaynet.base.errors import InputError
from highwaynet.kernels.native import native_module

ACTIVATIONS = ("relu", "tanh", "sigmoid", "identity")

PLAIN = frozenset({Tensor, torch.nn.Parameter})

ROWS = frozenset({torch.float32, torch.bfloat16})
"""Types of numbers that gating and maxout read; they compute in float32."""

LIBRARY = torch.library.Library("highwaynet", "DEF")
"""The registration through which torch.compile, fake tensors and dispatch modes see the operators."""


def _connect_threads(native: ModuleType) -> None:
    """Let the kernels use the threads of torch's OpenMP runtime: a second runtime would compete with it for the processor.

    It is looked up in torch's library, so that it is the runtime that torch is linked with. If there is none, the kernels use one thread.
    """
    native.use_threads_of(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))


# Loaded on import, so that torch.compile sees constants. A wrong environment variable raises on first use, not on import.
_native: ModuleType | None = None
_problem: InputError | None = None
try:
    _native = native_module()
except InputError as error:
    _problem = error
if _native is not None:
    _connect_threads(_native)


def compiled() -> ModuleType:
    """Return the compiled module; raises RuntimeError if there is none."""
    if _native is None:
        raise RuntimeError("an operator of highwaynet was called, but the compiled kernels are missing or switched off")
    return _native


def _is_exporting() -> bool:
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return True
    exporting: bool = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)()  # torch 2.6 cannot distinguish them
    return exporting


def readable(*tensors: Tensor) -> bool:
    """Whether the kernels can read the tensors' values from memory: dense CPU tensors without lazy negation or lazy zeros.

    Their addresses must be aligned, which those of numbers in the middle of a file may not be.
    """
    is_readable: bool = compiled().readable(*tensors)
    return is_readable


def can_take(*tensors: Tensor) -> bool:
    """Whether compiled operators can be used on these tensors at all; each operator also checks shapes and types.

    False while a model is exported, so that exported models need no kernels of this package, and under torch.func and forward-mode
    gradients.

    Raises:
        InputError: If the environment variable HIGHWAYNET_KERNEL has an unknown value.
    """
    if _native is None:
        if _problem is not None:
            raise _problem
        return False
    if _is_exporting():
        return False
    if torch.compiler.is_compiling():
        return all(tensor.is_cpu for tensor in tensors) and not torch._C._are_functorch_transforms_active()
    if not PLAIN.issuperset(map(type, tensors)):
        return False
    return forward_ad._current_level < 0 and not torch._C._are_functorch_transforms_active() and readable(*tensors)


def register(operator: str, on_cpu: Callable[..., Any], fake: Callable[..., Any]) -> None:
    """Give an operator of the library its kernel and its version for tensors without values."""
    LIBRARY.impl(operator, _given(operator, on_cpu), "CPU")
    torch.library.register_fake(f"highwaynet::{operator}", _given(operator, fake), lib=LIBRARY)


def refuse_second_derivative(operator: str) -> None:
    """Let differentiating an operator that computes gradients raise RuntimeError."""

    def refuse(ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError(f"highwaynet::{operator} cannot be differentiated: set HIGHWAYNET_KERNEL=torch for gradients of gradients")

    torch.library.register_autograd(f"highwaynet::{operator}", refuse, lib=LIBRARY)


def arranged(x: Tensor) -> Tensor:
    """Return rows, or maps with channels innermost, as gating and maxout read them from memory."""
    return x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.contiguous_format)


def _given(operator: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a check that no tensor is missing: torch passes None then."""
    kinds = enumerate(function.__annotations__.items())
    places = [(place, name) for place, (name, kind) in kinds if kind is Tensor and name != "return"]

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        for place, name in places:
            if arguments[place] is None:
                raise TypeError(f"highwaynet::{operator}: {name} is None: expected a tensor")
        return function(*arguments)

    return call


def check_fake(operator: str, fits: bool, *names: object, **tensors: Tensor | None) -> None:
    """Raise ValueError if tensors without values (of torch.compile, or on the device meta) do not fit, or are mixed with others.

    For tensors with values the kernels check everything, and name the argument.
    """
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if fits and len({tensor.device for tensor in given.values()}) == 1:
        return
    forms = ", ".join(f"{name} {tuple(tensor.shape)} {tensor.dtype} on {tensor.device}" for name, tensor in given.items())
    raise ValueError(f"highwaynet::{operator}: {forms} with {', '.join(map(repr, names))}: these do not fit together")


def gradients_in_torch(
    function: Callable[..., Tensor], inputs: tuple[Tensor, ...], needed: Sequence[bool], gy: Tensor
) -> tuple[Tensor | None, ...]:
    """Return the needed gradients of function(*inputs), with torch's operators: for gradients of gradients and batched gradients."""
    # Views: an input may depend on another one, and the user's hooks on inputs must not run here.
    with torch.enable_grad(), torch.autocast("cpu", enabled=False):
        inputs = tuple(tensor.view_as(tensor) for tensor in inputs)
        y = function(*inputs)
    wanted = [tensor for tensor, is_needed in zip(inputs, needed, strict=False) if is_needed]
    if y.requires_grad:  # inputs of closed layers take no part: their gradient is 0
        found = iter(torch.autograd.grad(y, wanted, gy, create_graph=torch.is_grad_enabled(), materialize_grads=True))
    else:
        found = iter([torch.zeros_like(tensor) for tensor in wanted])
    return tuple(next(found) if is_needed else None for _, is_needed in zip(inputs, needed, strict=False))


def through_registry() -> bool:
    """Whether to call through torch's registry: only if torch.compile or a dispatch mode is active, since it takes three times as long."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def _use_one_thread() -> None:
    """In a forked process the threads of the parent are gone, and OpenMP would wait for them forever: compute with one."""
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_use_one_thread)
