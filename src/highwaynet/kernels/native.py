"""Loads the compiled kernels. Does not import torch, so that commands can name the kernel without delay.

The environment variable HIGHWAYNET_KERNEL chooses: `torch` never uses compiled kernels, `native` requires them. If it is unset, they are
used if they were built.
"""

import os
from types import ModuleType

from highwaynet.base.errors import InputError

VARIABLE = "HIGHWAYNET_KERNEL"


def native_module() -> ModuleType | None:
    """Return the compiled module, or None if torch's operators are to be used.

    Raises:
        InputError: If HIGHWAYNET_KERNEL has an unknown value, or requires a module that cannot be loaded.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in {"", "native", "torch"}:
        raise InputError(f"{VARIABLE} = {wanted!r} in the environment: allowed are native and torch, or leave it unset")
    if wanted == "torch":
        return None
    try:
        from highwaynet.kernels import _native
    except ImportError as error:
        if wanted == "native":
            raise InputError(
                f"{VARIABLE} = 'native', but the compiled kernels cannot be loaded ({error}): "
                "install a C++ compiler and then highwaynet again, or unset the variable"
            ) from error
        return None
    return _native


def active_kernel() -> str:
    """Name what computes: "native (avx512)", "native (avx2)" or "native (baseline)" for compiled kernels, "torch" for torch's operators."""
    module = native_module()
    return "torch" if module is None else f"native ({module.instruction_set()})"
