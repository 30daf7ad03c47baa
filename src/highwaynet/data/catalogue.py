"""The built-in data sets: what is known before they are read. Does not import torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DataSetFacts:
    """Facts about a built-in data set. All are for image classification."""

    summary: str
    """Description in one phrase."""
    input_shape: tuple[int, int, int]
    """Shape of one sample: (channels, height, width)."""
    classes: int
    train: int
    """Number of samples for training and validation."""
    test: int
    """Number of test samples."""
    full_scale: int = 255
    """The largest possible pixel value, which `scale` maps to 1.0."""
    validation: float = 0.0
    """Default share of the training samples kept for validation; the paper trains on all of them."""
    stays: frozenset[str] = frozenset()
    """Augmentations that keep the class of a sample: crop (shifting it), mirror, rotate (by a few degrees). Recipes use only these."""


PHOTOGRAPHS = frozenset({"crop", "mirror", "rotate"})
CATALOGUE: dict[str, DataSetFacts] = {
    "digits": DataSetFacts(
        "handwritten digits of 8×8 pixels, from scikit-learn; comes with the package",
        (1, 8, 8),
        10,
        1438,
        359,
        full_scale=16,
        validation=0.1,
    ),
    "mnist": DataSetFacts("handwritten digits of 28×28 pixels", (1, 28, 28), 10, 60_000, 10_000, stays=frozenset({"crop"})),
    "fashion-mnist": DataSetFacts("pictures of clothes, in the form of MNIST", (1, 28, 28), 10, 60_000, 10_000, stays=frozenset({"crop"})),
    "cifar-10": DataSetFacts("small colour photographs of ten kinds of things", (3, 32, 32), 10, 50_000, 10_000, stays=PHOTOGRAPHS),
    "cifar-100": DataSetFacts(
        "small colour photographs, 100 fine or 20 coarse classes",
        (3, 32, 32),
        100,
        50_000,
        10_000,
        stays=PHOTOGRAPHS,
    ),
}

FASHION_NAMES = ("t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
