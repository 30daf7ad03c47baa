"""Running sums from which mean loss and metrics follow: accuracy, or RMSE and R²."""

import math

import torch
from torch import Tensor

from highwaynet.data.record import DataRecord
from highwaynet.runs.run_records import Score
from highwaynet.training.distribution import ALONE, World


class Tally:
    """Sums loss and metrics batch by batch, in double precision and without synchronising with the device.

    On the CPU one network is summed in Python's numbers: for thin networks, adding to tensors takes a seventh of a training step.

    With `variants`, several networks are measured at once: losses are (variants,), outputs (variants, samples, outputs). Adding takes
    about as long as for one network.

    Args:
        record: Describes the data: the task, and the scale of the target.
        sums: Sums to continue from, as `sums()` returns them; those of older runs do not have the last one.
        squared_error: For regression, whether the loss is the mean squared error, from which RMSE and R² then follow.
        outputs: Whether there are outputs, from which metrics follow; otherwise only the loss is summed.
        variants: Number of networks; None means one, without an axis for it.
    """

    def __init__(
        self,
        record: DataRecord,
        sums: tuple[float, ...] = (0.0,) * 6,
        *,
        squared_error: bool = True,
        outputs: bool = True,
        variants: int | None = None,
    ) -> None:
        self._record, self._squared_error, self._outputs = record, squared_error, outputs
        self._samples = int(sums[0])
        self._weight = sums[5] if len(sums) > 5 else sums[0]  # Σ weights of the samples, their number if they have none
        # Σ loss; correct answers, or Σ squared errors if the loss is another one; Σ y and Σ y² of the targets
        self._plain = list(sums[1:5]) if variants is None else None
        self._sums = torch.zeros(4, dtype=torch.float64)
        if variants is not None:
            self._sums = torch.tensor(sums[1:5], dtype=torch.float64).repeat(variants, 1)

    def add(self, loss: Tensor, outputs: Tensor | None, targets: Tensor, weights: Tensor | None = None) -> None:
        """Add a batch whose mean loss is `loss`; `weights` are those of its samples."""
        self._samples += len(targets)
        self._weight += len(targets) if weights is None else float(weights.sum())
        if self._plain is not None and loss.is_cpu:
            self._add_plain(self._plain, loss, outputs, targets, weights)
            return
        self._sums = self._sums.to(loss.device)
        self._sums[..., 0] += loss.detach().double() * len(targets)
        if outputs is None:
            return
        mine = 1.0 if weights is None else weights.to(loss.device, torch.float64)
        if self._record.task == "classification":
            right = outputs.detach().argmax(-1) == targets
            self._sums[..., 1] += right.sum(-1) if weights is None else (right * mine).sum(-1)
            return
        exact, several = targets.double(), targets.dim() == 2
        if not self._squared_error:
            found = outputs.detach().double()
            errors = ((found if several else found.squeeze(-1)) - exact).square()
            self._sums[..., 1] += ((errors.mean(-1) if several else errors) * mine).sum(-1)
        squares = exact.square()
        if several:
            exact, squares = exact.mean(1), squares.mean(1)
        self._sums[..., 2] += (exact if weights is None else exact * mine).sum()
        self._sums[..., 3] += (squares if weights is None else squares * mine).sum()

    def _add_plain(self, sums: list[float], loss: Tensor, outputs: Tensor | None, targets: Tensor, weights: Tensor | None) -> None:
        """Add a batch of one network to the sums in Python's numbers."""
        sums[0] += loss.item() * len(targets)
        if outputs is None:
            return
        mine = None if weights is None else weights.double()
        if self._record.task == "classification":
            right = outputs.detach().argmax(-1) == targets
            sums[1] += (right if mine is None else right * mine).sum().item()
            return
        exact = targets.double()
        squares = exact.square()
        if not self._squared_error:
            errors = (outputs.detach().double().view_as(exact) - exact).square()
            errors = errors.mean(-1) if errors.dim() == 2 else errors
            sums[1] += (errors if mine is None else errors * mine).sum().item()
        if exact.dim() == 2:
            exact, squares = exact.mean(1), squares.mean(1)
        sums[2] += (exact if mine is None else exact * mine).sum().item()
        sums[3] += (squares if mine is None else squares * mine).sum().item()

    @property
    def finite(self) -> bool:
        """Whether every loss so far was finite."""
        return bool(self._sums[..., 0].isfinite().all()) and (self._plain is None or math.isfinite(self._plain[0]))

    def sums(self) -> Tensor:
        """Return the number of samples, the four sums and the sum of the weights, (6,) or (variants, 6)."""
        sums = self._sums.cpu()
        if self._plain is not None:
            sums = sums + torch.tensor(self._plain, dtype=torch.float64)
        ends = [sums.new_full((*sums.shape[:-1], 1), value) for value in (self._samples, self._weight)]
        return torch.cat([ends[0], sums, ends[1]], dim=-1)

    def score(self, world: World = ALONE) -> Score:
        """Compute mean loss and metrics so far, over all processes."""
        return self._score(world.total(self.sums()).tolist())

    def scores(self) -> list[Score]:
        """Compute mean loss and metrics of each variant."""
        return [self._score(sums) for sums in self.sums().tolist()]

    def _score(self, sums: list[float]) -> Score:
        samples, loss, correct, total, squares, weight = sums
        count = weight or 1
        loss = loss / count
        if not self._outputs:
            return Score(loss=loss, samples=int(samples))
        if self._record.task == "classification":
            return Score(loss=loss, accuracy=correct / count, samples=int(samples))
        error = loss if self._squared_error else correct / count
        variance = squares / count - (total / count) ** 2
        r2 = 1 - error / variance if variance > 1e-12 else 0.0
        if self._record.target_stds:  # several targets have several units
            return Score(loss=loss, r2=r2, samples=int(samples))
        rmse = math.sqrt(error) * self._record.target_std if error >= 0 else math.nan
        return Score(loss=loss, rmse=rmse, r2=r2, samples=int(samples))
