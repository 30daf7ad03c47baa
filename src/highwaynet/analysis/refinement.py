"""Iterative refinement: how far each output is from the last one of its stage (Greff et al. 2017, https://arxiv.org/abs/1612.07771)."""

import math

import torch
from torch import Tensor

from highwaynet.analysis.analysis_records import Origin, RefinementRecord
from highwaynet.analysis.flow import overall_moments
from highwaynet.analysis.watching import Progress, watched
from highwaynet.data.dataset import Split
from highwaynet.layers.lesion import Closable
from highwaynet.layers.observation import ObservedLayer, Recording
from highwaynet.networks.network import Network


def analyse_refinement(network: Network, split: Split, *, origin: Origin, progress: Progress | None = None) -> RefinementRecord:
    """Measure how far the output of each layer is from the last output of its stage.

    A stage is two or more consecutive layers whose outputs have the same shape, such as the first layer and the stack of a dense network.
    A layer that does not carry its input starts a new stage if it follows one that does, because it does not refine what came before.
    Layers without a stage are omitted.

    Args:
        network: Any network.
        split: The samples.
        origin: Fields of the record that say where it comes from.
        progress: Called with (done, total) samples.

    Raises:
        ValueError: No stage has two layers, or there are no samples.
    """
    if not len(split):
        raise ValueError("there are no samples to send through the network")
    stages: list[_Stage] = []
    for seen in watched(network, split, ["output"], progress=progress):
        layers = [layer for layer in seen.layers if "output" in layer]  # companions do not run here
        stages = stages or [_Stage(places, layers[places[0]]["output"].values[0]) for places in _places(layers)]
        for stage in stages:
            stage.add([layers[place]["output"].values for place in stage.places])
    if not stages:
        raise ValueError("refinement needs a stage: no two consecutive layers have outputs of the same shape")
    table = torch.tensor([row for stage in stages for row in stage.rows()], dtype=torch.float64).T.float()
    return RefinementRecord(
        **origin.fields(len(split)),
        stages=tuple(stage.name for stage in stages),
        stage=tuple(number for number, stage in enumerate(stages) for _ in stage.places),
        bias=table[0].numpy(),
        spread=table[1].numpy(),
        error=table[2].numpy(),
    )


def _places(layers: list[ObservedLayer]) -> list[list[int]]:
    """Return the layers of each stage, numbered from 0."""
    stages: list[list[int]] = []
    for place, layer in enumerate(layers):
        if place and _goes_on(layers[place - 1], layer):
            stages[-1].append(place)
        else:
            stages.append([place])
    return [places for places in stages if len(places) > 1]


def _goes_on(before: ObservedLayer, layer: ObservedLayer) -> bool:
    same = before["output"].values.shape == layer["output"].values.shape
    return same and (isinstance(layer.module, Closable) or not isinstance(before.module, Closable))


class _Stage:
    """Accumulates the differences from the last output of a stage, batch by batch.

    Args:
        places: Indices of its layers.
        output: The output of one of them for one sample.
    """

    def __init__(self, places: list[int], output: Tensor) -> None:
        self.places = places
        maps, *size = output.shape
        self.name = f"{maps} maps of {'×'.join(map(str, size))}" if size else f"{maps} units"
        self._differences = [Recording(keep=False) for _ in places]
        self._last = Recording(keep=False)

    def add(self, outputs: list[Tensor]) -> None:
        """Add a batch, given the output of each layer."""
        last = outputs[-1].double()
        self._last.add(last, None)
        for difference, output in zip(self._differences, outputs, strict=True):
            difference.add(output.double() - last, None)

    def rows(self) -> list[tuple[float, float, float]]:
        """Return bias, spread and error of each layer; the error is NaN if the last output is 0."""
        size = _root_mean_square(self._last)
        found = []
        for difference in self._differences:
            bias, variance = overall_moments(difference)
            found.append((bias, math.sqrt(variance), _root_mean_square(difference) / size if size else math.nan))
        return found


def _root_mean_square(recording: Recording) -> float:
    mean, variance = overall_moments(recording)
    return math.sqrt(mean * mean + variance)
