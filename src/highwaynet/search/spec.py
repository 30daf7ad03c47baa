"""StudySpec: which runs a study consists of. Does not import torch."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import Field, model_validator

from highwaynet.base.errors import InputError, unknown
from highwaynet.base.files import read_text, sha256
from highwaynet.base.parsing import parse_toml
from highwaynet.base.specs import Spec, validated
from highwaynet.runs.spec import RunSpec
from highwaynet.search.fields import check_field, flattened

Sampler = Literal["random", "tpe", "sobol", "given"]
Pruner = Literal["none", "median", "halving"]
StudyMeasure = Literal["train-loss", "validation-loss", "validation-accuracy"]
List = Annotated[tuple[Any, ...], Field(strict=False)]

MOST = 2**53
"""Largest bound: floats beyond it cannot represent every whole number."""
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"


class Parameter(Spec):
    """The values that one setting may take."""

    kind: Literal["uniform", "log-uniform", "integer", "choice"]
    """uniform and log-uniform (numbers between low and high), integer (whole ones, both ends included), choice (one of a list)."""

    low: int | float | None = None
    """The smallest value."""

    high: int | float | None = None
    """The largest value."""

    step: int | float | None = None
    """uniform and integer: distance between values, from low on."""

    choices: List | None = None
    """choice: the values to choose from."""

    when: dict[str, Any] = Field(default_factory=dict)
    """Draw the setting only if these fields, axes or choices of the study, have these values (a value, or a list of values)."""

    @property
    def count(self) -> int | None:
        """Number of values; None if they are continuous."""
        if self.choices is not None:
            return len(self.choices)
        if self.low is None or self.high is None or (self.step is None and self.kind != "integer"):
            return None
        return int((Decimal(str(self.high)) - Decimal(str(self.low))) // Decimal(str(self.step or 1))) + 1

    def has(self, value: Any) -> bool:
        """Whether the setting may take this value."""
        if self.choices is not None:
            return any(same(choice, value) for choice in self.choices)
        if isinstance(value, bool) or not isinstance(value, int if self.kind == "integer" else int | float):
            return False
        if self.low is None or self.high is None or not self.low <= value <= self.high:
            return False
        return self.count is None or (Decimal(str(value)) - Decimal(str(self.low))) % Decimal(str(self.step or 1)) == 0

    def at(self, share: float) -> Any:
        """Return the value at a share from 0 to 1; uniformly distributed shares give values distributed as `kind` says.

        >>> Parameter(kind="integer", low=1, high=4).at(0.99), Parameter(kind="log-uniform", low=0.01, high=1).at(0.5)
        (4, 0.1)
        """
        count, low, high = self.count, self.low, self.high
        if count is not None:
            number = min(int(share * count), count - 1)
            if self.choices is not None:
                return self.choices[number]
        if low is None or high is None:
            raise ValueError(f"{self.kind} needs low and high")
        if count is not None:  # in decimals, so that 0.1 + 3 · 0.3 is exactly 1
            exact = Decimal(str(low)) + number * Decimal(str(self.step or 1))
            return int(exact) if self.kind == "integer" else float(exact)
        value = low * (high / low) ** share if self.kind == "log-uniform" else low + share * (high - low)
        return min(max(value, float(low)), float(high))


class StudySpec(Spec):
    """All settings of a study. With the samplers random and sobol, the same spec gives the same settings and results."""

    schema_version: Literal[1] = 1
    """Version of this format."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    """Name of the study in its storage, and of its folder: up to 100 letters, digits, dots, dashes and underscores, starting with a letter
    or digit."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of the settings and, with a trial's index, of each trial."""

    trials: Annotated[int, Field(ge=1, le=100_000)] = 100
    """Number of settings to try in each configuration."""

    sampler: Sampler = "random"
    """random (as in the paper), sobol (evenly spread), tpe (learns from finished trials; depends on the order in which they end), or
    given (the settings are listed)."""

    pruner: Pruner = "none"
    """Which trials to end early: none, median (worse than half of the others), or halving (successive halving). With median and halving,
    results depend on the order in which trials end."""

    objective: StudyMeasure = "train-loss"
    """How trials are compared: by the lowest training loss over the epochs (as in the paper), the lowest validation loss, or the highest
    validation accuracy."""

    run: dict[str, Any] = Field(default_factory=dict)
    """Settings that all runs share: the tables network, data and training of a run file."""

    axes: dict[str, List] = Field(default_factory=dict)
    """Fields with lists of values. Each combination is a configuration, with its own trials."""

    space: dict[str, Parameter]
    """Fields with the values that they may take."""

    given: dict[str, Annotated[tuple[dict[str, Any], ...], Field(strict=False)]] = Field(default_factory=dict)
    """sampler given: the settings of each configuration, by its label, as `highway search finals` writes them."""

    @property
    def maximises(self) -> bool:
        """Whether a higher value is better."""
        return self.objective == "validation-accuracy"

    @property
    def depends_on_order(self) -> bool:
        """Whether results depend on the order in which trials end."""
        return self.sampler == "tpe" or self.pruner != "none"

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, values: Any) -> Any:
        """Accept nested tables for dotted names."""
        if not isinstance(values, dict):
            return values
        changed = dict(values)
        if isinstance(axes := values.get("axes"), dict):
            changed["axes"] = flattened(axes, lambda value: not isinstance(value, dict))
        if isinstance(space := values.get("space"), dict):
            flat = flattened(space, lambda value: not isinstance(value, dict) or not value or bool(value.keys() & Parameter.model_fields))
            changed["space"] = {field: _parameter(field, value) for field, value in flat.items()}
        if isinstance(given := values.get("given"), dict):
            changed["given"] = {label: _settings(listed) for label, listed in given.items()}
        return changed

    @model_validator(mode="after")
    def _check(self) -> "StudySpec":
        """Raise InputError if something is empty or contradictory."""
        for field in self.axes:
            check_field(field, "axes")
        for field in self.space:
            check_field(field, "space")
        if not self.space:
            raise InputError("[space] is empty: name at least one field with the values that it may take")
        for field, values in self.axes.items():
            _check_list(f"[axes] {field}", values)
        for field, parameter in self.space.items():
            if field in self.axes:
                raise InputError(f"{field} is an axis and in [space]: remove it from one of them")
            _check_parameter(f'[space."{field}"]', parameter)
        given = {f"{section}.{name}" for section, table in self.run.items() if isinstance(table, dict) for name in table}
        if twice := sorted(given & (set(self.axes) | set(self.space))):
            raise InputError(f"{twice[0]} is in [run] and also in [axes] or [space]: remove it from one of them")
        if "seed" in self.run:
            check_field("seed", "run")
        for field, parameter in self.space.items():
            _check_conditions(self, field, parameter)
        self.ordered_space()
        if (self.sampler == "given") != bool(self.given):
            raise InputError(f"sampler = {self.sampler!r}: list settings in [[given.CONFIGURATION]] if it is 'given', and only then")
        return self

    def ordered_space(self) -> dict[str, Parameter]:
        """Return the space with every field after those it depends on; raises InputError if fields depend on each other."""
        ordered: dict[str, Parameter] = {}
        left = dict(self.space)
        while left:
            ready = [field for field, parameter in left.items() if not set(parameter.when) & set(left)]
            if not ready:
                raise InputError(f'[space."{next(iter(left))}"]: its conditions are circular; remove one of them')
            for field in ready:
                ordered[field] = left.pop(field)
        return ordered

    def to_toml(self) -> str:
        """Return the spec as TOML, including defaults."""
        values = self.model_dump(exclude_none=True)
        for parameter in values["space"].values():
            if not parameter["when"]:
                del parameter["when"]
        if not self.given:
            del values["given"]
        return tomli_w.dumps(values)

    @property
    def checksum(self) -> str:
        """SHA-256 of the spec; it does not depend on the layout of the file."""
        return sha256(self.to_toml().encode())


def read_study(path: Path) -> StudySpec:
    """Read a study file; errors name the file."""
    return parse_study(read_text(path), path)


def parse_study(text: str, source: Path) -> StudySpec:
    """Parse the text of a study file; errors name `source`."""
    values = parse_toml(text, source)
    if not values.keys() & {"space", "axes", "run"} and values.keys() & set(RunSpec.model_fields) - {"schema_version", "seed"}:
        raise InputError(f"{source} is a run file, not a study: run it with highway train {source}")
    try:
        return validated(StudySpec, values)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def holds(condition: Any, value: Any) -> bool:
    """Whether a value satisfies a condition: it equals the condition, or one of a list."""
    return same(condition, value) or (isinstance(condition, list | tuple) and any(same(one, value) for one in condition))


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal; true differs from 1, and lists equal tuples."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _parameter(field: str, values: Any) -> Parameter:
    if isinstance(values, Parameter):
        return values
    if not isinstance(values, dict):
        raise InputError(f'[space."{field}"] = {values!r}: write kind = "uniform", low and high, or kind = "choice" and choices')
    kinds = ("uniform", "log-uniform", "integer", "choice")
    if values.get("kind") not in kinds:
        raise InputError(f'[space."{field}"]: {unknown("kind", str(values.get("kind", "")), kinds)}')
    if isinstance(when := values.get("when"), dict):
        values = values | {"when": flattened(when, lambda value: not isinstance(value, dict))}
    return validated(Parameter, values, f'[space."{field}"] ')


def _settings(listed: Any) -> Any:
    """Flatten the names of each entry of a list of settings."""
    if not isinstance(listed, list | tuple):
        return listed
    return [flattened(one, lambda value: not isinstance(value, dict)) if isinstance(one, dict) else one for one in listed]


def _check_list(place: str, values: tuple[Any, ...]) -> None:
    if not values:
        raise InputError(f"{place} = []: give at least one value")
    for number, value in enumerate(values):
        if any(same(value, other) for other in values[:number]):
            raise InputError(f"{place}: {value!r} is listed twice; remove one of them")


def _check_parameter(place: str, parameter: Parameter) -> None:
    kind, low, high, step = parameter.kind, parameter.low, parameter.high, parameter.step
    if kind == "choice":
        if parameter.choices is None or not (low is high is step is None):
            raise InputError(f"{place}: a choice needs choices = [...], and no low, high or step")
        _check_list(f"{place} choices", parameter.choices)
        return
    if parameter.choices is not None or low is None or high is None:
        raise InputError(f"{place}: {kind} needs low and high, and no choices")
    if max(abs(low), abs(high)) > MOST:  # before anything is computed: a whole number can be too large for a float
        raise InputError(f"{place}: choose low and high between −2**53 and 2**53")
    if low >= high:
        raise InputError(f"{place} low = {low} and high = {high}: low must be below high")
    if kind == "log-uniform" and low <= 0:
        raise InputError(f"{place} low = {low}: log-uniform needs low above 0")
    if step is not None and (kind == "log-uniform" or not 0 < step <= high - low):
        raise InputError(f"{place} step = {step}: only uniform and integer may have a step, above 0 and at most high − low")
    if (high - low) / (step or 1) > MOST:
        raise InputError(f"{place} low = {low}, high = {high}, step = {step}: choose a number of steps of at most 2**53")
    if kind == "integer" and not all(isinstance(number, int) for number in (low, high, step or 1)):
        raise InputError(f"{place} low = {low}, high = {high}{f', step = {step}' if step else ''}: integer needs whole numbers")


def _check_conditions(spec: StudySpec, field: str, parameter: Parameter) -> None:
    for other, condition in parameter.when.items():
        place = f'[space."{field}"] when {other} = {condition!r}'
        known = spec.axes.get(other) or (spec.space[other].choices if other in spec.space else None)
        if other == field or not known:
            names = [*spec.axes, *(name for name, one in spec.space.items() if one.kind == "choice" and name != field)]
            raise InputError(f"{place}: a condition must name an axis or a choice of the study: {', '.join(names) or 'there is none'}")
        if not any(holds(condition, value) for value in known):
            raise InputError(f"{place}: {other} never has this value; choose from {', '.join(map(str, known))}")


def is_name(text: str) -> bool:
    """Whether a text can be the name of a study."""
    return re.fullmatch(NAME, text) is not None
