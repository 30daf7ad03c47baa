"""What the compiled operators share: the loaded module, its threads, and which tensors they can read."""

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor
from torch.autograd import forward_ad

from highwaynet.base.errors import InputError
from highwaynet.kernels.native import native_module

ACTIVATIONS = {"relu": 0, "tanh": 1, "sigmoid": 2, "identity": 3}
"""As in activation.h."""

PLAIN = (Tensor, torch.nn.Parameter)

LIBRARY = torch.library.Library("highwaynet", "DEF")
"""The registry is how torch.compile, fake tensors and dispatch modes see the operators."""


def _connect_threads(native: ModuleType) -> None:
    """Let the kernels use the threads of torch's OpenMP runtime: a second runtime would compete with it for the processor.

    Looked up in torch's library, the symbol comes from the runtime that torch itself is linked with. Where there is none, one thread
    computes.
    """
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        region = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD).GOMP_parallel
    except (OSError, AttributeError):
        return
    native.use_parallel_region(ctypes.cast(region, ctypes.c_void_p).value)


# Loaded here, so that torch.compile meets constants. A wrong environment variable is told at the first use, not to whoever imports this.
_native: ModuleType | None = None
_problem: InputError | None = None
try:
    _native = native_module()
except InputError as error:
    _problem = error
if _native is not None:
    _connect_threads(_native)


def compiled() -> ModuleType:
    """The compiled module; raises RuntimeError where there is none."""
    if _native is None:
        raise RuntimeError("an operator of highwaynet was called where the compiled kernels are missing or switched off")
    return _native


def _is_exporting() -> bool:
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return True
    exporting: bool = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)()  # torch 2.6 cannot tell them apart
    return exporting


def readable(*tensors: Tensor) -> bool:
    """Whether the memory of the tensors holds their values as they are."""
    return all(
        tensor.is_cpu and tensor.layout is torch.strided and not tensor.is_neg() and not tensor._is_zerotensor() for tensor in tensors
    )


def can_take(*tensors: Tensor) -> bool:
    """Whether compiled operators can be used on these tensors at all; form and type are the operator's own question.

    They are not while a model is exported, so that what is shipped needs no kernel of ours, nor under torch.func and forward-mode
    gradients.

    Raises:
        InputError: The environment variable HIGHWAYNET_KERNEL is wrong.
    """
    if _native is None:
        if _problem is not None:
            raise _problem
        return False
    if _is_exporting():
        return False
    if torch.compiler.is_compiling():
        return all(tensor.is_cpu for tensor in tensors)
    if any(type(tensor) not in PLAIN for tensor in tensors):
        return False
    return forward_ad._current_level < 0 and not torch._C._are_functorch_transforms_active() and readable(*tensors)


def gradients_in_torch(
    function: Callable[..., Tensor], inputs: tuple[Tensor, ...], needed: Sequence[bool], gy: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of function(*inputs) that are needed, in torch's operators: for gradients of gradients, and for batches of them."""
    with torch.enable_grad():  # aliases: an input may depend on another one, and hooks on inputs are for whoever asked
        inputs = tuple(tensor.view_as(tensor) for tensor in inputs)
        y = function(*inputs)
    wanted = [tensor for tensor, is_needed in zip(inputs, needed, strict=False) if is_needed]
    found = iter(torch.autograd.grad(y, wanted, gy, create_graph=torch.is_grad_enabled()))
    return tuple(next(found) if is_needed else None for _, is_needed in zip(inputs, needed, strict=False))


def through_registry() -> bool:
    """Whether somebody looks at operators: torch.compile, or a dispatch mode. A call through torch's registry takes three times as long."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
