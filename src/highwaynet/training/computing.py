"""Device and precision of a run; the rest of the loop does not depend on them."""

import os
import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from highwaynet.base.errors import InputError
from highwaynet.runs.training_spec import TrainingSpec

_MIXED = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Computing:
    """A device and the number types used on it."""

    device: torch.device
    dtype: torch.dtype
    """Type of weights and inputs."""
    mixed: torch.dtype | None
    """Type that autocast uses for operations where it is safe; None for no autocast."""

    def place(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Move a batch to the device and type of the network; class numbers keep their type."""
        targets = targets.to(self.device, self.dtype if targets.is_floating_point() else None, non_blocking=True)
        return inputs.to(self.device, self.dtype, non_blocking=True), targets

    def autocast(self) -> AbstractContextManager[object]:
        """The context manager for the forward pass."""
        return nullcontext() if self.mixed is None else torch.autocast(self.device.type, dtype=self.mixed)

    def scaler(self) -> torch.amp.GradScaler:
        """A gradient scaler for float16; it does nothing for other types."""
        return torch.amp.GradScaler(self.device.type, enabled=self.mixed is torch.float16)


def choose_device(wanted: str | None) -> str:
    """Return the wanted device, by default CUDA if available, else the CPU; raises InputError if this machine does not have it."""
    if wanted is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = wanted.partition(":")
    counts = {"cpu": lambda: 1, "mps": lambda: int(torch.backends.mps.is_available())}
    found = counts.get(kind, getattr(torch, kind).device_count)()
    if int(number or 0) >= found:
        there = f"only {found} such devices" if found else "no such device"
        raise InputError(f"training.device = {wanted!r}: torch finds {there} on this machine; choose cpu or omit the setting")
    return wanted


def has_compiler() -> bool:
    """Whether there is a C++ compiler, which torch.compile needs on the CPU."""
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++", "cl") if name)


def check_computing(training: TrainingSpec) -> None:
    """Raise InputError if the chosen device does not support a setting."""
    if training.compile and training.device == "cpu" and not has_compiler():
        raise InputError("training.compile = true: torch.compile needs a C++ compiler and finds none; install one or omit the setting")
    if training.device == "mps" and training.precision == "float64":
        raise InputError("training.precision = 'float64': mps does not support float64; choose float32, or training.device = 'cpu'")


def knows_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16, as far as torch can tell."""
    known = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    checks = [check for check in known if check is not None]
    return not checks or any(check() for check in checks)


def slow_precision(training: TrainingSpec) -> str | None:
    """Return a sentence if this processor has no instructions for the number format, which is then slower than float32; else None."""
    if training.precision != "bfloat16" or training.device not in {None, "cpu"} or knows_bfloat16():
        return None
    return "training.precision = 'bfloat16': this processor has no instructions for it, so that steps are slower than with float32"


def computing_for(training: TrainingSpec, local_rank: int) -> Computing:
    """Return device and number types for this process; each process on a machine gets its own GPU."""
    name = training.device or "cpu"
    if name in {"cuda", "xpu"}:
        name = f"{name}:{local_rank}"
        choose_device(name)
    dtype = torch.float64 if training.precision == "float64" else torch.float32
    return Computing(torch.device(name), dtype, _MIXED.get(training.precision))
