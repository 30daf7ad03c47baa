"""Parameters as Optuna's distributions."""

import json
from typing import TYPE_CHECKING, Any

from highwaynet.search.spec import Parameter, same

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def distribution_of(parameter: Parameter) -> "BaseDistribution":
    """Convert a parameter to Optuna's distribution. Choices that are lists, which Optuna does not support, become JSON text."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.choices is not None:
        return CategoricalDistribution([_plain(choice) for choice in parameter.choices])
    low, high = parameter.at(0.0), parameter.at(1.0)
    if parameter.kind == "integer":
        return IntDistribution(low, high, step=int(parameter.step or 1))
    return FloatDistribution(float(low), float(high), log=parameter.kind == "log-uniform", step=parameter.step)


def stored(parameter: Parameter, value: Any) -> tuple[float, str]:
    """Return value and distribution as Optuna's tables store them; a choice is stored as its index in the list."""
    from optuna.distributions import distribution_to_json

    if parameter.choices is not None:
        value = next(place for place, choice in enumerate(parameter.choices) if same(choice, value))
    return float(value), distribution_to_json(distribution_of(parameter))


def restored(parameter: Parameter, value: Any) -> Any:
    """Convert a value from Optuna to the form of the spec."""
    if parameter.choices is not None:
        return next((choice for choice in parameter.choices if same(_plain(choice), value)), value)
    return value


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple) else value
