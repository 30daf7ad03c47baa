"""The analyses of a run: a record is read from the run directory if it is up to date, else computed and stored there."""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import Any

from highwaynet.analysis.analysis_records import (
    About,
    DeletionsRecord,
    DepthRecord,
    EvaluationRecord,
    FlowRecord,
    GatesRecord,
    LesionsRecord,
    Origin,
    PairsRecord,
    Record,
    RefinementRecord,
    RoutingRecord,
)
from highwaynet.analysis.greedy import removable_layers
from highwaynet.analysis.mistakes_record import MistakesRecord
from highwaynet.analysis.questions import (
    DELETIONS,
    DEPTH,
    EVALUATION,
    FLOW,
    GATES,
    LESIONS,
    MISTAKES,
    PAIRS,
    QUESTIONS,
    REASONS,
    REFINEMENT,
    ROUTING,
    Need,
    Question,
    RecordT,
)
from highwaynet.analysis.routing import highway_modules
from highwaynet.analysis.watching import Progress
from highwaynet.base.errors import InputError, unknown
from highwaynet.data.dataset import Dataset, Split
from highwaynet.data.load import load_dataset
from highwaynet.data.names import Part
from highwaynet.layers.lesion import count_layers
from highwaynet.networks.build import count_parameters
from highwaynet.networks.description import title_of
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network, load_start
from highwaynet.runs.names import Kept
from highwaynet.runs.run_records import Score
from highwaynet.runs.stages import check_outputs
from highwaynet.training.evaluation import evaluate


class Study:
    """Analyses of the network of one run; `inspect` returns it. Each result is stored in the run directory.

    Args:
        run: The run.
        checkpoint: Which weights, "final", "best" or "average"; by default those that are the run's answer.
        data: The data, if the run was trained on data in memory.

    Raises:
        InputError: If the directory is damaged, or the checkpoint is missing.
    """

    def __init__(self, run: RunDirectory, checkpoint: Kept | None = None, data: Any = None) -> None:
        self.run, self.given = run, data
        checkpoint = self.checkpoint = checkpoint or run.answer
        self.spec = run.read_spec()
        self._preparation = run.load_preparation()
        self.network = load_network(run, checkpoint, data=self._preparation.record)
        self._fingerprint = run.fingerprint(checkpoint)
        self._about = About(
            data=self.spec.data.title,
            network=title_of(self.spec.network, self.network.plan),
            seed=self.spec.seed,
            epochs=run.checkpoints.record(run.resolve(checkpoint)).epoch,
        )

    def __repr__(self) -> str:
        return f"Study({self.title} of {self.run.path}, {self.checkpoint} weights)"

    @cached_property
    def data(self) -> Dataset:
        """The data of the run, loaded on first use."""
        return load_dataset(self.spec.data, self._preparation, data=self.given)

    @property
    def title(self) -> str:
        """Title of the network in figures, for instance 50-layer highway."""
        return self._about.network

    @property
    def has_gates(self) -> bool:
        """Whether the network has transform gates."""
        with suppress(ValueError):
            return bool(highway_modules(self.network))
        return False

    @property
    def has_removable(self) -> bool:
        """Whether the network has layers that can be ranked and removed."""
        with suppress(InputError):
            return bool(removable_layers(self.network.plan))
        return False

    @property
    def closable(self) -> int:
        """Number of layers that can be closed."""
        return count_layers(self.network)

    def reason_against(self, question: str) -> str | None:
        """Return why the question with this name does not apply to the network; None if it does."""
        has: dict[Need, object] = {"gates": self.has_gates, "classes": self.classes, "closable layers": self.closable}
        has |= {"removable layers": self.has_removable, "outputs": not self.spec.is_first_stage}
        return next((REASONS[need] for need in QUESTIONS[question].needs if not has.get(need, True)), None)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty in a regression."""
        return self._preparation.record.class_names

    def score(self, part: Part) -> Score:
        """Compute loss and metrics on one part of the data.

        Args:
            part: Which part: train, validation or test.

        Raises:
            InputError: If the outputs are not trained: the run is the first stage of a training with hints.
        """
        check_outputs(self.spec, self.run.path)
        return evaluate(self.network, self.data.part(part))

    def evaluation(self) -> EvaluationRecord:
        """Compute loss and metrics on all parts of the data."""
        check_outputs(self.spec, self.run.path)
        known = self.run.load_record(EVALUATION, EvaluationRecord)
        if known is not None and known.fingerprint == self._fingerprint:
            return known
        parts = {part: self.score(part) for part in ("train", "validation", "test") if self.count(part)}
        made = EvaluationRecord(
            fingerprint=self._fingerprint,
            parameters=count_parameters(self.network),
            train=parts["train"],
            validation=parts.get("validation"),
            test=parts.get("test"),
        )
        self._keep(EVALUATION, made)
        return made

    def mistakes(self, part: Part = "test", progress: Progress | None = None) -> MistakesRecord:
        """What the network gets wrong, and how good it is in comparison with guessing.

        Args:
            part: Which part of the data: train, validation or test.
            progress: Called with (done, total) while the analysis runs.
        """
        return self.ask(MISTAKES, part, progress=progress)

    def gates(self, sample: int = 0, progress: Progress | None = None) -> GatesRecord:
        """Which transform gates open over the training data, and for one sample.

        Args:
            sample: The training sample whose gates are recorded one by one, numbered from 0.
            progress: Called with (done, total) while the analysis runs.
        """
        if not isinstance(sample, int) or not 0 <= sample < self.count("train"):
            raise InputError(f"sample = {sample!r}: there are {self.count('train'):,} training samples, numbered from 0")
        return self.ask(GATES, progress=progress, sample=sample)

    def routing(self, progress: Progress | None = None) -> RoutingRecord:
        """How samples of different classes open different gates, over the training data.

        Args:
            progress: Called with (done, total) while the analysis runs.
        """
        return self.ask(ROUTING, progress=progress)

    def flow(self) -> FlowRecord:
        """Activations and gradients by layer, before and after training."""
        return self.ask(FLOW)

    def refinement(self, progress: Progress | None = None) -> RefinementRecord:
        """How far each layer's output is from the last output of its stage.

        Args:
            progress: Called with (done, total) while the analysis runs.

        Raises:
            InputError: If no two consecutive layers have outputs of the same shape.
        """
        return self.ask(REFINEMENT, progress=progress)

    def lesions(self, part: Part = "train", samples: int | None = None, progress: Progress | None = None) -> LesionsRecord:
        """Loss and accuracy with each single layer closed.

        Args:
            part: Which part of the data: train, validation or test.
            samples: How many samples of it, evenly spaced; by default all.
            progress: Called with (done, total) while the analysis runs.
        """
        return self.ask(LESIONS, part, samples, progress)

    def pairs(self, part: Part = "train", samples: int | None = None, progress: Progress | None = None) -> PairsRecord:
        """Loss with each pair of layers closed, and with each span of consecutive layers closed.

        Args:
            part: Which part of the data: train, validation or test.
            samples: How many samples of it, evenly spaced; by default 1000.
            progress: Called with (done, total) while the analysis runs.
        """
        return self.ask(PAIRS, part, samples, progress)

    def deletions(
        self, part: Part = "train", samples: int | None = None, seed: int = 0, progress: Progress | None = None
    ) -> DeletionsRecord:
        """Loss and accuracy with many random layers closed, and with layers in another order.

        Args:
            part: Which part of the data: train, validation or test.
            samples: How many samples of it, evenly spaced; by default 1000.
            seed: Seed of the random choices.
            progress: Called with (done, total) while the analysis runs.
        """
        return self.ask(DELETIONS, part, samples, progress, seed=seed)

    def depth(self, part: Part = "train", samples: int | None = None, progress: Progress | None = None) -> DepthRecord:
        """Loss and accuracy after removing 0, 1, 2, … layers, always the one whose removal costs least, without further training.

        Args:
            part: Which part of the data: train, validation or test.
            samples: How many samples of it, evenly spaced; by default 4000.
            progress: Called with (done, total) while the analysis runs.

        Raises:
            InputError: If the network has no layer that can be removed.
        """
        return self.ask(DEPTH, part, samples, progress)

    def ask(
        self,
        question: Question[RecordT],
        part: Part = "train",
        samples: int | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> RecordT:
        """Ask a question of the network; the answer is read from the run directory if it is there and up to date.

        Args:
            question: One of `questions.QUESTIONS`.
            part: Which part of the data.
            samples: How many samples of it, evenly spaced; the default depends on the question.
            progress: Called with (done, total) while the analysis runs.
            **options: Options of the question, such as `seed`.

        Raises:
            InputError: If the question does not apply to the network, or the data are missing.
        """
        if reason := self.reason_against(question.name):
            raise InputError(f"{self.run.path}: {question.name} does not apply to this network: {reason}")
        if samples is not None and (not isinstance(samples, int) or samples < 1):
            raise InputError(f"samples = {samples!r}: choose a whole number of at least 1")
        wanted = question.samples if samples is None else samples
        count = self.count(part) if wanted is None else min(wanted, self.count(part))
        known = self.run.load_record(question.stored_as(part), question.record)
        asked = {"fingerprint": self._fingerprint, "samples": count} | options
        if known is not None and all(getattr(known, name) == value for name, value in asked.items()):
            return known
        split = self.data.part(part)
        made = self._analyse(question, split if wanted is None else split.spread(wanted), part, progress, options)
        self._keep(question.stored_as(part), made)
        return made

    def _analyse(
        self, question: Question[RecordT], split: Split, part: Part, progress: Progress | None, options: dict[str, Any]
    ) -> RecordT:
        module, function = question.home.split(".")
        analyse: Callable[..., RecordT] = getattr(import_module(f"highwaynet.analysis.{module}"), function)
        more: dict[str, Any] = {}
        if "start" in question.needs:
            more |= {"start": load_start(self.run, self._preparation.record), "spec": self.spec.network}
        if "train" in question.needs:
            more |= {"train": self.data.train}
        try:
            return analyse(self.network, split, origin=Origin(self._fingerprint, self._about, part), progress=progress, **options, **more)
        except ValueError as error:  # the question does not apply to this network
            raise InputError(f"{self.run.path}: {error}") from error

    def _keep(self, name: str, record: Record) -> None:
        with suppress(InputError):  # the run directory may be read-only
            self.run.save_record(name, record)

    def there(self, part: Part) -> Part:
        """Return this part if it has samples, or else the validation part, or else the training part."""
        wanted: tuple[Part, ...] = (part, "validation", "train")
        return next((one for one in wanted if self.count(one)), part)

    def count(self, part: Part) -> int:
        """Number of samples of a part; does not load the data."""
        record = self._preparation.record
        counts = {"train": record.train, "validation": record.validation, "test": record.test}
        if part not in counts:
            raise unknown("part of the data", str(part), counts)
        return counts[part]
