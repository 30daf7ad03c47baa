"""The training loop: read it from top to bottom."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.memory import keep_freed_memory
from highwaynet.networks.network import Network
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.replacing import earlier_runs
from highwaynet.runs.run_records import EpochRecord, Score, TimingRecord
from highwaynet.runs.spec import SPEC, RunSpec
from highwaynet.runs.stages import check_place, second_path, stages_of
from highwaynet.training.care import Care
from highwaynet.training.computing import slow_precision
from highwaynet.training.distribution import ALONE, World
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.evaluation import evaluate
from highwaynet.training.fitting import Fitting
from highwaynet.training.guessing import no_better_than_guessing, skewed_classes
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.objective import Objective
from highwaynet.training.optimiser import set_learning_rate
from highwaynet.training.saving import clear
from highwaynet.training.schedule import never_reached
from highwaynet.training.setup import Given, SetUp, check_relatives, check_startable, set_up
from highwaynet.training.tensorboard import TensorBoardLog
from highwaynet.training.watcher import Watcher, Watchers


def train(
    spec: RunSpec,
    path: str | PathLike[str],
    *,
    data: Any = None,
    network: Network | None = None,
    objective: Objective | None = None,
    overwrite: bool = False,
    resume: bool = False,
    watcher: Watcher | None = None,
    interruption: Interruption | None = None,
    world: World = ALONE,
) -> RunDirectory:
    """Train a network and write everything about it to a run directory.

    Nothing is written before spec, data, network and objective have been checked. With hints (`spec.teacher.hints`) there are two runs: the
    first stage is written to a folder next to `path`, whose name begins with hints-.

    Args:
        spec: What to run.
        path: The run directory to make.
        data: The data, if they are in memory and not where `spec.data` says: a pair (inputs, targets) of arrays or tensors, a mapping of
            arrays, or a data frame with its target, (frame, "price"). See `load_dataset`.
        network: A network of this package to start with, for instance one with layers removed; by default one with fresh weights, or the
            one that `spec.start` names.
        objective: What to minimise, if neither cross-entropy (classes) nor squared error (numbers). See `Objective`.
        overwrite: Replace an earlier run there.
        resume: Continue the run there; if there is none yet, start it.
        watcher: Its methods are called for every step and epoch.
        interruption: Checked after every step; a request stops the run.
        world: The processes that train together; each calls this with the same arguments.

    Raises:
        InputError: If the spec does not fit the data or the run to resume, or the directory cannot be made.
        DivergenceError: If the loss or a weight is no longer finite.
        InterruptedRunError: If `interruption` was requested, or Ctrl-C was pressed before the first step; the run can be resumed.
    """
    given, place = Given(data, network, objective), folder_of(path)
    return train_given(
        spec, place, given, overwrite=overwrite, resume=resume, watcher=watcher, interruption=interruption, world=world, later=()
    )


def folder_of(path: str | PathLike[str]) -> Path:
    """Return the path as a Path; raises InputError if no folder can have this name."""
    if not isinstance(path, str | PathLike) or not str(path) or "\0" in str(path):
        raise InputError(f"path = {path!r}: name a folder for the run")
    return Path(path)


def train_given(spec: RunSpec, path: Path, given: Given, *, overwrite: bool, resume: bool, **ways: Any) -> RunDirectory:
    """Do what `train` does. With `overwrite`, earlier runs in the folders `later` are set aside as soon as this one has been started."""
    threads_before = torch.get_num_threads()
    keep_freed_memory()
    try:
        if overwrite and resume:
            raise InputError("overwrite and resume: choose one of them")
        ways |= {"overwrite": overwrite, "resume": resume}
        if isinstance(spec, RunSpec) and spec.teacher is not None and spec.teacher.in_two_stages:
            return _train_stages(spec, path, given, **ways)
        return _train_run(spec, path, given, **ways)
    finally:
        torch.set_num_threads(threads_before)


def _train_stages(
    spec: RunSpec,
    path: Path,
    given: Given,
    *,
    overwrite: bool,
    resume: bool,
    watcher: Watcher | None,
    world: World,
    later: Sequence[Path],
    **ways: Any,
) -> RunDirectory:
    """Train the two runs that a spec with hints stands for; returns the second."""
    first, second = stages_of(spec, path)
    told = Watcher() if watcher is None else watcher
    ways |= {"overwrite": overwrite, "resume": resume, "watcher": told, "world": world}

    def check() -> bytes:
        """Raise InputError if one of the stages could not be written, before the first one is trained."""
        check_relatives(second.spec, second.path)
        check_startable(second.path, overwrite=overwrite, resume=resume)
        check_place(first.path)
        return b""

    # Processes that torchrun has restarted may have begun the second stage before.
    begun_before = world.recall(str(second.path)) is not None
    if not begun_before and not (resume and world.lead(lambda: b"yes" if (second.path / SPEC).is_file() else b"")):
        world.lead(check)
        told.stage(first.title, first.spec.training.epochs)
        _train_run(first.spec, first.path, given, later=[second.path, *later], **ways)
    told.stage(second.title, second.spec.training.epochs)
    return _train_run(second.spec, second.path, replace(given, network=None), later=later, **ways)


def _train_run(
    spec: RunSpec,
    path: Path,
    given: Given,
    *,
    overwrite: bool,
    resume: bool,
    watcher: Watcher | None,
    interruption: Interruption | None,
    world: World,
    later: Sequence[Path],
) -> RunDirectory:
    """Train one run."""
    job = set_up(spec, path, given, overwrite=overwrite, resume=resume, world=world)

    def make_way() -> bytes:
        """Earlier runs must not pass for those that will replace them if this run is interrupted."""
        for folder in later:
            RunDirectory(folder).make_way()
        return b""

    try:
        if overwrite and not job.resumes:
            world.lead(make_way)
        watchers = Watchers([])  # only the leading process reports
        if world.leads:
            logs = [TensorBoardLog(job.run)] if job.spec.training.tensorboard else []
            watchers = Watchers([*([] if watcher is None else [watcher]), *logs])
        with closing(watchers):
            _train(job, world, watchers, interruption or Interruption(), later)
    finally:
        job.run.unlock()
    return job.run


def _train(job: SetUp, world: World, watcher: Watcher, interruption: Interruption, later: Sequence[Path]) -> None:
    """Train, and log how the run ended."""
    run = job.run
    if job.finished:
        if world.leads:
            clear(run)  # the run may have been killed after its final weights were saved, but before this
        watcher.note(f"{run.path} is finished: there is nothing to continue")
        return
    log = run.log if world.leads else lambda event: None
    try:
        with _generators_given_back(job.spec.training.device or "cpu"):
            try:
                fitting = Fitting(job, world)
                fit(fitting, Care(fitting, watcher, interruption), watcher, interruption)
            except KeyboardInterrupt as error:
                if interruption.armed:
                    raise
                raise InterruptedRunError("interrupted before the first step", 130) from error
    except BaseException as error:
        word = {InterruptedRunError: "interrupted", DivergenceError: "diverged"}.get(type(error), "stopped")
        with suppress(HighwayError):  # if the log cannot be written, the first error is still the one to report
            text = (str(error) or type(error).__name__).partition("\n")[0][:1000]
            log(text if text.startswith(word) else f"{word}: {text}")
            second = second_path(run.path) if job.spec.is_first_stage else None
            places = dict.fromkeys([run.path, *([second] if second else []), *later]) if world.leads else ()
            for earlier in [earlier for place in places for earlier in earlier_runs(place)]:
                watcher.note(f"the earlier run, which this one has not replaced, is {earlier}")
        raise
    log("finished")


def _generators_given_back(device: str) -> AbstractContextManager[None]:
    """Context manager: on exit the state of torch's generators, which training seeds at every step, is restored."""
    kind = device.partition(":")[0]
    return torch.random.fork_rng(devices=[]) if kind == "cpu" else torch.random.fork_rng(device_type=kind)


def fit(fitting: Fitting, care: Care, watcher: Watcher, interruption: Interruption) -> None:
    """Train the remaining epochs and write the final checkpoint."""
    state, training = fitting.state, fitting.training
    if fitting.job.resumes:
        care.take_up()
    watcher.started(state.record, state.epoch, state.step)
    for note in (slow_precision(training), never_reached(training, fitting.steps, fitting.steps_per_epoch)):
        if note:
            watcher.note(note)
    if not fitting.job.resumes and fitting.objective.judges_outputs and (note := skewed_classes(fitting.data.train, training)):
        watcher.note(note)
    interruption.armed = True
    fitting.foresee(watcher.note, lambda: interruption.check("interrupted before the next step", fitting.world))
    while state.epoch < training.epochs:
        if state.best and training.patience is not None and state.epoch - state.best.epoch >= training.patience:
            kept = "; its weights are kept as the best" if fitting.data.validation else ""
            care.say(f"stopped early: no improvement since epoch {state.best.epoch}{kept}")
            break
        try:
            fit_epoch(fitting, care, watcher)
        except DivergenceError as error:
            care.rewind(error)
    fitting.saver.finish()
    if note := no_better_than_guessing(fitting):
        care.conclude(note)


def _judged(fitting: Fitting, score: Score) -> float:
    """Return the loss by which the best epoch is chosen: with class weights that of the validation samples, weighted as in training."""
    weighted = fitting.weighted_by_class(fitting.data.validation)
    if weighted is None:
        return score.loss
    return evaluate(fitting.state.measured_network, weighted, fitting.world, fitting.objective).loss


def fit_epoch(fitting: Fitting, care: Care, watcher: Watcher) -> None:
    """Train the current epoch from its next batch on, evaluate, and write its line to the history."""
    state, world, number = fitting.state, fitting.world, fitting.state.epoch + 1
    fitting.network.train()
    care.begin_epoch()
    for batch in fitting.batches(number, first=state.batch):  # this process's share of each batch
        samples = fitting.batch_size(state.batch)
        share = world.share(samples)
        set_learning_rate(state.optimiser, fitting.rate(state.step))
        fitting.seed_step(state.step, share)

        with fitting.layer_drop.at(state.step):
            outputs, loss, minimised = fitting.forward(batch)
            if world.size > 1:
                minimised = minimised * fitting.factor(share, batch.targets)  # the processes' gradients are averaged
            state.optimiser.zero_grad()
            state.scaler.scale(minimised).backward()

        care.look(loss)
        care.clip()
        state.scaler.step(state.optimiser)
        state.scaler.update()
        fitting.limits.apply()
        fitting.objective.after_step(fitting.network)
        if state.average is not None:
            state.average.update_parameters(fitting.network)

        if share.weight:
            state.tally.add(loss, outputs, batch.targets, batch.weights)
        state.step += 1
        state.batch += 1
        watcher.step(samples)
        if state.batch < fitting.steps_per_epoch:
            care.pause(epoch_ended=False)

    trained = state.tally.score(world)
    world.same_buffers(fitting.network)
    if state.average is not None:
        world.same_buffers(state.average)
    validation = fitting.data.validation
    validated = evaluate(state.measured_network, validation, world, fitting.objective) if validation else None
    care.check(trained, validated)

    line = EpochRecord.of(trained, validated, epoch=number, step=state.step, learning_rate=fitting.rate(state.step - 1))
    seconds = care.seconds
    timing = TimingRecord(epoch=number, seconds=seconds, samples_per_second=len(fitting.data.train) / seconds)
    if world.leads:
        fitting.run.add_epoch(line, timing)
    state.end_epoch(_judged(fitting, validated or trained), keep_best=validated is not None)
    watcher.epoch(line, timing)
    if number < fitting.training.epochs:
        care.pause(epoch_ended=True)
