"""TensorBoard events of a run, on request."""

from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.data.record import DataRecord
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.run_records import EpochRecord, TimingRecord
from highwaynet.training.watcher import Watcher


class TensorBoardLog(Watcher):
    """Writes TensorBoard events: losses and metrics, learning rate and speed, by step."""

    def __init__(self, run: RunDirectory) -> None:
        self._folder = run.tensorboard_folder
        self._writer: Any = None

    def started(self, data: DataRecord, epochs: int, steps: int) -> None:
        """Open the log; when a run is resumed, events after its checkpoint are discarded."""
        again = self._writer is not None or steps > 0
        self.close()
        self._writer = summary_writer()(str(self._folder), purge_step=steps + 1 if again else None)

    def epoch(self, record: EpochRecord, timing: TimingRecord) -> None:
        """Write the losses, metrics, learning rate and speed of an epoch."""
        values = record.model_dump(exclude_none=True, exclude={"epoch", "step"})
        for name, value in (values | {"samples_per_second": timing.samples_per_second, "epoch": record.epoch}).items():
            part, _, metric = name.partition("_")
            self._writer.add_scalar(f"{metric}/{part}" if part in {"train", "validation"} else name, value, record.step)
        self._writer.flush()

    def close(self) -> None:
        """Write pending events and close the log."""
        if self._writer is not None:
            self._writer.close()


def summary_writer() -> Any:
    """Return TensorBoard's writer class; raises InputError if the package is missing."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError("training.tensorboard = true needs the package tensorboard: pip install 'highwaynet[tensorboard]'") from error
    return SummaryWriter
