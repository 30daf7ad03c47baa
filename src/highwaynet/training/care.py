"""What keeps a run alive: detection of losses that are not finite, rewinding, saving, and stopping on request."""

import math
import time

from torch import Tensor, nn

from highwaynet.runs.run_records import Score
from highwaynet.training.divergence import DivergenceError, find_cause, has_finite_weights, put_gradients_in_place
from highwaynet.training.evaluation import EVALUATION_BATCH, evaluate
from highwaynet.training.fitting import Fitting
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.saving import Restored
from highwaynet.training.watcher import Watcher

CHECK_EVERY = 20
"""On asynchronous devices (GPUs), the loss is checked every `CHECK_EVERY` steps only, because reading it synchronises with the device."""


class Care:
    """Checks, clips, saves and rewinds one run. Every process of the run must call its methods at the same points of the loop.

    Args:
        fitting: The run.
        watcher: Receives notes about what happens.
        interruption: Checked after every step; a request stops the run.
    """

    def __init__(self, fitting: Fitting, watcher: Watcher, interruption: Interruption) -> None:
        self._fitting, self._watcher, self._interruption = fitting, watcher, interruption
        self._heeds = fitting.training.on_divergence != "ignore"
        self._late = self._asked = 0.0
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds spent on the current epoch."""
        return time.perf_counter() - self._began

    def take_up(self) -> None:
        """Resume: restore the newest intact checkpoint and report it."""
        fitting, state = self._fitting, self._fitting.state
        restored = fitting.saver.restore()
        self._tell_refused(restored)
        if restored.record is None:
            self.say("resumed: no checkpoint was saved yet; starting from the beginning")
            return
        self.say(f"resumed from epoch {state.epoch + (state.batch > 0)}, step {state.step}")
        progress, processes = restored.record.progress, fitting.world.size
        if progress and (before := len(progress.tally)) != processes:
            self.say(f"the checkpoint was saved by {before} processes, and now there are {processes}: results will agree up to rounding")

    def begin_epoch(self) -> None:
        """Start the clock of an epoch; time that it took before a resume counts."""
        self._began = time.perf_counter() - self._fitting.state.seconds

    def look(self, loss: Tensor) -> None:
        """Check, before the weights change, that the loss is finite; note for `pause` whether to save or stop after this step."""
        fitting = self._fitting
        looks = self._heeds and (fitting.computing.device.type == "cpu" or fitting.state.step % CHECK_EVERY == 0)
        bad = looks and not math.isfinite(loss.item())
        broken, self._late, self._asked = fitting.world.most(bad, fitting.saver.is_late(), self._interruption.requested)
        if broken:
            raise self._diverged("the loss", fitting.state.step + 1)

    def clip(self) -> None:
        """Clip gradients by value and by norm, as the settings of the run say."""
        fitting, training, state = self._fitting, self._fitting.training, self._fitting.state
        if training.clip_norm is None and training.clip_value is None:
            return
        state.scaler.unscale_(state.optimiser)
        parameters = [*fitting.network.parameters(), *fitting.objective.parameters()]
        if training.clip_value is not None:
            nn.utils.clip_grad_value_(parameters, training.clip_value)
        if training.clip_norm is not None:
            norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
            # Stop before the step: a norm that is not finite would spoil all weights, and hide which layer failed first.
            if self._heeds and not state.scaler.is_enabled() and not math.isfinite(norm.item()):
                put_gradients_in_place(fitting.network)
                raise self._diverged("a gradient", state.step + 1)
            nn.utils.clip_grads_with_norm_(parameters, training.clip_norm, norm)

    def pause(self, *, epoch_ended: bool) -> None:
        """Between two steps, save if a checkpoint is due, and stop if that was requested."""
        state = self._fitting.state
        due = self._fitting.saver.is_due(epoch_ended=epoch_ended)
        if self._asked or self._late or due:
            self._save(stopping=not (due or self._late))
        if self._asked:
            where = f"epoch {state.epoch + (not epoch_ended)}, step {state.step}"
            raise InterruptedRunError(f"interrupted in {where}, and saved", int(self._asked))

    def _save(self, *, stopping: bool) -> None:
        fitting, state = self._fitting, self._fitting.state
        bad = self._heeds and not (state.tally.finite and has_finite_weights(fitting.network, fitting.objective))
        if fitting.world.most(bad)[0]:
            raise self._diverged("a weight", state.step)
        fitting.saver.save(self.seconds if state.batch else 0.0, stopping=stopping)

    def check(self, trained: Score, validated: Score | None) -> None:
        """Check losses and weights at the end of an epoch; after the last epoch of a run, measure a loss to check the last step too."""
        if not self._heeds:
            return
        fitting, state = self._fitting, self._fitting.state
        scores = [score for score in (trained, validated) if score]
        if validated is None and state.epoch + 1 == fitting.training.epochs:
            sample = fitting.data.train.head(EVALUATION_BATCH)
            scores.append(evaluate(fitting.network, sample, fitting.world, fitting.objective))
        if not all(math.isfinite(score.loss) for score in scores):
            raise self._diverged("the loss", state.step)
        if not has_finite_weights(fitting.network, fitting.objective):
            raise self._diverged("a weight", state.step)

    def _diverged(self, what: str, step: int) -> DivergenceError:
        """Build the error that says when the run diverged, which layer was first, and what to try."""
        fitting, training, state = self._fitting, self._fitting.training, self._fitting.state
        first = (step - 1) % fitting.steps_per_epoch
        batch = next(fitting.batches(state.epoch + 1, first=first, whole=True))
        fitting.seed_step(step - 1, None)
        with fitting.computing.autocast(), fitting.layer_drop.at(step - 1):
            cause = find_cause(fitting.network, batch.inputs)
        saved = fitting.saver.newest() if fitting.world.leads else None
        where = f"the last good checkpoint is from step {saved.step}" if saved else "there is no checkpoint yet"
        tried = f", after {state.rewinds} rewind{'s' if state.rewinds > 1 else ''}" if state.rewinds else ""
        setting = "teacher.hint_rate" if fitting.spec.is_first_stage else "training.learning_rate"
        ways = [f"a {setting} below {training.learning_rate * 0.5**state.rewinds:g}"]
        ways += ["--clip-norm 1"] if training.clip_norm is None else []
        ways += ["--on-divergence rewind"] if training.on_divergence == "stop" else []
        ways += ["other start weights"]
        return DivergenceError(
            f"{what} is no longer finite in epoch {state.epoch + 1}, step {step}{tried}: {cause}; {where} "
            f"in {fitting.run.path}; try {', or '.join(ways)}"
        )

    def rewind(self, error: DivergenceError) -> None:
        """Return to the last checkpoint with half the learning rate; raise `error` if rewinding is off or used up."""
        fitting, training, state = self._fitting, self._fitting.training, self._fitting.state
        if training.on_divergence != "rewind" or state.rewinds >= training.max_rewinds:
            fitting.saver.save_best()
            raise error
        rewinds = state.rewinds + 1
        restored = fitting.saver.go_back()
        self._tell_refused(restored)
        if restored.record is None:
            state.restart(fitting.job.start_network().state_dict(), fitting.job.objective_start or {})
        state.rewinds = rewinds
        state.went_back_to = state.saved_step
        place = f"step {state.step}" if state.step else "the beginning"
        self.say(f"{str(error).partition(';')[0]}; back to {place}, with the learning rate halved ({rewinds} of {training.max_rewinds})")
        self._watcher.started(state.record, state.epoch, state.step)

    def _tell_refused(self, restored: Restored) -> None:
        for reason in restored.refused:
            self.say(f"skipped a checkpoint that cannot be used: {reason}")

    def say(self, sentence: str) -> None:
        """Pass a note to the watcher and write it to the log of the run."""
        self._watcher.note(sentence)
        self._log(sentence)

    def conclude(self, sentence: str) -> None:
        """Pass a sentence about the trained network to the watcher and write it to the log of the run."""
        self._watcher.verdict(sentence)
        self._log(sentence)

    def _log(self, sentence: str) -> None:
        if self._fitting.world.leads:
            self._fitting.run.log(sentence)
