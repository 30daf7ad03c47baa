"""The training loop: read it from top to bottom."""

import math
import time
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from highwaynet.base.errors import HighwayError
from highwaynet.base.memory import keep_freed_memory
from highwaynet.base.randomness import generator_for, seed_for
from highwaynet.data.augmentation import Augmentation
from highwaynet.data.dataset import Augment, Dataset
from highwaynet.layers.dropout import Dropout
from highwaynet.layers.recomputation import recompute
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import fresh_network
from highwaynet.runs.records import EpochRecord, Score, TimingRecord
from highwaynet.runs.spec import RunSpec
from highwaynet.training.computing import computing_for
from highwaynet.training.distribution import ALONE, World
from highwaynet.training.divergence import DivergenceError, find_cause, has_finite_weights, put_gradients_in_place
from highwaynet.training.evaluation import EVALUATION_BATCH, evaluate
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.objective import training_loss
from highwaynet.training.optimiser import make_optimiser, set_learning_rate
from highwaynet.training.saving import Restored, Saver, clear
from highwaynet.training.schedule import learning_rate
from highwaynet.training.setup import SetUp, set_up
from highwaynet.training.state import TrainingState
from highwaynet.training.watching import Watcher, watchers_of

CHECK_EVERY = 20
"""On devices that compute ahead, the loss is looked at every so many steps: looking means waiting."""


def train(
    spec: RunSpec,
    path: Path | str,
    *,
    overwrite: bool = False,
    resume: bool = False,
    watcher: Watcher | None = None,
    interruption: Interruption | None = None,
    world: World = ALONE,
) -> RunDirectory:
    """Train a network and leave everything about it in a run directory.

    Nothing is written before the spec has been found to fit the data.

    Args:
        spec: What to run.
        path: The run directory to make.
        overwrite: Replace an earlier run there.
        resume: Go on with the run there; where there is none yet, begin it.
        watcher: Told about every step and epoch.
        interruption: Asked after every step whether to stop.
        world: The processes that train together; each calls this with the same arguments.

    Raises:
        InputError: If the spec does not fit the data or the run to resume, or the directory cannot be made.
        DivergenceError: If the loss or a weight is no longer finite.
        InterruptedRunError: If `interruption` was requested; the run can be resumed.
    """
    threads_before = torch.get_num_threads()
    keep_freed_memory()
    try:
        job = set_up(spec, Path(path), overwrite=overwrite, resume=resume, world=world)
        try:
            watchers = watchers_of(job.run, job.spec.training, watcher, world)
            with closing(watchers):
                _train(job, world, watchers, interruption or Interruption())
        finally:
            job.run.unlock()
        return job.run
    finally:
        torch.set_num_threads(threads_before)


def _train(job: SetUp, world: World, watcher: Watcher, interruption: Interruption) -> None:
    """Fit, and write down how it began and ended."""
    run = job.run
    if job.finished:
        if world.leads:
            clear(run)  # it may have been killed between its final weights and this
        watcher.note(f"{run.path} is finished: there is nothing to go on with")
        return
    log = run.log if world.leads else lambda event: None
    try:
        with _generators_given_back(job.spec.training.device or "cpu"):
            Fitting(job.spec, job.data, run, world, watcher, interruption).fit(resume=job.resumes)
    except BaseException as error:
        word = {InterruptedRunError: "interrupted", DivergenceError: "diverged"}.get(type(error), "stopped")
        with suppress(HighwayError):  # what stopped the run matters more than a log that cannot be written
            text = (str(error) or type(error).__name__).partition("\n")[0][:1000]
            log(text if text.startswith(word) else f"{word}: {text}")
        raise
    log("finished")


def _generators_given_back(device: str) -> AbstractContextManager[None]:
    """What is seeded anew at every step is the user's again at the end."""
    kind = device.partition(":")[0]
    return torch.random.fork_rng(devices=[]) if kind == "cpu" else torch.random.fork_rng(device_type=kind)


class Fitting:
    """One run in this process: what it consists of, and its epochs.

    Args:
        spec: What to run.
        data: What it is trained on.
        run: Where everything goes.
        world: The processes that train together.
        watcher: Told about every step and epoch.
        interruption: Asked after every step whether to stop.
    """

    def __init__(self, spec: RunSpec, data: Dataset, run: RunDirectory, world: World, watcher: Watcher, interruption: Interruption) -> None:
        self._spec, self._data, self._run, self._world = spec, data, run, world
        self._watcher, self._interruption = watcher, interruption
        training = self._training = spec.training
        self._computing = computing_for(training, world.local_rank)
        self._network = fresh_network(spec, data.preparation.record).to(self._computing.device, self._computing.dtype)
        if training.recompute:
            recompute(self._network)
        self._forward = self._wrapped()
        self._dropouts = [module for module in self._network.modules() if isinstance(module, Dropout) and module.p > 0]
        self._augmentation = Augmentation(training.crop, training.mirror, training.rotate)
        self._state = TrainingState(
            self._network, make_optimiser(self._network, training), self._computing.scaler(), data.preparation.record
        )
        self._saver = Saver(run, self._state, training.interval, training.keep, world)
        self._steps_per_epoch = math.ceil(len(data.train) / training.batch_size)
        self._steps = training.epochs * self._steps_per_epoch
        self._began = time.perf_counter()
        self._late = self._asked = 0.0

    def _wrapped(self) -> nn.Module:
        """The network as it is called in training: compiled, and with gradients that processes average."""
        network: nn.Module = self._network
        if self._training.compile:
            network = torch.compile(network)  # type: ignore[assignment]
        if self._world.size == 1:
            return network
        device = self._computing.device
        return DistributedDataParallel(network, device_ids=None if device.index is None else [device.index])

    def fit(self, *, resume: bool) -> None:
        """All epochs that are left, and the final checkpoint."""
        state = self._state
        if resume:
            self._tell_restored(self._saver.restore())
        self._watcher.started(self._data.preparation.record, state.epoch, state.step)
        self._interruption.armed = True
        while state.epoch < self._training.epochs:
            if self._is_over():
                kept = "; its weights are kept as the best" if self._data.validation else ""
                self._say(f"stopped early: no better epoch since epoch {state.best.epoch if state.best else 0}{kept}")
                break
            try:
                self._epoch()
            except DivergenceError as error:
                self._rewind(error)
        self._saver.finish()

    def _epoch(self) -> None:
        """The epoch in progress, from its next batch on."""
        state, data, training = self._state, self._data, self._training
        number = state.epoch + 1
        self._network.train()
        self._began = time.perf_counter() - state.seconds
        for inputs, targets in data.train.batches(
            training.batch_size, self._order(number), self._augment(number), first=state.batch, share_of=self._world.share
        ):
            self._step(inputs, targets)
            self._watcher.step(self._batch_size(state.batch - 1))
            if state.batch < self._steps_per_epoch:
                self._pause(epoch_ended=False)
        self._end_epoch(number)
        if number < training.epochs:
            self._pause(epoch_ended=True)

    def _step(self, inputs: Tensor, targets: Tensor) -> None:
        """One step on this process's share of a batch."""
        state, training = self._state, self._training
        share = self._world.share(self._batch_size(state.batch))
        set_learning_rate(state.optimiser, self._rate(state.step))
        if self._dropouts:  # which draw from the global generator
            torch.manual_seed(seed_for(self._spec.seed, "dropout", state.step))
            for dropout in self._dropouts:
                dropout.share = share
        companion_weight = training.companion_weight * (1 - state.step / self._steps) if self._network.companions else None
        inputs, targets = self._computing.place(inputs, targets)
        with self._computing.autocast():
            outputs, loss, objective = training_loss(
                self._forward, state.record, inputs, targets, companion_weight, takes_targets=self._network.takes_targets
            )
        if self._world.size > 1:
            objective = objective * share.weight  # the processes' gradients are averaged
        state.optimiser.zero_grad()
        state.scaler.scale(objective).backward()
        self._agree(loss)
        self._clip()
        state.scaler.step(state.optimiser)
        state.scaler.update()
        if share.weight:
            state.tally.add(loss, outputs, targets)
        state.step += 1
        state.batch += 1

    def _agree(self, loss: Tensor) -> None:
        """Before weights change: is the loss finite; and for after the step: is it time to save, does somebody wait for the run to stop?"""
        looks = self._training.on_divergence != "ignore" and (self._computing.device.type == "cpu" or self._state.step % CHECK_EVERY == 0)
        bad = looks and not math.isfinite(loss.item())
        broken, self._late, self._asked = self._world.most(bad, self._saver.is_late(), self._interruption.requested)
        if broken:
            raise self._diverged("the loss", self._state.step + 1)

    def _batch_size(self, batch: int) -> int:
        """The samples of an epoch's batch, from 0, over all processes; the last may have fewer."""
        return min(self._training.batch_size, len(self._data.train) - batch * self._training.batch_size)

    def _rate(self, step: int) -> float:
        """The schedule's learning rate, halved for each time that the run went back."""
        training = self._training
        return learning_rate(training, step, self._steps, self._steps_per_epoch) * 0.5**self._state.rewinds

    def _clip(self) -> None:
        state, training = self._state, self._training
        if training.clip_norm is None and training.clip_value is None:
            return
        state.scaler.unscale_(state.optimiser)
        if training.clip_value is not None:
            nn.utils.clip_grad_value_(self._network.parameters(), training.clip_value)
        if training.clip_norm is not None:
            norm = nn.utils.clip_grad_norm_(self._network.parameters(), training.clip_norm)
            # A length that is no number would spoil all gradients, and nobody could see any more which one began.
            if training.on_divergence != "ignore" and not state.scaler.is_enabled() and not math.isfinite(norm.item()):
                put_gradients_in_place(self._network)
                raise self._diverged("a gradient", self._state.step + 1)

    def _pause(self, *, epoch_ended: bool) -> None:
        """Between two steps: save if it is time, and stop if somebody asked for it."""
        due = self._saver.is_due(epoch_ended=epoch_ended)
        if self._asked or self._late or due:
            self._save(stopping=not (due or self._late))
        if self._asked:
            where = f"epoch {self._state.epoch + (not epoch_ended)}, step {self._state.step}"
            raise InterruptedRunError(f"interrupted in {where}, and saved", int(self._asked))

    def _save(self, *, stopping: bool) -> None:
        bad = self._training.on_divergence != "ignore" and not (self._state.tally.finite and has_finite_weights(self._network))
        if self._world.most(bad)[0]:
            raise self._diverged("a weight", self._state.step)
        self._saver.save(time.perf_counter() - self._began if self._state.batch else 0.0, stopping=stopping)

    def _end_epoch(self, number: int) -> None:
        """Measure, write the history, and remember the best."""
        state, data = self._state, self._data
        trained = state.tally.score(self._world)
        self._world.same_buffers(self._network)
        validated = evaluate(self._network, data.validation, self._world) if data.validation else None
        if self._training.on_divergence != "ignore":
            self._check(trained, validated)
        line = EpochRecord.of(trained, validated, epoch=number, step=state.step, learning_rate=self._rate(state.step - 1))
        seconds = time.perf_counter() - self._began
        timing = TimingRecord(epoch=number, seconds=seconds, samples_per_second=len(data.train) / seconds)
        if self._world.leads:
            self._run.add_epoch(line, timing)
        state.end_epoch((validated or trained).loss, keep_best=validated is not None)
        self._watcher.epoch(line, timing)

    def _check(self, trained: Score, validated: Score | None) -> None:
        """What the run's last step did shows only in a loss that is measured after it."""
        scores = [score for score in (trained, validated) if score]
        if validated is None and self._state.epoch + 1 == self._training.epochs:
            scores.append(evaluate(self._network, self._data.train.head(EVALUATION_BATCH), self._world))
        if not all(math.isfinite(score.loss) for score in scores):
            raise self._diverged("the loss", self._state.step)
        if not has_finite_weights(self._network):
            raise self._diverged("a weight", self._state.step)

    def _is_over(self) -> bool:
        """Whether patience is over."""
        state, patience = self._state, self._training.patience
        return patience is not None and state.best is not None and state.epoch - state.best.epoch >= patience

    def _diverged(self, what: str, step: int) -> DivergenceError:
        """The error that says where it happened, where it began, and what to do."""
        state, training = self._state, self._training
        order, augment = self._order(state.epoch + 1), self._augment(state.epoch + 1)
        first = (step - 1) % self._steps_per_epoch
        inputs, targets = next(self._data.train.batches(training.batch_size, order, augment, first=first))
        torch.manual_seed(seed_for(self._spec.seed, "dropout", step - 1))
        for dropout in self._dropouts:
            dropout.share = None
        with self._computing.autocast():
            cause = find_cause(self._network, self._computing.place(inputs, targets)[0])
        saved = self._saver.newest() if self._world.leads else None
        where = f"the last good checkpoint is of step {saved.step}" if saved else "there is no checkpoint yet"
        tried = f", after {state.rewinds} rewind{'s' if state.rewinds > 1 else ''}" if state.rewinds else ""
        ways = [f"a training.learning_rate below {training.learning_rate * 0.5**state.rewinds:g}"]
        ways += ["--clip-norm 1"] if training.clip_norm is None else []
        ways += ["--on-divergence rewind"] if training.on_divergence == "stop" else []
        ways += ["other start weights"]
        return DivergenceError(
            f"{what} is no longer finite in epoch {state.epoch + 1}, step {step}{tried}: {cause}; {where} "
            f"in {self._run.path}; try {', or '.join(ways)}"
        )

    def _rewind(self, error: DivergenceError) -> None:
        """Go back to the last checkpoint with half the learning rate, or give up."""
        state, training = self._state, self._training
        if training.on_divergence != "rewind" or state.rewinds >= training.max_rewinds:
            self._saver.save_best()
            raise error
        rewinds = state.rewinds + 1
        restored = self._saver.go_back()
        self._tell_refused(restored)
        if restored.record is None:
            state.restart(fresh_network(self._spec, state.record).state_dict())
        state.rewinds = rewinds
        state.went_back_to = state.saved_step
        place = f"step {state.step}" if state.step else "the beginning"
        self._say(f"{str(error).partition(';')[0]}; back to {place}, with the learning rate halved ({rewinds} of {training.max_rewinds})")
        self._watcher.started(state.record, state.epoch, state.step)

    def _tell_refused(self, restored: Restored) -> None:
        for reason in restored.refused:
            self._say(f"not usable, going a checkpoint back: {reason}")

    def _tell_restored(self, restored: Restored) -> None:
        self._tell_refused(restored)
        if restored.record is None:
            self._say("resumed: no checkpoint was saved yet; beginning from the start")
        else:
            self._say(f"resumed from epoch {self._state.epoch + (self._state.batch > 0)}, step {self._state.step}")
            progress = restored.record.progress
            if progress and (before := len(progress.tally)) != self._world.size:
                self._say(
                    f"it was saved by {before} processes, and now there are {self._world.size}: its numbers will be the same to rounding"
                )

    def _say(self, sentence: str) -> None:
        self._watcher.note(sentence)
        if self._world.leads:
            self._run.log(sentence)

    def _order(self, epoch: int) -> Tensor:
        return torch.randperm(len(self._data.train), generator=generator_for(self._spec.seed, "permutation", epoch))

    def _augment(self, epoch: int) -> Augment | None:
        """The same pixels for the same (run seed, epoch, step), whenever the epoch is run."""
        if not self._augmentation:
            return None
        augmentation, seed = self._augmentation, self._spec.seed
        return lambda number, images, share: augmentation.apply(images, generator_for(seed, "augmentation", epoch, number), share)
