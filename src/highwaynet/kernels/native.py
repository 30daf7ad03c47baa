"""The loader of the compiled kernels. It does not import torch, so that the command can name the kernel at once.

The environment variable HIGHWAYNET_KERNEL chooses: `torch` never uses compiled kernels, `native` insists on them, and without it they are
used where they were built.
"""

import os
from types import ModuleType

from highwaynet.base.errors import InputError

VARIABLE = "HIGHWAYNET_KERNEL"


def native_module() -> ModuleType | None:
    """The compiled module, or None where torch's own operators are to be used.

    Raises:
        InputError: HIGHWAYNET_KERNEL has an unknown value, or asks for a module that cannot be loaded.
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
    """What computes: "native (avx512)", "native (avx2)" and "native (baseline)" are compiled kernels, "torch" is torch's own operators."""
    module = native_module()
    return "torch" if module is None else f"native ({module.instruction_set()})"
