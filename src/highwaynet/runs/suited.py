"""Defaults that suit the user's own data: network, size of images, augmentation, budget and early stopping. Does not import torch.

Only settings that the user left out are filled in. The rules were chosen by `benchmarks/first_try.py`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from highwaynet.base.errors import InputError
from highwaynet.base.text import with_count
from highwaynet.data.glance import Glance, glance
from highwaynet.data.names import Kind, Step
from highwaynet.data.spec import DataSpec
from highwaynet.networks.presets import PRESETS
from highwaynet.runs.training_spec import TrainingSpec

LARGEST = 64
"""Images that are larger, or differ in size, are resized: to 64×64, or to 32×32 if they are smaller than 64×64."""
IMAGE_NETWORKS = {48: "highway-a", 96: "highway-64"}
"""The network by the longer side of the images, up to this many pixels."""
LARGE_IMAGES = "highway-128"
PRESENTED = 100_000
"""About this many images are shown to a network in training, with several epochs of small sets."""
EPOCHS = (15, 100)
"""Fewest and most epochs for images."""
FEW = 3_000
"""With fewer images, a convolutional network gets dropout and label smoothing."""
SMOOTHING = 0.1
FEWER_LAYERS = {"highway-a": "highway-a-8"}
FEWEST = 400
"""With fewer images than this, a network with fewer layers is chosen if there is one; from `benchmarks/few_images.py`."""
TABLE = "table"
"""The recipe for tables and arrays of features; the numbers below were chosen by `benchmarks/table_study.py`."""
TABLE_NETWORK: dict[str, Any] = {"depth": 4, "width": 64, "activation": "relu"}
TABLE_EPOCHS = (20, 40)
"""Fewest and most epochs for tables."""
TABLE_STEPS = 2_000
"""About this many steps for tables, if the bounds of epochs allow it."""
BINS, ROWS_OF_A_BIN = (8, 48), 100
"""Fewest and most bins of a number; between them one for each hundred rows."""
AVERAGED = 0.05
"""Weights are averaged over about this share of the steps, at most over 100 steps."""
BATCHES = (64, 256)
"""Smallest and largest batch for tables."""
SMALL = 100
"""Fewer rows are trained by another rule: all in each step, in float64, without dropout and validation part, so that the result does not
depend on the order of the rows, and a row with weight 2 counts like two rows."""
SMALL_TRAINING: dict[str, Any] = {"batch_size": SMALL, "epochs": 200, "weight_average": 0.9, "precision": "float64", "patience": None}
SCALED: dict[Kind, tuple[Step, ...]] = {"features": ("standardise",), "table": ()}
"""Preprocessing of small tables; that of others adds bins. The encoder of a table standardises its numbers."""
PATIENCE = 10
ORIENTED = frozenset({"left", "right", "l", "r"})
"""Classes with such names, and single characters, are not mirrored."""

Sections = dict[str, dict[str, Any]]


def suited_values(values: Mapping[str, Any], seen: Glance) -> tuple[dict[str, Any], list[str]]:
    """Fill in the settings that the user left out.

    Args:
        values: Sections with the settings that the user chose.
        seen: What is known about the data.

    Returns:
        The sections with more settings, and sentences that say what was chosen and how to choose otherwise.
    """
    given: Sections = {name: {key: value for key, value in (values.get(name) or {}).items() if value is not None} for name in SECTIONS}
    chosen, notes = (_for_images if seen.kind == "images" else _for_rows)(given, seen)
    has_validation = (chosen["data"] | given["data"]).get("validation", DataSpec(name="memory").validation) > 0
    if has_validation and "patience" not in given["training"] and "patience" not in chosen["training"]:
        chosen["training"]["patience"] = PATIENCE
        notes.append(f"stops after {PATIENCE} epochs without a lower validation loss (--patience); the best epoch counts")
    return dict(values) | {name: chosen[name] | given[name] for name in SECTIONS if chosen[name] | given[name]}, notes


SECTIONS = ("network", "data", "training")


def suited_to_data(values: dict[str, Any], data: Any = None, tell: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Fill in settings that suit the user's own data; values that name a built-in set, or cannot be read, are returned unchanged.

    Args:
        values: Sections with the settings that the user chose.
        data: The data, if they are in memory.
        tell: Called with sentences that say what was chosen, and why.
    """
    section = values.get("data")
    if not isinstance(section, dict | None) or any(not isinstance(values.get(name, {}), dict) for name in SECTIONS):
        return values  # validation reports it
    try:
        spec = DataSpec(**(section or {}))
    except InputError:
        return values  # likewise
    seen = None if spec.built_in else glance(spec, data)
    if seen is None:
        return values
    filled, notes = suited_values(values, seen)
    for note in notes:
        tell(note)
    return filled


def _for_images(given: Sections, seen: Glance) -> tuple[Sections, list[str]]:
    chosen: Sections = {name: {} for name in SECTIONS}
    notes: list[str] = []
    height, width = seen.size or (1, 1)
    if "resize" not in given["data"] and (not seen.alike or max(height, width) > LARGEST) and seen.from_files:
        side = LARGEST if min(height, width) >= LARGEST else 32
        what = f"images of {height}×{width}" if seen.alike else f"images of different sizes (median {height}×{width})"
        notes.append(f"{what} are resized to {side}×{side}; choose another size with --resize")
        height = width = side
        chosen["data"]["resize"] = (side, side)
    is_dense = bool({"depth", "width"} & set(given["network"])) or str(given["network"].get("name", "")).startswith("fc-")
    if "name" not in given["network"] and not is_dense:
        longer = max(height, width)
        name = next((name for most, name in IMAGE_NETWORKS.items() if longer <= most), LARGE_IMAGES)
        why = f"a convolutional highway network for images of about {height}×{width}"
        if seen.samples < FEWEST and name in FEWER_LAYERS:
            name, why = FEWER_LAYERS[name], f"{why}, with {PRESETS[FEWER_LAYERS[name]].layers} layers because there are few"
        chosen["network"] = {"name": name}
        notes.append(f"network {name}: {why}; choose another with --network")
    training = given["training"]
    if not is_dense and "recipe" not in training:
        if "epochs" not in training:
            chosen["training"]["epochs"] = max(EPOCHS[0], min(EPOCHS[1], round(PRESENTED / max(1, seen.samples))))
            notes.append(f"{chosen['training']['epochs']} epochs for {seen.samples:,} images (--epochs)")
        chosen["training"]["patience"] = None  # most is learned at the end of a cycle, when the learning rate is low
        notes += _augmentation(chosen["training"], training, seen, min(height, width))
        notes += _regularisation(chosen, given, seen)
    return chosen, notes


def _regularisation(chosen: Sections, given: Sections, seen: Glance) -> list[str]:
    """Choose dropout and label smoothing for few images of classes, if the user chose neither them nor the network."""
    if not chosen["network"] or seen.samples >= FEW or not seen.classes:
        return []
    if "dropout" in given["network"] or "label_smoothing" in given["training"]:
        return []
    stages = len(PRESETS[chosen["network"]["name"]].channels)
    chosen["network"]["dropout"] = (0.0, *(0.1,) * (stages - 1), 0.3)
    chosen["training"]["label_smoothing"] = SMOOTHING
    return ["dropout and label smoothing, because there are few images (--set network.dropout=..., training.label_smoothing=...)"]


def _augmentation(chosen: dict[str, Any], given: Mapping[str, Any], seen: Glance, side: int) -> list[str]:
    """Choose shifts and mirroring if the user chose no augmentation; return a sentence about it."""
    if {"crop", "mirror", "rotate"} & set(given):
        return []
    chosen["crop"] = side // 8
    chosen["mirror"] = not seen.grey and not _has_direction(seen.classes)
    if not chosen["crop"] and not chosen["mirror"]:
        return []
    shifts = f"shifts of up to {chosen['crop']} pixel{'' if chosen['crop'] == 1 else 's'}"
    if chosen["mirror"]:
        return [f"augmentation: {shifts} and mirroring; if a mirrored image is wrong for your classes, --set training.mirror=false"]
    why = "grey images may be characters" if seen.grey else "the names of the classes are directions or characters"
    return [f"augmentation: {shifts}, no mirroring, because {why} (--set training.mirror=true)"]


def _has_direction(classes: tuple[str, ...]) -> bool:
    return any(name.lower() in ORIENTED for name in classes) or all(len(name) == 1 for name in classes)


def _for_rows(given: Sections, seen: Glance) -> tuple[Sections, list[str]]:
    """Choose the recipe `table` for tables and arrays of features, with a network and a budget that suit the number of rows."""
    chosen: Sections = {name: {} for name in SECTIONS}
    network, training = given["network"], given["training"]
    if training.get("recipe") not in {None, TABLE} or not str(network.get("name", "fc-")).startswith("fc-"):
        return chosen, []
    try:
        TrainingSpec(**{name: training[name] for name in ("epochs", "batch_size") if name in training})
    except InputError:
        return chosen, []  # validation reports it
    chosen["training"]["recipe"] = TABLE
    depth, width = (network.get(name, TABLE_NETWORK[name]) for name in ("depth", "width"))
    chosen["network"] |= TABLE_NETWORK
    if seen.samples < SMALL:
        chosen["training"] |= SMALL_TRAINING
        chosen["data"] |= {"validation": 0.0, "preprocessing": SCALED[seen.kind]}
        why = "all training rows in each step, in float64, without a validation part"
    else:
        left = 1 - given["data"].get("test", 0.2)
        rows = round(seen.samples * left * (1 - given["data"].get("validation", 0.1)))
        if "preprocessing" not in given["data"]:
            chosen["data"] |= {
                "preprocessing": (*SCALED[seen.kind], "piecewise"),
                "bins": max(BINS[0], min(BINS[1], rows // ROWS_OF_A_BIN)),
            }
        batch = training.get("batch_size") or _batch_size(rows)
        epochs = max(TABLE_EPOCHS[0], min(TABLE_EPOCHS[1], math.ceil(TABLE_STEPS * batch / max(1, rows))))
        chosen["training"] |= {"batch_size": batch, "epochs": epochs}
        steps = training.get("epochs", epochs) * math.ceil(max(1, rows) / batch)
        chosen["training"]["weight_average"] = round(1 - 1 / max(2.0, min(AVERAGED * steps, 100.0)), 4)
        why = f"{batch} rows in a step, {with_count(training.get('epochs', epochs), 'epoch')} at most (--epochs)"
    return chosen, [f"recipe {TABLE}: fc-highway with {depth} layers of {width} units (--depth, --width), {why}"]


def _batch_size(rows: int) -> int:
    """Return a power of two, so that an epoch has about 60 steps if the bounds allow it."""
    return max(BATCHES[0], min(BATCHES[1], 1 << max(0, round(math.log2(max(1, rows / 60))))))
