"""DataSpec: which data, and how they are divided."""

from typing import Annotated

from pydantic import Field, field_validator

from highwaynet.base.errors import unknown
from highwaynet.base.specs import Spec
from highwaynet.data.catalogue import CATALOGUE


class DataSpec(Spec):
    """A data set by name, and its division."""

    name: str = "digits"
    """Which data set; `highway data list` lists them."""

    validation: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Share of the training samples that is kept for validation, drawn class by class; 0 trains on all of them."""

    split_seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of that draw. Apart from the run's seed, so that runs with other seeds see the same division."""

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in CATALOGUE:
            raise ValueError(str(unknown("data set", name, CATALOGUE)))
        return name
