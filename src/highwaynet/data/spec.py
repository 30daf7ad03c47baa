"""DataSpec: which data to load, and how to read, divide and preprocess them."""

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from highwaynet.base.errors import InputError, unknown
from highwaynet.base.files import whole_path
from highwaynet.base.specs import Mark, Spec, named, validated
from highwaynet.data.catalogue import CATALOGUE
from highwaynet.data.names import Step, Task

Pixels = Annotated[int, Field(ge=1, le=4096)]
OWN_DATA_DEFAULTS = {"validation": 0.1, "test": 0.2}
IN_MEMORY = "memory"
"""The name of data that are given in memory."""
TABLES_ALONE = ("target", "header", "ignore", "use")
IMAGES_ALONE = ("resize", "colour", "skip_bad")
OWN_DATA_ALONE = ("task", *TABLES_ALONE, *IMAGES_ALONE, "test")


def _height_and_width(size: Any) -> Any:
    """A single number stands for height and width."""
    return (size, size) if isinstance(size, int) and not isinstance(size, bool) else size


class DataSpec(Spec):
    """A built-in data set by name or the user's own by path, and its division."""

    _section: ClassVar[str] = "data."

    name: str = "digits"
    """A built-in data set (`highway data list`), or the path of your own: a folder of class folders of images, an .npz file or a folder
    of .npy files, a .csv or .parquet table. In Python also memory, if the data are given as arrays or as a data frame."""

    labels: Literal["fine", "coarse"] | None = None
    """Which labels of cifar-100: fine (100 classes, the default) or coarse (20)."""

    target: str | None = None
    """The column of a table to predict; without a header, also last."""

    task: Task | None = None
    """classification or regression; by default it follows from the targets. Only for your own data."""

    header: bool | None = None
    """Without a header (false), the first line of a .csv table is data, and its columns are named column-1, column-2, …"""

    ignore: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """Columns of a table to leave out."""

    use: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """Columns of a table to use although a rule would leave them out: as identifiers, free text, constants or copies of the target."""

    resize: Annotated[tuple[Pixels, Pixels], BeforeValidator(_height_and_width), Field(strict=False)] | None = None
    """Height and width to which the images of a folder are resized: [32, 48], with --resize 32x48; a single number, 32, means both.
    `highway train` chooses a size if they differ, or are larger than 64 pixels."""

    colour: Literal["auto", "grey", "colour"] | None = None
    """Channels of the images of a folder: auto (grey if all images are), grey or colour."""

    skip_bad: bool | None = None
    """Skip images that cannot be read and report how many, instead of stopping."""

    validation: Annotated[float, Field(ge=0, le=0.5), Mark.VARIES] = 0.1
    """Share of the training samples that is kept for validation, drawn class by class. By default 0.1 for digits and for your own data,
    and 0 for the other data sets: the paper trains on everything."""

    test: Annotated[float, Field(ge=0, le=0.5)] | None = None
    """Share of your own data that is kept for testing, if they have no test part (default 0.2); 0 trains on all of them."""

    split_seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of these draws. It is independent of the run's seed, so that runs with different seeds use the same division."""

    preprocessing: Annotated[tuple[Step, ...], Field(strict=False)] | None = None
    """Preprocessing steps, in order: scale, standardise, gcn, mean-image, zca, piecewise. By default scale for images and standardise for
    arrays of features; tables have their own rule. The recipe table uses piecewise."""

    bins: Annotated[int, Field(ge=1, le=1024)] | None = None
    """piecewise: largest number of bins of a feature (default 16)."""

    @property
    def title(self) -> str:
        """The name in figures: that of a built-in data set, or the last part of a path."""
        return self.name if self.built_in else Path(self.name).name

    @property
    def in_memory(self) -> bool:
        """Whether the data were given in memory."""
        return self.name == IN_MEMORY

    def for_memory(self, target: str | None) -> "DataSpec":
        """Return the same settings for data that are given in memory, with their target if it is given.

        Raises:
            InputError: If the settings name other data, or another target.
        """
        given = {field: getattr(self, field) for field in self.model_fields_set}
        if given.pop("name", IN_MEMORY) != IN_MEMORY:
            raise InputError(f"data.name = {self.name!r}: the data were given in memory; leave the name out, or the data")
        if target is not None and self.target not in {None, target}:
            raise InputError(f"data.target = {self.target!r}: the data were given with the target {target!r}; leave out one of them")
        return validated(DataSpec, given | {"name": IN_MEMORY, "target": target or self.target}, "data.")

    @property
    def own_path(self) -> Path | None:
        """The path of the user's own data; None if the data are built in or were given in memory."""
        return None if self.built_in or self.in_memory else Path(self.name)

    @property
    def built_in(self) -> bool:
        """Whether the name is that of a built-in data set."""
        return self.name in CATALOGUE

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        name = named(cls, values)
        if name is None:
            return values
        if "name" not in values and any(values.get(field) is not None for field in OWN_DATA_ALONE):
            name, values = IN_MEMORY, values | {"name": IN_MEMORY}  # settings that only the user's own data have
        if name not in {*CATALOGUE, IN_MEMORY} and not re.search(r"[/\\.]", name):
            raise ValueError(f"{unknown('data set', name, CATALOGUE)}, or the path of your own data (with a / or a . in it)")
        defaults: dict[str, Any] = {"validation": CATALOGUE[name].validation} if name in CATALOGUE else OWN_DATA_DEFAULTS
        defaults |= {"labels": "fine"} if name == "cifar-100" else {}
        return defaults | {key: value for key, value in values.items() if value is not None}

    @model_validator(mode="after")
    def _check(self) -> "DataSpec":
        if self.labels is not None and self.name != "cifar-100":
            raise ValueError(f"data.labels = {self.labels!r}: only cifar-100 has two kinds of labels")
        for field in OWN_DATA_ALONE:
            if self.built_in and getattr(self, field) is not None:
                raise ValueError(f"data.{field} = {getattr(self, field)!r}: this is for your own data; {self.name} is built in")
        if both := set(self.ignore or ()) & set(self.use or ()):
            raise ValueError(f"data.ignore and data.use: both name the column {min(both)!r}; choose one of them")
        if self.preprocessing is not None and len(set(self.preprocessing)) < len(self.preprocessing):
            raise ValueError(f"data.preprocessing = {list(self.preprocessing)}: each step can occur only once")
        return self


def whole_name(name: Any) -> Any:
    """A name of data, from the root on if it is the path of a file or folder; built-in names are none, even if there are such files."""
    return name if name in (*CATALOGUE, IN_MEMORY) else whole_path(name)
