"""Recipes: named ways to train, separate from the networks. Does not import torch.

A recipe gives defaults for training settings and preprocessing. Schedules are given in shares of the run, so that a recipe keeps its
shape if `--epochs` is smaller.

paper      settings of the network's own paper
released   settings of the authors' released files, with their factors for biases and the last layer
quick      warm-up and one cycle, for tens of epochs on a CPU
table      AdamW, one cycle and an average of the weights, for tables and arrays of features
"""

from dataclasses import dataclass, field, replace
from typing import Any

from highwaynet.base.errors import unknown
from highwaynet.data.names import Step
from highwaynet.networks.presets import PRESETS
from highwaynet.runs.optimisers import OPTIMISERS


@dataclass(frozen=True)
class Recipe:
    """A way to train some networks."""

    source: str
    """Source of its numbers."""
    training: dict[str, Any]
    """Values of `TrainingSpec` fields."""
    preprocessing: tuple[Step, ...] | None = None
    """Preprocessing steps for images; None means the default."""
    augmentation: dict[str, Any] = field(default_factory=dict)
    """Crop, mirror and rotate, used only if the data allow it: a mirrored digit is not a digit."""
    teacher: dict[str, Any] = field(default_factory=dict)
    """Values of `TeacherSpec` fields, for runs with a teacher."""


_NESTEROV = {"optimiser": "sgd", "momentum": 0.9, "nesterov": True, "batch_size": 100}
_RELEASED_FACTORS = {"bias_rate": 2.0, "bias_decay": 0.0, "head_decay": 10.0}
_MNIST = _NESTEROV | {
    "epochs": 300,  # 180,000 steps
    "learning_rate": 0.01,
    "weight_decay": 1e-3,
    "schedule": "multi-step",
    "milestones": (1 / 3, 2 / 3),
    "decay": 0.1,
}
_CIFAR = _NESTEROV | {
    "epochs": 400,  # 200,000 steps
    "learning_rate": 0.025,
    "weight_decay": 1e-3,
    "schedule": "multi-step",
    "milestones": (0.5, 0.75, 0.875),
    "decay": 0.1,
}
_SHIFT_8: dict[str, Any] = {"crop": 8, "mirror": True}
_SHIFT_4: dict[str, Any] = {"crop": 4, "mirror": True}


_TRIED = "ours; its peak rate is the best of a few that were tried for an epoch or two with {}"


def _quick(
    learning_rate: float,
    epochs: int,
    *,
    batch_size: int = 100,
    source: str = "ours; its peak rate is a cautious guess",
    more: dict[str, Any] | None = None,
) -> Recipe:
    return Recipe(
        source,
        _NESTEROV
        | {
            "epochs": epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "weight_decay": 5e-4,
            "bias_rate": 2.0,
            "bias_decay": 0.0,
            "schedule": "one-cycle",
            "warm_up": 0.05,
        }
        | (more or {}),
        ("standardise",),
        _SHIFT_4,
    )


_TABLE = Recipe(
    "ours; chosen by benchmarks/table_study.py",
    {
        "optimiser": "adamw",
        "momentum": 0.9,
        "batch_size": 256,
        "epochs": 100,
        "learning_rate": 0.006,
        "weight_decay": 0.5,
        "bias_decay": 0.0,
        "schedule": "one-cycle",
        "warm_up": 0.02,
        "weight_average": 0.99,
    },
)


def _dense(learning_rate: float, source: str) -> dict[str, Recipe]:
    paper = {"epochs": 400, "batch_size": 128, "learning_rate": learning_rate, "momentum": 0.9, "schedule": "exponential", "decay": 0.93}
    return {"paper": Recipe(source, paper), "table": _TABLE}


_HIGHWAY_CIFAR = {
    "paper": Recipe("paper, section 3.3; numbers from the released files", _CIFAR, ("gcn", "mean-image"), _SHIFT_8),
    "released": Recipe("released files", _CIFAR | _RELEASED_FACTORS, ("gcn", "mean-image"), _SHIFT_8),
    "quick": _quick(0.08, 15, source="ours; measured with highway-a and resnet-20"),
}
_RESNET = Recipe(
    "He et al. 2015, section 4.2",
    {
        "optimiser": "sgd",
        "momentum": 0.9,
        "batch_size": 128,
        "epochs": 164,  # 64,000 steps
        "learning_rate": 0.1,
        "weight_decay": 1e-4,
        "schedule": "multi-step",
        "milestones": (0.5, 0.75),
        "decay": 0.1,
    },
    ("scale", "mean-image"),
    _SHIFT_4,
)
_FITNET = Recipe(
    "Romero et al. 2014; numbers from the released files, without their factors and limits",
    {
        "optimiser": "rmsprop",
        "momentum": 0.0,
        "smoothing": 0.9,
        "batch_size": 128,
        "epochs": 500,
        "learning_rate": 0.005,
        "schedule": "exponential",
        "decay": 1.0,
        "patience": 100,
    },
    ("gcn", "zca"),
    _SHIFT_8,
    # The weight falls from epoch 5 to epoch 400 of at most 500.
    {"form": "fitnets", "temperature": 3.0, "weight": 4.0, "final_weight": 1.0, "weight_epochs": (0.01, 0.8), "regressor_range": 0.05},
)
_FITNET_RELEASED = replace(
    _FITNET,
    source="released files; their limit for the last layer is 1.9365",
    training=_FITNET.training | {"conv_rate": 0.05, "max_kernel_norm": 0.9, "max_unit_norm": 1.9},
)
_HINTS: dict[str, Any] = {"form": "fitnets", "weight": 4.0, "final_weight": 1.0, "hint_epochs": 1 / 3}
"""Ours: the weights of the FitNets over the whole run, and a first stage of a third of its epochs."""
_CLIPPED: dict[str, Any] = {"clip_norm": 1.0}
"""Maxout networks diverge at low rates without it."""
_ALL_CNN = Recipe(
    "Springenberg et al. 2014, section 3",
    {
        "optimiser": "sgd",
        "momentum": 0.9,
        "batch_size": 128,
        "epochs": 350,
        "learning_rate": 0.05,
        "weight_decay": 1e-3,
        "schedule": "multi-step",
        "milestones": (200 / 350, 250 / 350, 300 / 350),
        "decay": 0.1,
    },
    ("gcn", "zca"),
    {"crop": 5, "mirror": True},
)

_BY_DRAWING: dict[str, dict[str, Recipe]] = {
    "mnist": {
        "paper": Recipe("paper, section 3.2; numbers from the released files", _MNIST, ("scale",)),
        "released": Recipe("released files; pixels/255 instead of their /256", _MNIST | _RELEASED_FACTORS, ("scale",)),
        "quick": replace(_quick(0.06, 10, batch_size=50, source="ours; measured with mnist-highway-16 and -32"), augmentation={}),
    },
    "cifar": _HIGHWAY_CIFAR,
    "resnet": {"paper": _RESNET, "quick": _HIGHWAY_CIFAR["quick"]},
    "resnet-2016": {
        "paper": Recipe(
            "2016 report: classical momentum, multi-step schedule, shifts, mirroring, rotation; all numbers are guesses",
            _CIFAR | {"nesterov": False, "weight_decay": 0.0},
            ("gcn", "mean-image"),
            {"crop": 4, "mirror": True, "rotate": 10.0},
        ),
        "quick": _quick(0.03, 15),  # a higher rate is too high without batch norm
    },
    "fitnet": {
        "paper": _FITNET,
        "released": _FITNET_RELEASED,
        "quick": replace(_quick(0.03, 15, source=_TRIED.format("fitnet-a"), more=_CLIPPED), teacher=_HINTS),
    },
    "mnist-fitnet": {
        "quick": replace(_quick(0.09, 10, source=_TRIED.format("mnist-fitnet"), more=_CLIPPED), augmentation={}, teacher=_HINTS)
    },
    "mnist-maxout": {"quick": replace(_quick(0.01, 10, source=_TRIED.format("mnist-maxout")), augmentation={})},
    "teacher": {"quick": _quick(0.005, 15, source=_TRIED.format("maxout-teacher-half"))},
    "nin": {"quick": _quick(0.02, 15)},
    "all-cnn": {"paper": _ALL_CNN, "quick": _quick(0.02, 15)},
}
_SETTINGS_2021 = "paper, section 3.1 (400 epochs, exponential decay); numbers from the 2021 report"
_OWN_RATES = OPTIMISERS["sgd"].dense_rates
_DENSE: dict[str, dict[str, Recipe]] = {
    "fc-highway": _dense(0.1, _SETTINGS_2021),
    "fc-plain": _dense(_OWN_RATES["plain"], f"{_SETTINGS_2021}; learning rate from our own search"),
    "fc-residual": _dense(_OWN_RATES["residual"], f"{_SETTINGS_2021}; learning rate from our own search"),
    "fc-lstm": _dense(_OWN_RATES["lstm"], f"{_SETTINGS_2021}; learning rate from our own trials"),
}


def recipes_of(network: str, variant: str | None = None) -> dict[str, Recipe]:
    """Return the recipes for a network, by name."""
    if network in _DENSE:
        return _DENSE[network]
    preset = PRESETS[network]
    fitting = _BY_DRAWING.get(f"{preset.drawing}-{variant}", _BY_DRAWING.get(preset.drawing, {}))
    return {name: recipe for name, recipe in fitting.items() if name != "released" or "released" in preset.origins}


def usual_recipe(network: str) -> str | None:
    """Return the recipe that is used by default; None for dense networks, whose defaults are those of `TrainingSpec`."""
    return PRESETS[network].traits.usual_recipe


def find_recipe(name: str, network: str, variant: str | None = None) -> Recipe:
    """Return a recipe by name; raises ValueError, which lists those that fit, if this network does not have it."""
    fitting = recipes_of(network, variant)
    if name not in fitting:
        known = {other for recipes in (*_BY_DRAWING.values(), *_DENSE.values()) for other in recipes}
        if name not in known:
            raise ValueError(str(unknown("recipe", name, sorted(known))))
        raise ValueError(f"training.recipe = {name!r}: {network} does not have this recipe; choose {' or '.join(fitting)}")
    return fitting[name]
