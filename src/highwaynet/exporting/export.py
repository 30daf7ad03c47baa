"""`highwaynet.export`: a trained run as one file for other programs."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from highwaynet.base.errors import InputError, unknown
from highwaynet.base.files import remove_leftovers_of, sha256, write_atomically
from highwaynet.exporting.names import Target
from highwaynet.exporting.origin import Export
from highwaynet.exporting.places import check_place, default_place, form_of
from highwaynet.runs.checkpoints import checksum
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.model import TrainedModel, load
from highwaynet.runs.names import Kept
from highwaynet.runs.stages import check_outputs


@dataclass(frozen=True)
class Exported:
    """An exported file."""

    path: Path
    """Where it is."""
    to: Target
    """What it is."""
    size: int
    """Its size in bytes."""
    about: dict[str, Any]
    """What the file says about itself: run, fingerprint, task, classes, inputs and outputs."""
    difference: float
    """The largest difference between its answers and those of the network for the samples that were tried."""

    def __fspath__(self) -> str:
        """Return its path, so that it can be used as a path."""
        return str(self.path)


def export(
    run: str | PathLike[str] | TrainedModel,
    path: str | PathLike[str] | None = None,
    to: Target | None = None,
    *,
    checkpoint: Kept | None = None,
) -> Exported:
    """Export a trained network with its preprocessing: raw pixels, features or columns in, probabilities and classes or a number out.

    The answers of the file are compared with those of the network before it gets its place; a file that differs is not written.

    Args:
        run: The run that `train` returned, its directory, or a model, for instance `load(run).without([3, 7])`.
        path: The file; by default next to the run and named after it. An existing file is replaced.
        to: "onnx", for ONNX Runtime and other programs that read ONNX files; "torch", a program of torch.export, which needs torch
            only; "safetensors", the weights and, as JSON, the plan and the preparation. By default what the path ends in (.onnx, .pt2,
            .safetensors), or else "onnx".
        checkpoint: Which weights, "final", "best" or "average"; by default those that are the run's answer.

    Raises:
        InputError: If there is no such run or checkpoint, the file cannot be written, or a part of the network has no form there.
        HighwayError: If a package is missing, or the answers differ.
    """
    if to is not None and to not in get_args(Target):
        raise unknown("export", str(to), get_args(Target))
    to = form_of(None if path is None else Path(path), to)
    source = _source(run, checkpoint, to)
    check_outputs(source.model.spec, source.model.run)
    place = check_place(Path(path) if path is not None else default_place(source.model.run, to))
    content, difference = _WRITTEN[to](source, str(place))
    remove_leftovers_of(place)
    write_atomically(place, content)
    return Exported(place, to, len(content), source.facts, difference)


def _source(run: str | PathLike[str] | TrainedModel, checkpoint: Kept | None, to: Target) -> Export:
    if isinstance(run, TrainedModel):
        if checkpoint is not None:
            raise InputError(f"checkpoint = {checkpoint!r}: the model already has its weights; give the run instead of the model")
        parts = (run.network.plan.model_dump_json(), run.data.model_dump_json(), checksum(run.network.state_dict()))
        return Export(run, sha256("\n".join(parts).encode()), "given", to)
    directory = RunDirectory.open(Path(run))
    model = load(directory, checkpoint)
    return Export(model, directory.fingerprint(checkpoint), checkpoint or directory.answer, to)


def _onnx(source: Export, name: str) -> tuple[bytes, float]:
    from highwaynet.exporting.checking import check_answers, onnx_answer
    from highwaynet.exporting.onnx_file import onnx_file

    content = onnx_file(source)
    return content, check_answers(source.model, onnx_answer(content), name)


def _torch(source: Export, name: str) -> tuple[bytes, float]:
    from highwaynet.exporting.torch_program import torch_program

    return torch_program(source, name)


def _safetensors(source: Export, name: str) -> tuple[bytes, float]:
    from highwaynet.exporting.safetensors_file import safetensors_file

    return safetensors_file(source, name)


_WRITTEN = {"onnx": _onnx, "torch": _torch, "safetensors": _safetensors}
