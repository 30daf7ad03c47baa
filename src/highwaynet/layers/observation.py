"""Recording what layers compute, in any model that contains layers of this package.

Observation is a protocol, not a hook: hooks cannot see inside a stack that is one module. Every module of this package has an `observer`,
usually None, and calls it with what each of its layers computed. `observe` sets the observer and removes it again.
"""

from collections.abc import Callable, Collection, ItemsView, Iterator, KeysView, Sequence, ValuesView
from contextlib import contextmanager
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor, nn

from highwaynet.layers.lesion import closable_modules

Quantity = Literal["transform", "carry", "state", "output"]
"""Transform gates T, carry gates C (1 − T if they are coupled), block states H, block outputs y."""

QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)


class Observer(Protocol):
    """A callable that receives what one layer of a module computed."""

    def __call__(
        self,
        number: int,
        *,
        output: Tensor,
        state: Tensor,
        transform: Tensor | None = None,
        carry: Tensor | None = None,
        axis: int = -1,
        real: Tensor | None = None,
    ) -> None:
        """`number` counts from 1 within the module; `axis` is that of the blocks or maps; `carry` is None if the gates are coupled.

        `real` (samples, places) is False where sequences of a padded batch have ended; such places are not counted.
        """


@runtime_checkable
class Observable(Protocol):
    """A module that calls its observer with what each of its layers computes."""

    observer: Observer | None

    @property
    def num_layers(self) -> int:
        """Number of layers of this module."""
        ...


class Recording:
    """What was recorded of one quantity of one layer: moments in double precision (streaming), or the values, from which they follow.

    Each pixel of a map counts as a sample.
    """

    def __init__(self, *, keep: bool) -> None:
        self._kept: list[tuple[Tensor, Tensor | None, int, Tensor | None]] | None = [] if keep else None
        self._count = 0
        self._mean = self._squares = torch.zeros(0, dtype=torch.float64)
        self._class_sums = torch.zeros(0, 0, dtype=torch.float64)
        self._class_counts = torch.zeros(0, dtype=torch.float64)

    def add(self, values: Tensor, labels: Tensor | None, axis: int = -1, real: Tensor | None = None) -> None:
        """Add a batch, whose first axis is the samples and `axis` the blocks or maps; a tensor with one axis is one sample.

        Places (samples, places) where `real` is False are kept as values, but not counted.
        """
        values = values.detach().cpu()
        values = values[None] if values.dim() == 1 else values
        if self._kept is not None:
            self._kept.append((values.clone(), labels, axis, real))
        elif values.numel():
            rows = by_place(values, axis).double()
            if real is not None:  # each place becomes a sample
                labels = None if labels is None else labels.cpu().repeat_interleave(real.sum(dim=1))
                rows = rows[real][:, None]
            self._count_rows(rows, labels)

    def _count_rows(self, rows: Tensor, labels: Tensor | None) -> None:
        batch, places, width = rows.shape
        count = batch * places
        if not self._count:
            self._mean, self._squares = rows.new_zeros(width), rows.new_zeros(width)
        mean = rows.mean(dim=(0, 1))
        squares = (rows - mean).square().sum(dim=(0, 1))
        # Chan, Golub and LeVeque's update for combining two parts
        total = self._count + count
        step = mean - self._mean
        self._squares = self._squares + squares + step.square() * (self._count * count / total)
        self._mean = self._mean + step * (count / total)
        self._count = total
        if labels is not None:
            self._count_classes(rows.sum(dim=1), places, labels.cpu())

    def _count_classes(self, sums: Tensor, places: int, labels: Tensor) -> None:
        missing = int(labels.max()) + 1 - len(self._class_counts)
        if missing > 0:
            self._class_sums = torch.cat([self._class_sums.reshape(-1, sums.shape[1]), sums.new_zeros(missing, sums.shape[1])])
            self._class_counts = torch.cat([self._class_counts, sums.new_zeros(missing)])
        self._class_sums.index_add_(0, labels, sums)
        self._class_counts.index_add_(0, labels, torch.full((len(labels),), float(places), dtype=torch.float64))

    def _moments(self) -> "Recording":
        """Return the recording with moments: this one, or a new one made from the values."""
        if self._kept is None:
            return self
        counted = Recording(keep=False)
        for values, labels, axis, real in self._kept:
            counted.add(values, labels, axis, real)
        return counted

    @property
    def count(self) -> int:
        """Number of recorded samples; each pixel of a map counts."""
        return self._moments()._count

    @property
    def mean(self) -> Tensor:
        """The mean of each block or map, (width)."""
        return self._moments()._mean

    @property
    def variance(self) -> Tensor:
        """The variance of each block or map over the samples, (width)."""
        moments = self._moments()
        return moments._squares / max(moments._count, 1)

    @property
    def class_mean(self) -> Tensor:
        """The mean of each class, (classes, width), NaN for a class without samples; needs `Observation.labels`."""
        moments = self._moments()
        return moments._class_sums / moments._class_counts[:, None]

    @property
    def class_count(self) -> Tensor:
        """Number of recorded samples of each class, (classes); each pixel of a map counts."""
        return self._moments()._class_counts

    @property
    def values(self) -> Tensor:
        """All recorded values, (samples, ..., width) or (samples, maps, height, width); raises ValueError in streaming mode."""
        if self._kept is None:
            raise ValueError("values are not kept in streaming mode: leave out streaming=True, or use mean, variance and class_mean")
        batches = [values for values, *_ in self._kept]
        if len({values.shape[1:] for values in batches}) > 1:
            raise ValueError("the batches had different shapes and cannot be concatenated: use mean, variance and class_mean")
        return torch.cat(batches) if batches else torch.empty(0)


def by_place(values: Tensor, axis: int) -> Tensor:
    """Reshape to (samples, places, width): `axis` last, and all other axes, such as pixels, flattened to one."""
    ordered = values.movedim(axis, -1)
    return ordered.reshape(len(ordered), -1, ordered.shape[-1])


class ObservedLayer:
    """A layer and what was recorded of it, by quantity, as in a dictionary: ``layer["transform"].mean``, ``for quantity in layer``.

    Args:
        name: Name of its module in the model, with its number there if the module has several layers.
        module: The module that contains it.
        number: The number by which `lesion` closes it; None if it cannot be closed.
        keep: Whether values are kept.
    """

    def __init__(self, name: str, module: nn.Module, number: int | None, *, keep: bool) -> None:
        self.name, self.module, self.number = name, module, number
        self._keep = keep
        self._recordings: dict[Quantity, Recording] = {}

    def add(self, quantity: Quantity, values: Tensor, labels: Tensor | None, axis: int, real: Tensor | None = None) -> None:
        """Add the values of a batch; see `Recording.add`."""
        self._recordings.setdefault(quantity, Recording(keep=self._keep)).add(values, labels, axis, real)

    def __contains__(self, quantity: object) -> bool:
        return quantity in self._recordings

    def __iter__(self) -> Iterator[Quantity]:
        return iter(self._recordings)

    def keys(self) -> KeysView[Quantity]:
        """The recorded quantities."""
        return self._recordings.keys()

    def values(self) -> ValuesView[Recording]:
        """What was recorded of each quantity."""
        return self._recordings.values()

    def items(self) -> ItemsView[Quantity, Recording]:
        """The recorded quantities, each with what was recorded of it."""
        return self._recordings.items()

    def __getitem__(self, quantity: Quantity) -> Recording:
        if quantity not in self._recordings:
            seen = ", ".join(self._recordings) or "nothing"
            raise KeyError(f"{self.name}: {quantity} was not recorded; recorded: {seen}")
        return self._recordings[quantity]

    def __repr__(self) -> str:
        return f"ObservedLayer({self.name!r}: {', '.join(self._recordings) or 'nothing recorded'})"


class Observation:
    """What was recorded in a model: `layers`, in the order in which their modules were registered."""

    def __init__(self, layers: list[ObservedLayer]) -> None:
        self.layers = layers
        self._labels: Tensor | None = None

    @property
    def labels(self) -> Tensor | None:
        """The class numbers of the next batch; set them before each call of the model to get means by class."""
        return self._labels

    @labels.setter
    def labels(self, labels: Tensor | Sequence[int] | None) -> None:
        labels = None if labels is None else torch.as_tensor(labels)
        if labels is not None and (labels.dim() != 1 or labels.is_floating_point() or (labels.numel() and labels.min() < 0)):
            raise ValueError("labels: give the class numbers of a batch, integers from 0 in one axis")
        self._labels = None if labels is None else labels.long()

    def __iter__(self) -> Iterator[ObservedLayer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def gated(self) -> list[ObservedLayer]:
        """The layers whose transform gates were recorded."""
        return [layer for layer in self.layers if "transform" in layer]


@contextmanager
def observe(
    model: nn.Module,
    quantities: Collection[Quantity] = QUANTITIES,
    *,
    streaming: bool = False,
    reduce: Callable[[Tensor], Tensor] | None = None,
) -> Iterator[Observation]:
    """Record what the layers of this package compute in a model, until the end of the `with` block; the model is not changed.

    Args:
        model: Anything that contains layers of this package, or is one.
        quantities: Which of transform, carry, state and output to record.
        streaming: Keep moments only, not values, so that any number of samples fits into memory.
        reduce: Applied to the values of each batch, of shape (samples, places, width), before they are recorded; returns
            (samples, ..., width). Places are the pixels of a map, or any other axes between samples and blocks.

    Raises:
        ValueError: If the model contains no layer of this package, or a quantity does not exist.

    To get means by class, ``layer["transform"].class_mean``, set ``seen.labels = targets`` before each call of the model.

    >>> from highwaynet import DenseHighway
    >>> model = nn.Sequential(nn.Linear(3, 4), DenseHighway(4, layers=2))
    >>> with observe(model) as seen:
    ...     y = model(torch.zeros(5, 3))
    >>> [layer.name for layer in seen.layers]
    ['1, layer 1', '1, layer 2']
    >>> seen.layers[0]["transform"].values.shape
    torch.Size([5, 4])
    """
    wanted = frozenset(quantities)
    if unknown := sorted(wanted - set(QUANTITIES)):
        raise ValueError(f"quantities = {unknown}: choose from {', '.join(QUANTITIES)}")
    modules = observable_modules(model)
    if not modules:
        raise ValueError(f"{type(model).__name__} contains no layer that can be observed")
    seen = Observation([])
    numbers = _lesion_numbers(model)
    before = [module.observer for _, module in modules]
    mine: list[_Watch] = []
    try:
        for name, module in modules:
            layers = []
            for number in range(1, module.num_layers + 1):
                place = (f"{name}, layer {number}" if name else f"layer {number}") if module.num_layers > 1 else name or "layer 1"
                first = numbers.get(id(module))
                layers.append(ObservedLayer(place, module, first and first + number - 1, keep=not streaming))  # type: ignore[arg-type]
            seen.layers += layers
            mine.append(_Watch(seen, layers, wanted, reduce, module.observer))
            module.observer = mine[-1]
        yield seen
    finally:
        for watch in mine:
            watch.active = False
        for (_, module), observer in zip(modules, before, strict=True):
            module.observer = observer


def _lesion_numbers(model: nn.Module) -> dict[int, int]:
    """Map the id of each closable module to the number that `lesion` gives to its first layer."""
    numbers, first = {}, 1
    for module in closable_modules(model):
        numbers[id(module)] = first
        first += module.num_layers
    return numbers


def observable_modules(model: nn.Module) -> list[tuple[str, Observable]]:
    """Return the outermost modules that can be observed, with their names, in the order in which they were registered."""
    found: list[tuple[str, Observable]] = []
    for name, module in model.named_modules():
        # Skip the wrapper of torch.compile, which has the attributes of the module inside it, and layers inside an observed layer.
        is_wrapper = isinstance(getattr(module, "_orig_mod", None), nn.Module)
        if isinstance(module, Observable) and not is_wrapper and not any(not outer or name.startswith(f"{outer}.") for outer, _ in found):
            found.append((name, module))
    return found


class _Watch:
    """The observer of one module. Copies of the module get None, and nothing is recorded after the end or in a backward pass."""

    def __init__(
        self,
        seen: Observation,
        layers: list[ObservedLayer],
        wanted: frozenset[Quantity],
        reduce: Callable[[Tensor], Tensor] | None,
        outer: Observer | None,
    ) -> None:
        self._seen, self._layers, self._wanted, self._reduce, self._outer = seen, layers, wanted, reduce, outer
        self.active = True

    def __deepcopy__(self, memo: dict[int, object]) -> None:
        return None

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    def __call__(
        self,
        number: int,
        *,
        output: Tensor,
        state: Tensor,
        transform: Tensor | None = None,
        carry: Tensor | None = None,
        axis: int = -1,
        real: Tensor | None = None,
    ) -> None:
        if self._outer is not None:  # an enclosing `observe` keeps recording
            self._outer(number, output=output, state=state, transform=transform, carry=carry, axis=axis, real=real)
        if not self.active or torch._C._current_graph_task_id() != -1:  # recomputed activations were already recorded
            return
        labels = self._seen.labels
        if labels is not None and len(labels) != len(output):
            raise ValueError(f"{len(labels)} labels were set for a batch of {len(output)} samples: set them before each call of the model")
        layer = self._layers[number - 1]
        if carry is None and transform is not None:
            carry = torch.ones_like(transform) - transform
        for quantity, values in (("transform", transform), ("carry", carry), ("state", state), ("output", output)):
            if values is None or quantity not in self._wanted:
                continue
            if self._reduce is None or not values.numel():
                layer.add(quantity, values, labels, axis, real)
            else:
                batch = values[None] if values.dim() == 1 else values
                reduced = self._reduce(by_place(batch.detach(), axis))
                layer.add(quantity, reduced, labels, -1, real if reduced.dim() == 3 else None)
