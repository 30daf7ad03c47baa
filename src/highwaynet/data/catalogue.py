"""The data sets that come with the package: what is known about each before it is read. Free of torch."""

from dataclasses import dataclass
from typing import Literal

Task = Literal["classification"]
Part = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Description:
    """What a data set holds."""

    summary: str
    """What it is, in a sentence."""
    task: Task
    input_shape: tuple[int, ...]
    """Shape of one sample: (channels, height, width)."""
    class_names: tuple[str, ...]
    train: int
    """Samples for training and validation."""
    test: int
    """Samples that training never sees."""
    full_scale: int
    """The input value that becomes 1.0: the brightest a pixel can be."""


CATALOGUE: dict[str, Description] = {
    "digits": Description(
        summary="handwritten digits of 8×8 pixels, from scikit-learn; comes with the package",
        task="classification",
        input_shape=(1, 8, 8),
        class_names=tuple("0123456789"),
        train=1438,
        test=359,
        full_scale=16,
    ),
}
