"""What each single layer contributes (figure 4 of the paper)."""

from collections.abc import Callable

from torch import nn

from highwaynet.analysis.records import LesionsRecord
from highwaynet.data.dataset import Split
from highwaynet.data.names import Part
from highwaynet.layers.lesion import count_layers, lesion
from highwaynet.training.evaluation import evaluate


def analyse_lesions(
    network: nn.Module, split: Split, *, part: Part, fingerprint: str, progress: Callable[[int, int], None] | None = None
) -> LesionsRecord:
    """Loss and metrics of the intact network, and with each single layer closed; `progress` is told (layers done, layers)."""
    closed = []
    layers = count_layers(network)
    for layer in range(1, layers + 1):
        with lesion(network, [layer]):
            closed.append(evaluate(network, split))
        if progress:
            progress(layer, layers)
    return LesionsRecord(fingerprint=fingerprint, part=part, intact=evaluate(network, split), closed=closed)
