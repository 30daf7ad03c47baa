"""The built-in data sets: what is known about each before it is read. Free of torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DataSetFacts:
    """What a data set holds. All of them are images to classify."""

    summary: str
    """What it is, in a sentence."""
    input_shape: tuple[int, int, int]
    """Shape of one sample: (channels, height, width)."""
    classes: int
    train: int
    """Samples for training and validation."""
    test: int
    """Samples that training never sees."""
    full_scale: int = 255
    """The input value that becomes 1.0: the brightest a pixel can be."""
    validation: float = 0.0
    """Share of the training samples kept for validation unless something else is asked for; the paper trains on everything."""
    stays: frozenset[str] = frozenset()
    """What leaves a sample in its class: crop (shifting it), mirror. Recipes augment by these alone."""


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
    "cifar-10": DataSetFacts(
        "small colour photographs of ten kinds of things", (3, 32, 32), 10, 50_000, 10_000, stays=frozenset({"crop", "mirror"})
    ),
    "cifar-100": DataSetFacts(
        "small colour photographs, 100 fine or 20 coarse classes", (3, 32, 32), 100, 50_000, 10_000, stays=frozenset({"crop", "mirror"})
    ),
}

FASHION_NAMES = ("t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
