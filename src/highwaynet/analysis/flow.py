"""Signal flow: activations and gradients by layer, and sentences that name what is wrong (figures 5 to 7 of the 2021 report)."""

import copy
import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from highwaynet.analysis.analysis_records import Flow, FlowRecord, Origin
from highwaynet.analysis.watching import Progress
from highwaynet.base.arrays import Numbers
from highwaynet.base.text import percent
from highwaynet.data.dataset import Split
from highwaynet.data.record import DataRecord
from highwaynet.layers.observation import Observable, Recording, observable_modules
from highwaynet.networks.layerwise import layerwise
from highwaynet.networks.network import Network
from highwaynet.networks.spec import NetworkSpec
from highwaynet.training.objective import standard_objective

BATCH = 100
"""Samples in a batch, limited by the memory of the backward pass. Results do not depend on it."""

ROUNDING = 8
"""A unit counts as constant if its outputs deviate by at most this many machine epsilons, relative to their mean."""

FACTOR = 1e3
"""Activations (their standard deviation) and gradients that differ by more than this from those of the first layers have failed."""
ENDS = 10
"""The first layers, and the last, are one in `ENDS` of all layers, at least one layer."""
DEAD_SHARE = 0.9
"""A layer is dead if this share of its units is. In deep ReLU networks samples become alike, so half of the units is not unusual."""
SATURATED_SLOPE = 0.05
"""A layer is saturated if the mean slope of its activation is below this share of the steepest slope."""
SATURATED_LAYERS = 0.5
"""A network is saturated if more than this share of its layers is."""


def analyse_flow(
    network: Network, split: Split, *, origin: Origin, start: Network, spec: NetworkSpec, progress: Progress | None = None
) -> FlowRecord:
    """Measure the flow through a network before and after training.

    Args:
        network: The trained network.
        split: The samples.
        origin: Fields of the record that say where it comes from.
        start: The network before training.
        spec: The settings of the network.
        progress: Called with (done, total) while the analysis runs.

    Raises:
        ValueError: If there are no samples.
    """
    found = []
    for done, moment in enumerate((start, network), start=1):
        found.append(_measure(moment, split.batches(BATCH), len(split), split.preparation.record))
        if progress:
            progress(done, 2)
    (layers, before), (_, trained) = found
    return FlowRecord(
        **origin.fields(len(split)),
        kind=spec.kind,
        activation=spec.activation,
        init=spec.init,
        layers=layers,
        start=before,
        trained=trained,
    )


def measure_flow(network: Network, inputs: Tensor, targets: Tensor, record: DataRecord) -> tuple[tuple[str, ...], Flow]:
    """Measure the flow of one batch; return the names of the layers and the flow.

    A copy of the network in evaluation mode is measured; the network and its gradients do not change. Layers are in the order of
    execution: in a dense network the first layer and the stack, in a convolutional one also the last; a residual block counts as one.

    Raises:
        ValueError: There are no samples.
    """
    return _measure(network, [(inputs, targets)], len(targets), record)


class _Meter:
    """Accumulates the measurements of one layer, batch by batch, in double precision."""

    def __init__(self, module: nn.Module) -> None:
        # No biases, and no scales of batch norm, which are vectors.
        self.weights = [own for name, own in module.named_parameters() if name.split(".")[-1] == "weight" and own.dim() > 1]
        self.outputs = Recording(keep=False)
        self.rounding = ROUNDING * torch.finfo(self.weights[0].dtype).eps
        self._gradients = [torch.zeros_like(own, dtype=torch.float64) for own in self.weights]
        self._signal_squares = 0.0

    def add_gradients(self, signal: Tensor, weights: Iterable[Tensor], share: float) -> None:
        """Add the gradients of the mean loss of a batch, which has this share of all samples."""
        self._signal_squares += share**2 * signal.double().square().sum().item()
        self._gradients = [total + share * own.double() for total, own in zip(self._gradients, weights, strict=True)]

    def numbers(self) -> tuple[float, ...]:
        """Return mean, variance, share of dead units, and norm of the gradients of weights and outputs."""
        mean, variance = overall_moments(self.outputs)
        squares = sum(own.square().sum().item() for own in self._gradients)
        return mean, variance, self._dead_share(), math.sqrt(squares), math.sqrt(self._signal_squares)

    def _dead_share(self) -> float:
        """Return the share of units with the same output for all samples; NaN for a single sample, or if outputs are not finite."""
        mean, variance = self.outputs.mean, self.outputs.variance
        if self.outputs.count < 2 or not variance.isfinite().all():
            return math.nan
        return (variance <= (self.rounding * mean).square()).double().mean().item()


def overall_moments(recording: Recording) -> tuple[float, float]:
    """Return mean and variance over all units and samples together."""
    mean, variance = recording.mean, recording.variance
    return mean.mean().item(), (variance.mean() + mean.var(correction=0)).item()


def _measure(network: Network, batches: Iterable[tuple[Tensor, Tensor]], samples: int, record: DataRecord) -> tuple[tuple[str, ...], Flow]:
    if not samples:
        raise ValueError("there are no samples to send through the network")
    pieces = [piece.module.requires_grad_() for piece in layerwise(_bare_copy(network))]  # layers of a stack do not require gradients
    meters = [_Meter(piece) if observable_modules(piece) else None for piece in pieces]
    weights, loss = next(network.parameters()), 0.0
    for inputs, targets in batches:
        share = len(targets) / samples
        loss += share * _add_batch(pieces, meters, inputs.detach().to(weights), targets.to(weights.device), record, share)
    table = torch.tensor([meter.numbers() for meter in meters if meter], dtype=torch.float64).T
    # values that are too large for float32 become infinity; torch, unlike numpy, does not warn
    columns = dict(zip(("mean", "variance", "dead", "gradient", "signal_gradient"), table.float().numpy(), strict=True))
    flow = Flow(**columns, loss=loss if math.isfinite(loss) else None, findings=())
    layers = [layer for piece in pieces for _, layer in observable_modules(piece)]
    names = tuple(f"layer {number} ({type(layer).__name__})" for number, layer in enumerate(layers, start=1))
    return names, flow.model_copy(update={"findings": name_failures(flow, *_usual(layers))})


def _bare_copy(network: Network) -> Network:
    """Return a copy in evaluation mode without observers."""
    bare = copy.deepcopy(network).eval()
    for _, module in observable_modules(bare):
        module.observer = None
    return bare


def _add_batch(pieces: list[nn.Module], meters: list[_Meter | None], x: Tensor, targets: Tensor, record: DataRecord, share: float) -> float:
    """Measure one batch and return its mean loss."""
    seen: list[tuple[_Meter, Tensor]] = []
    with torch.enable_grad():
        for piece, meter in zip(pieces, meters, strict=True):
            x = piece(x)
            if meter:
                meter.outputs.add(x, None, axis=1)  # the axis of units, or of maps
                seen.append((meter, x))
        loss = standard_objective(record.task).measure(x, targets)
        asked = [tensor for meter, output in seen for tensor in (output, *meter.weights)]
        gradients = iter(torch.autograd.grad(loss, asked, materialize_grads=True))  # zeros for a layer that is closed
    for meter, _ in seen:
        meter.add_gradients(next(gradients), [next(gradients) for _ in meter.weights], share)
    return loss.item()


def _usual(layers: list[Observable]) -> tuple[str, str]:
    """Return the most frequent activation and kind of layer."""

    def of(layer: Observable) -> tuple[str, str]:
        kind = type(layer).__name__.removeprefix("Dense").removeprefix("Conv").lower()
        activation: str = getattr(layer, "activation", "relu" if kind == "residual" else "identity")
        return activation, kind

    return Counter(map(of, layers)).most_common(1)[0][0]


def name_failures(flow: Flow, activation: str, kind: str) -> tuple[str, ...]:
    """Return a sentence for each failure of a flow, by the thresholds of this module; empty if the flow is healthy.

    Args:
        flow: The measurements.
        activation: The activation of most layers.
        kind: What most layers are: highway, plain, residual or maxout.
    """
    if broken := _not_finite(flow):
        return (broken,)
    found = (_faded(flow, activation), _grown(flow, kind), _gradient_failure(flow), _saturated(flow, activation, kind))
    return tuple(sentence for sentence in found if sentence)


def _not_finite(flow: Flow) -> str | None:
    forward = np.flatnonzero(~np.isfinite(flow.mean) | ~np.isfinite(flow.variance))
    backward = np.flatnonzero(~np.isfinite(flow.gradient) | ~np.isfinite(flow.signal_gradient))
    beyond = "larger than float32 can hold, or no number any more"
    if len(forward):
        return f"Exploding activations: from layer {forward[0] + 1} on their size is {beyond}."
    if flow.loss is None:
        return f"The loss is {beyond}, although the outputs of all layers are finite."
    if len(backward):
        return f"Exploding gradient: from layer {backward[-1] + 1} down its length is {beyond}."
    return None


def _faded(flow: Flow, activation: str) -> str | None:
    # Each layer sees only the outputs of the one before. A signal that has shrunk is lost, even if biases make later outputs large again.
    deviation, count = np.sqrt(flow.variance), len(flow.variance)
    first, _ = _ends(deviation)
    shrunk, alive = np.flatnonzero(deviation < first / FACTOR), np.flatnonzero(~(flow.dead >= DEAD_SHARE))
    same = alive[-1] + 1 if len(alive) else 0  # the layers from here to the last are dead
    facts = []
    if len(shrunk):
        least, lowest = deviation.argmin(), deviation.min()
        facts.append(
            f"the standard deviation of the outputs falls from {first:.2g} in {_first(count)} to {lowest:.2g} in layer {least + 1}"
        )
    if same < count:
        facts.append(f"{percent(flow.dead[-1])} of the units of layer {count} give the same number for every sample")
    if not facts:
        return None
    name, begin = "Dead ReLU" if activation == "relu" else "Lost signal", min([*shrunk[:1], same])
    return f"{name}: from layer {begin + 1} on the signal is gone; {', and '.join(facts)}."


def _grown(flow: Flow, kind: str) -> str | None:
    first, last = _ends(np.sqrt(flow.variance))
    if not 0 < first * FACTOR < last:
        return None
    count = len(flow.variance)
    why = "; every layer adds to what it carries, and nothing takes away" if kind == "residual" else ""
    return (
        f"Exploding activations: their standard deviation grows from {first:.2g} in {_first(count)} to {last:.2g} in {_last(count)}{why}."
    )


def _gradient_failure(flow: Flow) -> str | None:
    first, last = _ends(flow.gradient)
    name = "Vanishing" if first * FACTOR < last else "Exploding" if first > last * FACTOR > 0 else None
    if name is None:
        return None
    count = len(flow.gradient)
    return f"{name} gradient: that of the weights has a length of {last:.2g} in {_last(count)} and of {first:.2g} in {_first(count)}."


def _saturated(flow: Flow, activation: str, kind: str) -> str | None:
    # The mean slope follows from the outputs: tanh' = 1 − y² and sigmoid' = y − y². For gated layers the output is not the activation.
    squares = flow.variance.astype(np.float64) + flow.mean.astype(np.float64) ** 2
    slopes = {"tanh": 1 - squares, "sigmoid": 4 * (flow.mean - squares)}.get(activation)  # of the steepest slope
    if kind != "plain" or slopes is None:
        return None
    flat = np.flatnonzero(slopes < SATURATED_SLOPE)
    if len(flat) <= SATURATED_LAYERS * len(slopes):
        return None
    return (
        f"Saturated units: in {len(flat)} of {len(slopes)} layers the mean slope of {activation} is below {percent(SATURATED_SLOPE)} of "
        f"the steepest; the flattest is layer {slopes.argmin() + 1} with {percent(max(0.0, slopes.min()))}."
    )


def _end(count: int) -> int:
    """Return how many layers count as the first, and as the last."""
    return max(1, count // ENDS)


def _ends(values: Numbers) -> tuple[float, float]:
    """Return the median over the first layers, and over the last."""
    end = _end(len(values))
    return float(np.median(values[:end])), float(np.median(values[-end:]))


def _first(count: int) -> str:
    return "layer 1" if (end := _end(count)) == 1 else f"layers 1 to {end}"


def _last(count: int) -> str:
    return f"layer {count}" if (end := _end(count)) == 1 else f"layers {count - end + 1} to {count}"
