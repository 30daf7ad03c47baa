"""All records of a run: taken from its directory where they are up to date, made and kept there where not."""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

from highwaynet.analysis.flow import analyse_flow
from highwaynet.analysis.gates import analyse_gates
from highwaynet.analysis.lesions import analyse_deletions, analyse_lesions, analyse_pairs
from highwaynet.analysis.records import (
    About,
    DeletionsRecord,
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
from highwaynet.analysis.refinement import analyse_refinement
from highwaynet.analysis.routing import analyse_routing, highway_modules
from highwaynet.analysis.watching import Progress
from highwaynet.base.errors import InputError, unknown
from highwaynet.data.dataset import Dataset, Split
from highwaynet.data.load import load_dataset
from highwaynet.data.names import Part
from highwaynet.layers.lesion import count_layers
from highwaynet.networks.build import count_parameters
from highwaynet.networks.description import title_of
from highwaynet.runs.checkpoints import Kept
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.load import load_network, load_start
from highwaynet.runs.records import Score
from highwaynet.training.evaluation import evaluate

RecordT = TypeVar("RecordT", bound=Record)

ENOUGH = 10_000
"""Samples over which refinement is averaged."""
MANY = 1000
"""Samples for studies that close many sets of layers."""


class Study:
    """Analyses of the network of one run; make it with `inspect`. Each result is kept in the run directory.

    Args:
        run: The run.
        checkpoint: Which weights, "final" or "best"; by default final.
        data: The data, if the run was trained on data in memory.

    Raises:
        InputError: If the directory is damaged, or the checkpoint is missing.
    """

    def __init__(self, run: RunDirectory, checkpoint: Kept | None = None, data: Any = None) -> None:
        self.run, self._given = run, data
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
        """The data of the run, loaded at the first question that needs them."""
        return load_dataset(self.spec.data, self._preparation, data=self._given)

    @property
    def title(self) -> str:
        """How pictures call the network, for instance 50-layer highway."""
        return self._about.network

    @property
    def has_gates(self) -> bool:
        """Whether the network has transform gates."""
        with suppress(ValueError):
            return bool(highway_modules(self.network))
        return False

    @property
    def closable(self) -> int:
        """How many layers can be closed."""
        return count_layers(self.network)

    def reason_against(self, question: str) -> str | None:
        """Why the network cannot be asked this; None if it can."""
        if question in {"gates", "routing"} and not self.has_gates:
            return "it has no highway layers, so that there are no transform gates to look at"
        if question == "routing" and not self.classes:
            return "it is a regression, which has no classes to compare"
        if question in {"lesions", "pairs", "deletions"} and not self.closable:
            return "it has no layers that can be closed; highway and residual layers can"
        return None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; none in a regression."""
        return self._preparation.record.class_names

    def score(self, part: Part) -> Score:
        """How well the network does on one part of the data.

        Args:
            part: Which part: train, validation or test.
        """
        return evaluate(self.network, self.data.part(part))

    def evaluation(self) -> EvaluationRecord:
        """How well the network does on all parts of the data."""

        def make() -> EvaluationRecord:
            data = self.data
            return EvaluationRecord(
                fingerprint=self._fingerprint,
                parameters=count_parameters(self.network),
                train=evaluate(self.network, data.train),
                validation=evaluate(self.network, data.validation) if data.validation else None,
                test=evaluate(self.network, data.test),
            )

        return self._recorded("evaluation", EvaluationRecord, make)

    def gates(self, sample: int = 0, progress: Progress | None = None) -> GatesRecord:
        """Which transform gates open over the training data, and for one sample.

        Args:
            sample: The training sample whose gates are recorded one by one, numbered from 0.
            progress: Called with (done, total) while the analysis runs.
        """
        if not isinstance(sample, int) or not 0 <= sample < self.count("train"):
            raise InputError(f"sample = {sample!r}: there are {self.count('train'):,} training samples, numbered from 0")
        return self._recorded(
            "gates",
            GatesRecord,
            lambda: analyse_gates(self.network, self.data.train, origin=self._origin("train"), sample=sample, progress=progress),
            still=lambda known: known.sample == sample,
        )

    def routing(self, progress: Progress | None = None) -> RoutingRecord:
        """How samples of different classes open different gates, over the training data.

        Args:
            progress: Called with (done, total) while the analysis runs.
        """
        return self._recorded(
            "routing",
            RoutingRecord,
            lambda: analyse_routing(self.network, self.data.train, origin=self._origin("train"), progress=progress),
        )

    def flow(self) -> FlowRecord:
        """Activations and gradients by layer, before and after training."""

        def make() -> FlowRecord:
            start = load_start(self.run, self._preparation.record)
            return analyse_flow(start, self.network, self.data.train, origin=self._origin("train"), spec=self.spec.network)

        return self._recorded("flow", FlowRecord, make)

    def refinement(self, progress: Progress | None = None) -> RefinementRecord:
        """How far each layer's output is from the last one's.

        Args:
            progress: Called with (done, total) while the analysis runs.

        Raises:
            InputError: If no two layers in a row have the same shape.
        """
        return self._recorded(
            "refinement",
            RefinementRecord,
            lambda: self._asked(analyse_refinement, self._split("train", ENOUGH), origin=self._origin("train"), progress=progress),
            still=lambda known: known.samples == self._count("train", ENOUGH),
        )

    def lesions(self, part: Part = "train", samples: int | None = None, progress: Progress | None = None) -> LesionsRecord:
        """Loss and accuracy with each single layer closed.

        Args:
            part: Which part of the data: train, validation or test.
            samples: How many samples of it, evenly spaced; all if None.
            progress: Called with (done, total) while the analysis runs.
        """
        return self._recorded(
            f"lesions-{part}",
            LesionsRecord,
            lambda: analyse_lesions(self.network, self._split(part, samples), origin=self._origin(part), progress=progress),
            still=lambda known: known.samples == self._count(part, samples),
        )

    def pairs(self, part: Part = "train", samples: int | None = MANY, progress: Progress | None = None) -> PairsRecord:
        """Loss with each two layers closed, and with each span of layers closed.

        Args:
            part: Which part of the data: train, validation or test.
            samples: How many samples of it, evenly spaced; all if None.
            progress: Called with (done, total) while the analysis runs.
        """
        return self._recorded(
            f"pairs-{part}",
            PairsRecord,
            lambda: self._asked(analyse_pairs, self._split(part, samples), origin=self._origin(part), progress=progress),
            still=lambda known: known.samples == self._count(part, samples),
        )

    def deletions(
        self, part: Part = "train", samples: int | None = MANY, seed: int = 0, progress: Progress | None = None
    ) -> DeletionsRecord:
        """Loss and accuracy with many random layers closed, and with layers in another order.

        Args:
            part: Which part of the data: train, validation or test.
            samples: How many samples of it, evenly spaced; all if None.
            seed: Seed of the random choices.
            progress: Called with (done, total) while the analysis runs.
        """
        return self._recorded(
            f"deletions-{part}",
            DeletionsRecord,
            lambda: analyse_deletions(self.network, self._split(part, samples), origin=self._origin(part), seed=seed, progress=progress),
            still=lambda known: known.samples == self._count(part, samples) and known.seed == seed,
        )

    def _asked(self, analyse: Callable[..., RecordT], split: Split, **arguments: object) -> RecordT:
        """An analysis that not every network can be asked; raises InputError with its reason."""
        try:
            return analyse(self.network, split, **arguments)
        except ValueError as error:
            raise InputError(f"{self.run.path}: {error}") from error

    def _origin(self, part: Part) -> Origin:
        return Origin(self._fingerprint, self._about, part)

    def count(self, part: Part) -> int:
        """How many samples a part has; known without the data."""
        record = self._preparation.record
        counts = {"train": record.train, "validation": record.validation, "test": record.test}
        if part not in counts:
            raise unknown("part of the data", str(part), counts)
        return counts[part]

    def _count(self, part: Part, samples: int | None) -> int:
        return self.count(part) if samples is None else min(samples, self.count(part))

    def _split(self, part: Part, samples: int | None) -> Split:
        if samples is not None and (not isinstance(samples, int) or samples < 1):
            raise InputError(f"samples = {samples!r}: should be at least 1")
        split = self.data.part(part)
        return split if samples is None else split.spread(samples)

    def _recorded(
        self, name: str, kind: type[RecordT], make: Callable[[], RecordT], still: Callable[[RecordT], bool] = lambda known: True
    ) -> RecordT:
        if reason := self.reason_against(name.partition("-")[0]):
            raise InputError(f"{self.run.path}: this network cannot be asked about {name.partition('-')[0]}: {reason}")
        known = self.run.load_record(name, kind)
        if known is not None and known.fingerprint == self._fingerprint and still(known):
            return known
        made = make()
        with suppress(InputError):  # a run that may only be read can still be asked
            self.run.save_record(name, made)
        return made
