"""The optimisers: default learning rates, the settings that each uses, and the texts about them. Free of torch."""

from dataclasses import dataclass, field
from typing import Literal

from highwaynet.base.text import either
from highwaynet.networks.presets import LayerKind, Preset

OptimiserName = Literal["sgd", "rmsprop", "adamw"]


@dataclass(frozen=True)
class Optimiser:
    """What a spec has to know about an optimiser; `training/optimiser.py` makes it."""

    learning_rate: float
    """The default learning rate."""
    settings: tuple[str, ...]
    """The settings that it uses, and other optimisers may not."""
    dense_rates: dict[LayerKind, float] = field(default_factory=dict)
    """Default learning rates for dense networks: what learns well at 50 layers with momentum 0.9 on the embedded data."""
    smoothing: float = 0.0
    """Default of the setting `smoothing`, if it uses that."""


OPTIMISERS: dict[OptimiserName, Optimiser] = {
    "sgd": Optimiser(0.05, ("momentum", "nesterov"), dense_rates={"highway": 0.2, "plain": 0.003, "residual": 0.003, "lstm": 0.2}),
    "rmsprop": Optimiser(0.001, ("momentum", "smoothing"), smoothing=0.99),
    "adamw": Optimiser(0.002, ("momentum", "smoothing"), smoothing=0.999),
}
USUAL_RATE = OPTIMISERS["sgd"].dense_rates["highway"]
"""Of the network that is trained if none is named."""
OPTIMISER_SETTINGS = tuple(dict.fromkeys(setting for known in OPTIMISERS.values() for setting in known.settings))


def default_rate(optimiser: object, network: Preset) -> float:
    """The learning rate for a network if neither a recipe nor the user chooses one; of sgd if the optimiser is not chosen either."""
    known = next((known for name, known in OPTIMISERS.items() if name == optimiser), OPTIMISERS["sgd"])
    return known.dense_rates.get(network.kind, known.learning_rate) if network.family == "dense" else known.learning_rate


def users(setting: str) -> list[str]:
    """The optimisers that use a setting."""
    return [name for name, known in OPTIMISERS.items() if setting in known.settings]


def _rates(known: Optimiser) -> str:
    dense = "".join(f"{rate:g} for dense {kind}, " for kind, rate in known.dense_rates.items())
    return f"{dense}{known.learning_rate:g}{' for other networks' if dense else ''}"


TEXTS = {
    "optimiser": f"{either(OPTIMISERS)}.",
    "learning_rate": "Peak learning rate. By default that of the recipe. Without a recipe, or with another optimiser than the recipe's: "
    f"{'; '.join(f'{name} {_rates(known)}' for name, known in OPTIMISERS.items())}.",
    "momentum": "Momentum; 0 is plain SGD. For adamw, beta1.",
    "nesterov": f"Use Nesterov's momentum instead of classical momentum; only for {' and '.join(users('nesterov'))}.",
    "smoothing": f"Smoothing of the mean squared gradients: alpha of rmsprop (default {OPTIMISERS['rmsprop'].smoothing}), beta2 of adamw "
    f"(default {OPTIMISERS['adamw'].smoothing}).",
    "weight_decay": "Weight decay: sgd and rmsprop add this multiple of each weight to its gradient, adamw subtracts it from the weight.",
}
"""What the settings about optimisers mean."""
