"""What each single layer contributes (figure 4 of the paper)."""

from torch import nn

from highwaynet.analysis.records import LesionsRecord
from highwaynet.data.dataset import Split
from highwaynet.data.names import Part
from highwaynet.layers.lesion import count_layers, lesion
from highwaynet.training.evaluation import evaluate


def analyse_lesions(network: nn.Module, split: Split, *, part: Part, fingerprint: str) -> LesionsRecord:
    """Loss and accuracy of the intact network, and with each single layer closed."""
    closed = []
    for layer in range(1, count_layers(network) + 1):
        with lesion(network, [layer]):
            closed.append(evaluate(network, split))
    return LesionsRecord(fingerprint=fingerprint, part=part, intact=evaluate(network, split), closed=closed)
