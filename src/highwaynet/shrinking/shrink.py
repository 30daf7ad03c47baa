"""From a trained deep network to the smaller one that is left: rank, remove, heal, compare. Every step is stored and not repeated."""

import dataclasses
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from highwaynet.analysis.collect import Study
from highwaynet.analysis.greedy import removable_layers
from highwaynet.base.errors import InputError
from highwaynet.base.files import cannot, is_leftover, read_text, remove_leftovers, write_atomically
from highwaynet.base.specs import Spec, parsed
from highwaynet.base.text import with_count
from highwaynet.networks.build import count_parameters
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network
from highwaynet.runs.model import load
from highwaynet.runs.spec import SPEC, RunSpec, spec_from_values
from highwaynet.runs.stages import check_outputs
from highwaynet.shrinking.curves import Announce, compute_curves, selection_part
from highwaynet.shrinking.latency import latencies
from highwaynet.shrinking.replacement import Replaced, replace_spans
from highwaynet.shrinking.shrink_record import Candidate, RemovalCurve, RemovalCurves, ShrinkRecord, ShrinkSettings
from highwaynet.training.divergence import DivergenceError
from highwaynet.training.evaluation import evaluate
from highwaynet.training.interruption import InterruptedRunError, Interruption
from highwaynet.training.loop import train
from highwaynet.training.watcher import Watcher

SETTINGS, CURVES, CHOICE, RECORD, NETWORK = "shrink.json", "curves.json", "choice.txt", "record.json", "network"
BATCHES = (1, 256)
"""Batch sizes for which the time of a forward pass is measured."""
HEALING_RATE = 0.3
"""The learning rate of healing, as a multiple of that of the run: its weights are already good."""
HEALING_SMOOTHING = 0.1
"""Label smoothing while healing: a network that knows its training samples by heart has little else to learn from them."""
REPLACED_RATE = 0.1
"""The same after layers were replaced: the maps have larger weights than trained layers."""

Watch = Callable[[str, int], Watcher | None]
"""Called with the title and epochs of a run that starts; returns a watcher for it."""


class _Stored(Spec):
    """shrink.json: what a folder belongs to."""

    run: str
    fingerprint: str
    settings: ShrinkSettings


@dataclass(frozen=True)
class Shrinking:
    """A run that is to be shrunk, and the folder for the result.

    Args:
        study: The run.
        settings: What to aim for.
        out: The folder.
    """

    study: Study
    settings: ShrinkSettings
    out: Path

    @property
    def layers(self) -> list[int]:
        """Numbers of the layers that can be removed."""
        return removable_layers(self.study.network.plan)

    def check(self) -> None:
        """Raise InputError if the aim makes no sense for the run, or the folder belongs to something else."""
        settings, layers = self.settings, self.layers
        if not self.study.run.finished:
            raise InputError(f"{self.study.run.path}: the run is not finished; only trained networks can be shrunk")
        check_outputs(self.study.spec, self.study.run.path)
        if settings.criterion == "gates" and not self.study.has_gates:
            raise InputError("--criterion gates: the network has residual layers, which have no gates; choose another criterion")
        if self.study.spec.training.objective is not None and (settings.heal_epochs or settings.from_scratch):
            raise InputError(
                f"{self.study.run.path} was trained with a custom objective, which is not stored: use --heal-epochs 0, not --from-scratch"
            )
        if settings.from_scratch and _first(self.study.spec).training.epochs == 0:
            raise InputError("--from-scratch: the run of the large network, which has the budget, is not where it was; omit the option")
        _ = self.study.data  # raises InputError if the data are missing or have changed
        if settings.keep is not None and settings.keep > len(layers):
            raise InputError(f"--keep {settings.keep}: the network has {len(layers)} layers that can be removed; keep fewer")
        if settings.loss_of is not None and self.study.data.validation is None:
            raise InputError(
                f"--loss-of {settings.loss_of:g}: {self.study.run.path} was trained without validation data, which decide how many layers "
                "are needed; train it with --validation 0.1, or choose --keep or --speed-up"
            )
        known = self._stored()
        if known is not None and (known.fingerprint, known.settings) != (self.study.run.fingerprint(), settings) and not self._only_begun():
            raise InputError(f"{self.out} holds another result: name another folder with --out, or remove it")
        if known is None and self.out.exists() and (not self.out.is_dir() or any(not is_leftover(path) for path in self.out.iterdir())):
            raise InputError(f"{self.out} is not empty and not a result of shrinking: name another folder with --out")

    def _stored(self) -> _Stored | None:
        path = self.out / SETTINGS
        return parsed(_Stored, read_text(path), str(path)) if path.is_file() else None

    def _only_begun(self) -> bool:
        """Whether the folder has no runs yet, so that another aim can take it over."""
        return {path.name for path in self.out.iterdir() if not is_leftover(path)} <= {SETTINGS, CURVES, CHOICE}

    def start(self) -> None:
        """Make the folder; what another aim left there is removed."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot("create", self.out, error) from error
        remove_leftovers(self.out)
        if (known := self._stored()) is not None and known.settings != self.settings:
            for name in (CHOICE, CURVES):
                (self.out / name).unlink(missing_ok=True)
        stored = _Stored(run=str(self.study.run.path.resolve()), fingerprint=self.study.run.fingerprint(), settings=self.settings)
        write_atomically(self.out / SETTINGS, stored.model_dump_json(indent=2) + "\n")

    def abandon(self) -> None:
        """Remove the folder again if nothing was trained yet."""
        if self._only_begun():
            shutil.rmtree(self.out)

    def curves(self, show: Announce) -> RemovalCurves:
        """Compute the removal curves, or read them if they are there."""
        path = self.out / CURVES
        if path.is_file():
            return parsed(RemovalCurves, read_text(path), str(path))
        found = compute_curves(self.study, self.settings.samples, self.settings.criterion, show)
        write_atomically(path, found.model_dump_json(indent=2) + "\n")
        return found

    def healing_spec(self, removed: tuple[int, ...], seed: int) -> RunSpec:
        """Return the settings of the run that heals the network without these layers."""
        run, training = str(self.study.run.path.resolve()), self.study.spec.training
        epochs = self.settings.heal_epochs if removed else 0  # an intact network needs no healing
        rate = _first(self.study.spec).training.learning_rate * (REPLACED_RATE if self.settings.replace else HEALING_RATE)
        changes: dict[str, Any] = {
            "epochs": epochs,
            "learning_rate": rate,
            "layer_drop": 0.0,
            "patience": None,
            "answer": None,
            "objective": None,
        }
        changes["clip_norm"] = training.clip_norm or 1.0
        if epochs:
            changes |= {"weight_average": self._average(epochs), "answer": "average"}
        if self.study.data.preparation.record.task == "classification" and training.objective is None:
            changes["label_smoothing"] = training.label_smoothing or HEALING_SMOOTHING
        teacher: dict[str, Any] = {"teacher": {"run": run}} if self.settings.distil and epochs else {}
        if removed and self.settings.replace:
            return RunSpec.from_run(self.cut_path(removed), training=changes, seed=seed, **teacher)
        return RunSpec.from_run(run, without=removed, training=changes, seed=seed, **teacher)

    def _average(self, epochs: int) -> float:
        """Return the decay with which the average of the weights covers about the last tenth of the healing."""
        steps = epochs * math.ceil(len(self.study.data.train) / self.study.spec.training.batch_size)
        return 1 - 1 / max(2.0, steps / 10)

    def cut_path(self, removed: tuple[int, ...]) -> Path:
        """Return the folder of the network with these layers replaced, before healing."""
        return self.out / "cut" / f"keep-{len(self.layers) - len(removed)}"

    def cut(self, removed: tuple[int, ...]) -> Replaced:
        """Return the network without these layers, or with maps in their place, before healing; the latter is saved as a run."""
        if not removed or not self.settings.replace:
            return Replaced(self.study.network.without(removed), ())
        made = replace_spans(self.study.network, removed, self.study.data.train.spread(self.settings.samples))
        model = load(self.study.run.path)
        if not RunDirectory(self.cut_path(removed)).finished:
            dataclasses.replace(model, network=made.network).save(self.cut_path(removed), overwrite=self.cut_path(removed).exists())
        return made

    def scratch_spec(self, removed: tuple[int, ...], seed: int) -> RunSpec:
        """Return the settings of the run that trains the same small network from scratch, with the budget of the large one."""
        plan, spec = self.study.network.plan, self.study.spec
        training = _first(spec).training.model_dump()  # also settings that are None although the recipe has a value
        training |= {"layer_drop": 0.0} if plan.closable == len(removed) else {}
        if spec.network.preset.traits.has_variants:
            return RunSpec.from_run(self.study.run.path, without=removed, fresh=True, seed=seed, training=training)
        values = spec.model_dump(exclude_none=True, exclude={"start", "teacher"})
        values["network"] |= {"depth": plan.removable + 1 - len(removed)}  # and one plain layer
        return spec_from_values(values | {"seed": seed, "training": training})


def _first(spec: RunSpec) -> RunSpec:
    """Return the spec of the first run of which this one is a descendant, as far as they are there: its budget is that of the network."""
    while spec.start is not None and spec.start.run is not None and (Path(spec.start.run) / SPEC).is_file():
        spec = RunDirectory.open(Path(spec.start.run)).read_spec()
    return spec


def shrink(job: Shrinking, show: Announce, watch: Watch, interruption: Interruption | None = None) -> ShrinkRecord:
    """Shrink a network. If interrupted, the same call continues.

    Args:
        job: What to do.
        show: Called with what is computed next; returns a function for its progress.
        watch: Called with the title and epochs of each run; returns its watcher.
        interruption: Asked after every step of training whether to stop.

    Raises:
        InputError: If the settings do not fit the network.
        InterruptedRunError: If `interruption` was requested.
    """
    job.check()
    if (job.out / RECORD).is_file() and (job.out / NETWORK).is_dir():  # test samples are used once
        remove_leftovers(job.out)
        return parsed(ShrinkRecord, read_text(job.out / RECORD), str(job.out / RECORD))
    job.start()
    curve = next(curve for curve in job.curves(show).curves if curve.criterion == job.settings.criterion)
    work = _Work(job, curve, watch, interruption)
    removed = curve.removed[work.choose()]
    seed, seeds = job.study.spec.seed, job.settings.seeds
    healed = [work.tested(work.healed(len(removed), seed)), *work.others(lambda seed: work.healed(len(removed), seed), seed + 1, seeds - 1)]
    scratch = work.others(lambda seed: work.scratch(removed, seed), seed, seeds if job.settings.from_scratch else 0)
    small = load_network(RunDirectory.open(Path(healed[0].run)))
    networks = [job.study.network, small]
    record = ShrinkRecord(
        run=str(job.study.run.path),
        settings=job.settings,
        layers=len(job.layers),
        removed=removed,
        intact_selection=work.intact,
        intact_test=job.study.score("test"),
        tried=tuple(work.tried.values()),
        healed=tuple(healed),
        scratch=tuple(scratch),
        parameters=(count_parameters(networks[0]), count_parameters(networks[1])),
        milliseconds={size: (1000 * large, 1000 * little) for size in BATCHES for large, little in [latencies(networks, size)]},
        answer="",
    )
    record = record.model_copy(update={"answer": answer(record)})
    _keep_network(Path(healed[0].run), job.out / NETWORK)
    write_atomically(job.out / RECORD, record.model_dump_json(indent=2) + "\n")
    return record


class _Work:
    """The runs of one shrinking."""

    def __init__(self, job: Shrinking, curve: RemovalCurve, watch: Watch, interruption: Interruption | None) -> None:
        self._job, self._curve, self._watch, self._interruption = job, curve, watch, interruption
        self._selection = selection_part(job.study)
        self.intact = evaluate(job.study.network, self._selection)
        self.tried: dict[tuple[int, int], Candidate] = {}

    def choose(self) -> int:
        """Return how many layers are removed."""
        settings, layers = self._job.settings, len(self._job.layers)
        if settings.keep is not None:
            return layers - settings.keep
        if settings.speed_up is not None:
            path = self._job.out / CHOICE
            if not path.is_file():  # it is measured once: another time the result may differ
                write_atomically(path, f"{self._for_speed(settings.speed_up)}\n")
            return _count(path, layers)
        aim = self.intact.percent - (settings.loss_of or 0.0) - 1e-9
        least, most = 0, layers + 1  # without `least` layers it is good enough, without `most` not
        while most - least > 1:
            count = (least + most) // 2
            try:
                is_good = self.healed(count, self._job.study.spec.seed).selection.percent >= aim
            except DivergenceError:
                is_good = False
            least, most = (count, most) if is_good else (least, count)
        return least

    def _for_speed(self, factor: float) -> int:
        """Find by binary search the smallest number of removed layers with which a batch of 256 is this many times faster."""
        network, least, most = self._job.study.network, 0, len(self._curve.removed) - 1
        if factor == 1:
            return 0
        if (fastest := self._speed(network, most)) < factor:
            self._job.abandon()
            raise InputError(
                f"--speed-up {factor:g}: without any of its {most} removable layers the network is {fastest:.1f} times faster; choose less"
            )
        while most - least > 1:
            count = (least + most) // 2
            least, most = (least, count) if self._speed(network, count) >= factor else (count, most)
        return most

    def _speed(self, network: Any, count: int) -> float:
        removed = self._curve.removed[count]
        few = self._job.study.data.train.spread(64)  # enough for the form of the maps, on which the time depends
        shorter = replace_spans(network, removed, few).network if self._job.settings.replace else network.without(removed)
        large, small = latencies([network, shorter], BATCHES[-1])
        return large / small

    def healed(self, count: int, seed: int) -> Candidate:
        """Return the network without the first `count` layers, healed."""
        removed = self._curve.removed[count]
        kept = len(self._job.layers) - count
        if (kept, seed) not in self.tried:
            cut = self._job.cut(removed)
            spec = self._job.healing_spec(removed, seed)
            candidate = self._trained(spec, self._job.out / "healed" / f"keep-{kept}-seed-{seed}", kept)
            before = evaluate(cut.network, self._selection)
            self.tried[kept, seed] = candidate.model_copy(update={"unhealed": before, "spans": cut.spans})
        return self.tried[kept, seed]

    def scratch(self, removed: tuple[int, ...], seed: int) -> Candidate:
        """Return the network without these layers, trained from scratch."""
        kept = len(self._job.layers) - len(removed)
        spec = self._job.scratch_spec(removed, seed)
        return self._trained(spec, self._job.out / "scratch" / f"keep-{kept}-seed-{seed}", kept)

    def _trained(self, spec: RunSpec, path: Path, kept: int) -> Candidate:
        if self._interruption is not None and self._interruption.requested:
            raise InterruptedRunError("interrupted; what was done is saved", self._interruption.requested)
        watcher = self._watch(f"{path.parent.name}, {with_count(kept, 'layer')} kept, seed {spec.seed}", spec.training.epochs)
        run = train(spec, path, data=self._job.study.given, resume=True, watcher=watcher, interruption=self._interruption)
        score = evaluate(load_network(run), self._selection)
        return Candidate(kept=kept, seed=spec.seed, run=str(path), selection=score)

    def others(self, made: Callable[[int], Candidate], first: int, count: int) -> list[Candidate]:
        """Return the tested networks of further seeds; those that diverge are left out."""
        found = []
        for seed in range(first, first + count):
            try:
                found.append(self.tested(made(seed)))
            except DivergenceError:
                continue
        return found

    def tested(self, candidate: Candidate) -> Candidate:
        """Return the candidate with its score on the test samples."""
        network = load_network(RunDirectory.open(Path(candidate.run)))
        return candidate.model_copy(update={"test": evaluate(network, self._job.study.data.part("test"))})


def _count(path: Path, layers: int) -> int:
    """Read how many layers are removed; raises InputError if the file is damaged."""
    text = read_text(path).strip()
    if not text.isdecimal() or int(text) > layers:
        raise InputError(f"{path} is damaged: remove it, and give the same command again")
    return int(text)


def answer(record: ShrinkRecord) -> str:
    """Return the result in one sentence."""
    kept = record.layers - len(record.removed)
    if not record.removed:
        lost, metric = record.settings.loss_of, _word(record)
        why = "as asked" if lost is None else f"because fewer lose more than {lost:g} points of validation {metric}"
        return f"All {record.layers} layers are kept, {why}: test {metric} stays at {record.intact_test.percent:.2f} %."
    small, large = mean_test(record.healed), record.intact_test.percent
    slow, fast = record.milliseconds[BATCHES[-1]]
    speed = f"{slow / fast:.1f} times faster" if slow >= fast else f"{fast / slow:.1f} times slower"
    start = (
        f"{kept} of {record.layers} layers are enough" if record.settings.loss_of is not None else f"With {kept} of {record.layers} layers"
    )
    mean = f" (mean of {len(record.healed)} seeds; the stored network has seed {record.healed[0].seed})" if len(record.healed) > 1 else ""
    text = f"{start}: test {_word(record)} {small:.2f} % instead of {large:.2f} %{mean}, {speed}"
    if record.settings.speed_up is not None and slow / fast < record.settings.speed_up:
        text += f" in the last measurement (asked for {record.settings.speed_up:g}; times vary with what else the machine does)"
    if not record.scratch:
        return f"{text}."
    fresh = mean_test(record.scratch)
    what = "a network with as many layers" if any(not span.merged for span in record.healed[0].spans) else "the same network"
    if fresh - small > noise(record):
        return f"{text}. Trained from scratch, {what} is better: {fresh:.2f} %."
    if fresh > small:
        return f"{text}. Trained from scratch, {what} is about as good: {fresh:.2f} %, which so few test samples cannot tell apart."
    return f"{text}. Trained from scratch, {what} reaches {fresh:.2f} %."


def _word(record: ShrinkRecord) -> str:
    return "accuracy" if record.intact_test.accuracy is not None else "R²"


def noise(record: ShrinkRecord) -> float:
    """Return the standard error of an accuracy on the test samples, in points; 0 for regressions."""
    share = record.intact_test.accuracy
    return 0.0 if share is None else 100 * math.sqrt(share * (1 - share) / record.intact_test.samples)


def mean_test(candidates: tuple[Candidate, ...]) -> float:
    """Return the mean metric on the test samples, in percent."""
    return fmean(candidate.test.percent for candidate in candidates if candidate.test is not None)


def _keep_network(run: Path, target: Path) -> None:
    """Copy the chosen run; the copy is complete or not there."""
    if target.exists():
        return
    unfinished = target.with_name(f".{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(run, unfinished)
    unfinished.rename(target)
