"""RunSpec: network + data + training settings, from a TOML file, flags, or both."""

from collections.abc import Iterable
from operator import index
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tomli_w
from pydantic import Field, model_validator

from highwaynet.base.errors import InputError
from highwaynet.base.files import read_text, whole_path
from highwaynet.base.parsing import parse_toml
from highwaynet.base.specs import Spec, validated
from highwaynet.data.catalogue import CATALOGUE
from highwaynet.data.memory import target_in
from highwaynet.data.spec import IN_MEMORY, DataSpec, whole_name
from highwaynet.networks.presets import PRESETS
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.changes import assign, drop_dependent
from highwaynet.runs.names import Kept
from highwaynet.runs.optimisers import default_rate
from highwaynet.runs.recipes import find_recipe, usual_recipe
from highwaynet.runs.teacher_spec import FIRST_OPTIMISER, FIRST_STAGE, WITH_HINTS, TeacherSpec
from highwaynet.runs.training_spec import TrainingSpec

SPEC = "spec.toml"
"""Name of the spec file in a run directory."""


class StartSpec(Spec):
    """The start of a run that does not have new weights: the network of another run, or one that was given in memory."""

    _section: ClassVar[str] = "start."

    run: str | None = None
    """The parent run, whose network and weights are used."""

    checkpoint: Kept | None = None
    """Which of the parent's weights; by default those that are its answer."""

    without: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(strict=False)] = ()
    """Layers of the parent's network that are removed, numbered from 1 among those that can be removed."""

    fresh: bool = False
    """Whether the run starts with new weights: only the form of the parent's network is used, for instance to train a shorter network
    from scratch."""

    given: bool = False
    """Whether the network was given in memory (`network=` in Python); such a run can only be repeated with that network."""

    weights: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Checksum of the weights that the run started with. Filled in when it starts; a repetition must start with the same ones."""

    @model_validator(mode="after")
    def _check(self) -> "StartSpec":
        if self.run is None and not self.given:
            raise ValueError("start.run is missing: name the run whose network is used, or leave the section out for new weights")
        if self.given and (self.without or self.checkpoint or self.fresh):
            raise ValueError("start.given = true: the network was given in memory; the other settings of start need start.run")
        return self


OPTIONAL = tuple(
    name for name, field in TrainingSpec.model_fields.items() if field.default is None and name not in {"recipe", "learning_rate"}
)
"""Training settings that may be None, also if the recipe has a value."""


class RunSpec(Spec):
    """All settings of a run: the same spec gives the same history, bit for bit.

    A spec is always complete: fields that are left out get values from the network, its recipe and the data.

    >>> spec = RunSpec(network=NetworkSpec(depth=20), training=TrainingSpec(epochs=5))
    >>> spec.network.name, spec.training.learning_rate
    ('fc-highway', 0.2)
    """

    schema_version: Literal[1] = 1
    """Version of this format."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of the initial weights and of the order of the samples."""

    network: NetworkSpec = NetworkSpec()
    """Settings of the network."""

    data: DataSpec = DataSpec()
    """Settings of the data."""

    training: TrainingSpec = TrainingSpec()
    """Settings of the training."""

    start: StartSpec | None = None
    """The network of another run to start with; by default the run starts with new weights."""

    teacher: TeacherSpec | None = None
    """The network of another run to imitate (distillation); by default there is none."""

    @classmethod
    def from_run(
        cls,
        run: str | PathLike[str],
        *,
        without: Iterable[int] = (),
        checkpoint: str | None = None,
        fresh: bool = False,
        **changes: Any,
    ) -> "RunSpec":
        """Return the spec of a run that trains the network of another run further.

        Args:
            run: The parent run.
            without: Layers of its network to remove, numbered from 1 among those that can be removed.
            checkpoint: Which of its weights, "final", "best" or "average"; by default those that are its answer.
            fresh: Whether to start with new weights, and use only the form of its network.
            **changes: Sections with the settings that differ from the parent's, for instance ``training={"epochs": 5}``.

        Raises:
            InputError: If there is no such run, or a value is invalid.
        """
        try:
            start: dict[str, Any] = {"run": str(Path(run).resolve()), "without": tuple(map(index, without)), "checkpoint": checkpoint}
            start |= {"fresh": True} if fresh else {}
        except TypeError as error:
            raise InputError(f"without = {without!r}: give the numbers of layers, for instance [3, 7]") from error
        return spec_from_values(on_top_of_parent(changes | {"start": start}))

    @classmethod
    def for_data(cls, data: Any, /, **sections: Any) -> "RunSpec":
        """Return a spec whose network and settings suit your own data, as `highway train` chooses them.

        Args:
            data: The path of the data, or data in memory as `train(..., data=...)` takes them.
            **sections: Settings that you choose yourself, for instance ``training={"epochs": 5}``.

        Raises:
            InputError: If a value is invalid.
        """
        from highwaynet.runs.suited import suited_to_data

        in_memory = not isinstance(data, str | PathLike)
        own = dict(sections.get("data") or {})
        own |= {"target": target_in(data) or own.get("target")} if in_memory else {"name": whole_name(str(data))}
        own |= {"name": IN_MEMORY} if in_memory else {}
        return spec_from_values(suited_to_data(sections | {"data": own}, data if in_memory else None))

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """Fill in training settings and preprocessing from the recipe, and the learning rate from the network."""
        if not isinstance(values, dict):
            return values
        if "schema_version" not in values:  # the complete specs of earlier runs may have such settings
            check_hints(values.get("teacher"))
        network, training, data = (_given(values.get(section, {})) for section in ("network", "training", "data"))
        if network is None or training is None or data is None:
            return values
        name, recipe_name = network.get("name", "fc-highway"), training.get("recipe")
        if not isinstance(name, str) or name not in PRESETS or not isinstance(recipe_name, str | None):
            return values
        defaults: dict[str, Any] = {"learning_rate": default_rate(training.get("optimiser"), PRESETS[name])}
        recipe_name = usual_recipe(name) if recipe_name is None else recipe_name
        if recipe_name is not None:
            recipe = find_recipe(recipe_name, name, str(network.get("variant", "")))
            defaults |= {"recipe": recipe_name} | _applicable(recipe.training, training)
            known = CATALOGUE.get(str(data.get("name", "digits")))
            defaults |= {step: value for step, value in recipe.augmentation.items() if known and step in known.stays}
            own = _given(values["teacher"]) if values.get("teacher") is not None else None
            if recipe.teacher and own is not None:
                values = values | {"teacher": recipe.teacher | {key: value for key, value in own.items() if value is not None}}
            if recipe.preprocessing and data.get("preprocessing") is None:
                values = values | {"data": data | {"preprocessing": recipe.preprocessing}}
        return values | {"training": defaults | {key: value for key, value in training.items() if value is not None or key in OPTIONAL}}

    @model_validator(mode="after")
    def _check(self) -> "RunSpec":
        if self.training.epochs == 0 and self.start is None:
            raise ValueError("training.epochs = 0: should be at least 1; only a run with a [start] section can keep its initial weights")
        if self.teacher is not None and self.training.objective is not None:
            raise ValueError(f"teacher.run = {self.teacher.run!r}: the run has a custom objective; omit one of them")
        if self.teacher is not None and self.teacher.in_two_stages and self.start is not None:
            raise ValueError(
                f"teacher.hints = {self.teacher.hints!r}: training with hints begins with new weights; omit start, or set teacher.stage to "
                "hints or distillation to train one of the two stages"
            )
        if self.is_first_stage:
            for field in ("label_smoothing", "class_weight", "layer_drop"):
                if value := getattr(self.training, field):
                    raise ValueError(f"training.{field} = {value!r}: the stage with hints has no outputs to apply it to; omit it")
        if self.teacher is not None and self.teacher.weight_epochs is not None:
            start, end = self.teacher.span(self.training.epochs)
            if start >= end:
                raise ValueError(f"teacher.weight_epochs = {list(self.teacher.weight_epochs)}: the first must come before the second")
        return self

    @property
    def is_first_stage(self) -> bool:
        """Whether it is the first stage of a training with hints, in which the outputs of the network are not trained."""
        return self.teacher is not None and self.teacher.stage == "hints"

    def to_toml(self) -> str:
        """Return the spec as TOML, with all settings."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def with_training(spec: RunSpec, **changes: Any) -> RunSpec:
    """Return the spec with other training settings, without applying the recipe again."""
    return spec.model_copy(update={"training": spec.training.model_copy(update=changes)})


def _given(section: Any) -> dict[str, Any] | None:
    """Return the fields of a section that were set; None if it is not a section, which validation then reports."""
    if isinstance(section, Spec):
        return {field: getattr(section, field) for field in section.model_fields_set}
    return section if isinstance(section, dict) else None


def check_hints(teacher: Any) -> None:
    """Raise ValueError if the values of a section that a user gives have settings for hints that would have no effect, or another one.

    A TeacherSpec may have such settings from a recipe, which are no mistake of the user.
    """
    if not isinstance(teacher, dict):
        return
    for field in WITH_HINTS:
        if (value := teacher.get(field)) is not None and teacher.get("hints") is None:
            raise ValueError(f"teacher.{field} = {value!r}: needs teacher.hints, for instance 6:2; add it, or omit this")
    epochs = teacher.get("hint_epochs")
    if isinstance(epochs, float) and epochs > 1 and epochs % 1:
        raise ValueError(f"teacher.hint_epochs = {epochs:g}: give a whole number of epochs, or a share below 1")


def _applicable(recipe: dict[str, Any], training: dict[str, Any]) -> dict[str, Any]:
    """Return the recipe's settings without details of its schedule or optimiser if another one is chosen."""
    kept = {"training": {"optimiser": TrainingSpec.model_fields["optimiser"].default} | recipe}
    drop_dependent(kept, {f"training.{name}": value for name, value in training.items() if value is not None})
    return {name: value for name, value in kept["training"].items() if name in recipe}


def make_absolute(values: dict[str, Any]) -> None:
    """Make the paths of user data and of a parent run absolute, so that the run can be repeated from another folder."""
    for section, field, whole in (("data", "name", whole_name), ("start", "run", whole_path), ("teacher", "run", whole_path)):
        table = values.get(section)
        if isinstance(table, dict) and field in table:
            table[field] = whole(table[field])


def on_top_of_parent(values: dict[str, Any]) -> dict[str, Any]:
    """Apply values on top of the settings of the run that their section [start] names; without one, return them unchanged."""
    start = values.get("start")
    run = start.get("run") if isinstance(start, dict) else None
    if not isinstance(run, str):
        return values
    if not (Path(run) / SPEC).is_file():
        raise InputError(f"start.run = {run!r}: there is no run directory; name the folder of a finished run")
    parent = read_spec_values(Path(run) / SPEC)
    _forget_first_stage(parent)
    for section in ("start", "teacher"):
        parent.pop(section, None)
    if isinstance(training := parent.get("training"), dict) and training.get("epochs") == 0:
        del training["epochs"]  # of a network that was saved without training and is now trained further
    try:
        check_hints(values.get("teacher"))
    except ValueError as error:
        raise InputError(str(error)) from error
    changes: dict[str, Any] = {}
    for section, given in values.items():
        plain = given.model_dump(exclude_unset=True) if isinstance(given, Spec) else given
        changes |= {f"{section}.{name}": value for name, value in plain.items()} if isinstance(plain, dict) else {section: plain}
    drop_dependent(parent, changes)
    for field, value in changes.items():
        assign(parent, field, value)
    return parent


def _forget_first_stage(parent: dict[str, Any]) -> None:
    """Remove settings that the first stage of a training with hints does not share with a second one, which has its usual ones then."""
    teacher, training = parent.get("teacher"), parent.get("training")
    if isinstance(teacher, dict) and teacher.get("stage") == "hints" and isinstance(training, dict):
        for name in (*FIRST_STAGE, *(FIRST_OPTIMISER if training.get("optimiser") == "adamw" else ())):
            training.pop(name, None)


def read_spec_values(path: Path) -> dict[str, Any]:
    """Read the values of a spec file without validating them, so that flags can change them."""
    return parse_spec(read_text(path), path)


def parse_spec(text: str, path: Path) -> dict[str, Any]:
    """Return the values in the text of a spec file. In that of a run, which is complete, settings that are absent are None."""
    values = parse_toml(text, path)
    if "schema_version" in values and isinstance(training := values.get("training"), dict):
        values["training"] = dict.fromkeys(OPTIONAL) | training
    return values


def spec_from_values(values: dict[str, Any], source: Path | None = None) -> RunSpec:
    """Make a validated RunSpec; the error names the file if there is one."""
    try:
        return validated(RunSpec, values)
    except InputError as error:
        separator = " " if str(error).startswith("was written by") else ": "
        raise InputError(f"{source}{separator}{error}" if source else str(error)) from error
