"""A study's configurations, and from settings to the spec of a run. Free of torch."""

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from highwaynet.base.errors import InputError, unknown
from highwaynet.data.spec import whole_name
from highwaynet.runs.changes import assign
from highwaynet.runs.spec import RunSpec, make_absolute, spec_from_values
from highwaynet.search.spec import Parameter, StudySpec, holds

Settings = dict[str, Any]
"""The values of a trial by field."""
DATA = "data.name"


@dataclass(frozen=True)
class Configuration:
    """One combination of the axes' values."""

    label: str
    """Names it in tables, in the storage and as a folder, for instance fc-highway-depth10."""
    values: dict[str, Any]
    """The axes' values by field."""


def configurations(spec: StudySpec) -> list[Configuration]:
    """All combinations of the axes' values, the last axis changing fastest; one, called all, where there are no axes."""
    found: list[Configuration] = []
    for values in product(*spec.axes.values()):
        chosen = dict(zip(spec.axes, values, strict=True))
        label = wanted = "-".join(_word(field, value) for field, value in chosen.items()) or "all"
        number = 1
        while label in {other.label for other in found}:
            number += 1
            label = f"{wanted}-{number}"
        found.append(Configuration(label, chosen))
    return found


def _word(field: str, value: Any) -> str:
    text = value if isinstance(value, str) else f"{field.rpartition('.')[2]}{value}"
    text = Path(text).name if field == DATA else text
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "x"


def parameters_of(spec: StudySpec, configuration: Configuration) -> dict[str, Parameter]:
    """What is drawn in a configuration, every field behind those on which it depends; conditions on axes are settled."""
    axes = configuration.values
    return {
        field: parameter
        for field, parameter in spec.ordered_space().items()
        if all(holds(condition, axes[other]) for other, condition in parameter.when.items() if other in axes)
    }


def applies(parameter: Parameter, configuration: Configuration, settings: Settings) -> bool:
    """Whether a setting is drawn, given those that were drawn before it."""
    known = configuration.values | settings
    return all(other in known and holds(condition, known[other]) for other, condition in parameter.when.items())


def spec_of_trial(spec: StudySpec, configuration: Configuration, settings: Settings, seed: int) -> RunSpec:
    """The run of a trial: a process with one thread, unless the study says otherwise."""
    values: dict[str, Any] = deepcopy(spec.run)
    for field, value in (configuration.values | settings).items():
        assign(values, field, value)
    if isinstance(training := values.setdefault("training", {}), dict):
        training.setdefault("threads", 1)
    return spec_from_values(values | {"seed": seed})


def anchored(spec: StudySpec) -> StudySpec:
    """The study with whole paths where it names files of data, so that it means the same wherever somebody stands."""
    changes: dict[str, Any] = {"run": deepcopy(spec.run)}
    make_absolute(changes["run"])
    if DATA in spec.axes:
        changes["axes"] = spec.axes | {DATA: tuple(map(whole_name, spec.axes[DATA]))}
    if DATA in spec.space and (choices := spec.space[DATA].choices):
        changes["space"] = spec.space | {DATA: spec.space[DATA].model_copy(update={"choices": tuple(map(whole_name, choices))})}
    return spec.model_copy(update=changes)


def check_runs(spec: StudySpec) -> list[tuple[Configuration, list[RunSpec]]]:
    """The runs at the ends of the space, or with the settings that are given, by configuration; raises InputError where one is refused."""
    check_given(spec)
    checked: list[tuple[Configuration, list[RunSpec]]] = []
    for configuration in configurations(spec):
        runs: list[RunSpec] = []
        for settings in spec.given.get(configuration.label) or ends(spec, configuration):
            try:
                runs.append(spec_of_trial(spec, configuration, settings, 0))
            except InputError as error:
                raise InputError(f"configuration {configuration.label}: {error}") from error
        checked.append((configuration, runs))
    return checked


def check_given(spec: StudySpec) -> None:
    """Raise InputError where the settings that are given are not those of the study's configurations and space."""
    if not spec.given:
        return
    known = {one.label: one for one in configurations(spec)}
    for label in spec.given:
        if label not in known:
            raise InputError(f"[[given.{label}]]: {unknown('configuration', label, known)}")
    for label, configuration in known.items():
        listed = spec.given.get(label, ())
        if len(listed) != spec.trials:
            raise InputError(
                f"[[given.{label}]] has {len(listed)} settings, and trials = {spec.trials}: give as many for each configuration"
            )
        for number, settings in enumerate(listed):
            place = f"[[given.{label}]] number {number + 1}"
            wanted = {field: one for field, one in parameters_of(spec, configuration).items() if applies(one, configuration, settings)}
            if wrong := sorted(wanted.keys() ^ settings.keys()):
                raise InputError(f"{place}: {wrong[0]} is {'missing' if wrong[0] in wanted else 'not a setting here'}")
            for field, parameter in wanted.items():
                if not parameter.has(settings[field]):
                    raise InputError(f"{place}: {field} = {settings[field]!r} lies outside of [space]")


def ends(spec: StudySpec, configuration: Configuration) -> Iterator[Settings]:
    """Settings at the ends of the space: all at their first value, all at their last, and every choice once."""
    parameters = parameters_of(spec, configuration)

    def walk(shares: dict[str, float], usual: float) -> Settings:
        settings: Settings = {}
        for field, parameter in parameters.items():
            if applies(parameter, configuration, settings):
                settings[field] = parameter.at(shares.get(field, usual))
        return settings

    yield walk({}, 0.0)
    yield walk({}, 1.0)
    for field, parameter in parameters.items():
        for number in range(len(parameter.choices or ())):
            share = (number + 0.5) / len(parameter.choices or ())
            yield walk({field: share}, 0.0)
