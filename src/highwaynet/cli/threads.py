"""Fewer threads if other programs use the cores, and a sentence that says so."""

from collections.abc import Callable

from highwaynet.base.busy import free_threads
from highwaynet.cli.output import say
from highwaynet.runs.spec import RunSpec, with_training


def with_free_threads(spec: RunSpec, tell: Callable[[str], None]) -> RunSpec:
    """Return the spec of a new run with fewer threads if cores are busy, and tell a sentence about it; unchanged if it names threads."""
    import torch

    from highwaynet.training.computing import choose_device

    usual = torch.get_num_threads()
    if spec.training.threads is not None or choose_device(spec.training.device) != "cpu" or (free := free_threads(usual)) == usual:
        return spec
    tell(_sentence(usual, free, "training", f"--threads {usual}"))
    return with_training(spec, threads=free)


def use_free_threads() -> None:
    """Let torch use fewer threads in this process if cores are busy, and say so."""
    import torch

    usual = torch.get_num_threads()
    if (free := free_threads(usual)) < usual:
        torch.set_num_threads(free)
        say(f"highway: {_sentence(usual, free, 'computing', f'OMP_NUM_THREADS={usual}')}")


def _sentence(usual: int, free: int, doing: str, way: str) -> str:
    threads = "1 thread" if free == 1 else f"{free} threads"
    return f"other programs use the cores: {doing} with {threads} instead of {usual}; {way} overrides this"
