"""Closed and exchanged layers: by hand, against rebuilt networks, and against the obvious loop over `lesion` and `evaluate`."""

import copy
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from highwaynet import ConvHighway, ConvPlain, DenseHighway, DensePlain, Highway, NetworkSpec, build_network, lesion
from highwaynet.analysis import closing
from highwaynet.analysis.analysis_records import Origin
from highwaynet.analysis.closing import Route, exchangeable, score_routes
from highwaynet.analysis.lesions import analyse_deletions, analyse_lesions, analyse_pairs, kendall_tau
from highwaynet.data.dataset import Split
from highwaynet.data.preparation import Preparation
from highwaynet.data.record import DataRecord
from highwaynet.layers import conv_highway
from highwaynet.layers.lesion import closable_modules, count_layers
from highwaynet.layers.observation import observe
from highwaynet.networks.convolutional import CompanionHead, ConvNetwork, GlobalAverage
from highwaynet.networks.dense import DenseNetwork
from highwaynet.networks.plan import Companion, Conv, Dense, GlobalPool, HighwayConv, Plan
from highwaynet.runs.run_records import Score
from highwaynet.training.evaluation import evaluate

ANALYSES: list[Callable[..., object]] = [analyse_lesions, analyse_pairs, analyse_deletions]


def split_of(inputs: Tensor, targets: Tensor, classes: int) -> Split:
    """A split with so many classes, or with a number to predict where there are 0."""
    record = DataRecord(
        found="samples",
        kind="images" if inputs.dim() == 4 else "features",
        task="classification" if classes else "regression",
        input_shape=tuple(inputs.shape[1:]),
        class_names=tuple(map(str, range(classes))),
        target_std=3.0,
        train=len(inputs),
        validation=0,
        test=0,
    )
    return Split(inputs, targets, torch.arange(len(inputs)), Preparation.restore(record, {}))


def random_split(shape: tuple[int, ...], samples: int = 300, classes: int = 3) -> Split:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples, *shape, generator=generator)
    targets = torch.randint(classes, (samples,), generator=generator) if classes else torch.randn(samples, generator=generator)
    return split_of(inputs, targets, classes)


def built(name: str, shape: tuple[int, ...] = (5,), outputs: int = 3, **settings: object) -> nn.Module:
    """A network of a preset whose layers all matter."""
    network = build_network(NetworkSpec(name=name, **settings), shape, outputs, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)), alpha=0.1)
    return network.eval()


class Own(nn.Module):
    """A user's model: layers of ours beside others, and not in the order of their registration alone."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.entry, self.head = nn.Linear(5, 6), nn.Linear(6, 3)
        self.stack = DenseHighway(6, layers=3, gate_bias=0.0)
        self.alone = Highway(nn.Sequential(nn.Linear(6, 6), nn.Tanh()), nn.Linear(6, 6), gate_bias=0.0)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.entry(x)
        y: Tensor = self.head(self.dropout(self.stack(self.alone(x)) + x))
        return y


def with_companion() -> ConvNetwork:
    generator = torch.Generator().manual_seed(0)
    first, second, third = (ConvHighway(4, gate_bias=0.0, generator=generator) for _ in range(3))
    companion, plain = CompanionHead(4, 3, generator), ConvPlain(4, 4, 3, generator=generator)
    head = DensePlain(4, 3, activation="identity", generator=generator)
    layers = [ConvPlain(1, 4, 3, generator=generator), first, companion, second, plain, third, GlobalAverage(), head]
    highway, head_part = HighwayConv(gate_bias=0.0), Dense(3, activation="identity", head=True)
    parts = (Conv(4), highway, Companion(3), highway, Conv(4), highway, GlobalPool(), head_part)
    return ConvNetwork(Plan(name="own", family="convolutional", input_shape=(1, 6, 6), parts=parts), layers).eval()


NETWORKS: dict[str, Callable[[], tuple[nn.Module, Split]]] = {
    "dense highway": lambda: (built("fc-highway", depth=6, width=7), random_split((5,))),
    "independent carry": lambda: (built("fc-highway", depth=6, width=7, carry="independent"), random_split((5,))),
    "dense residual": lambda: (built("fc-residual", depth=6, width=7), random_split((5,))),
    "lstm over depth": lambda: (built("fc-lstm", depth=6, width=7), random_split((5,))),
    "float64": lambda: (built("fc-highway", depth=6, width=7).double(), random_split((5,))),
    "regression": lambda: (built("fc-highway", depth=6, width=7, outputs=1), random_split((5,), classes=0)),
    "conv highway": lambda: (built("highway-a", (1, 4, 4)), random_split((1, 4, 4))),
    "conv independent carry": lambda: (built("highway-a", (1, 4, 4), carry="independent"), random_split((1, 4, 4))),
    "conv residual": lambda: (built("resnet-32", (3, 8, 8)), random_split((3, 8, 8), samples=20)),
    "companion": lambda: (with_companion(), random_split((1, 6, 6))),
    "own model": lambda: (Own().eval(), random_split((5,))),
}

each_network = pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)


def closed_score(network: nn.Module, split: Split, layers: Iterable[int]) -> Score:
    """The obvious way."""
    with lesion(network, layers):
        return evaluate(network, split)


def close(score: Score, other: Score) -> None:
    assert score.loss == pytest.approx(other.loss, rel=1e-6)
    assert (score.accuracy, score.samples) == (other.accuracy, other.samples)


# ----- By hand


Point = tuple[float, float]

SAMPLES: list[tuple[Point, int]] = [((0, 1), 1), ((1, 0), 0), ((4, 3), 0)]


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def first(x: Point) -> Point:
    return x[0] + sigmoid(x[0]), x[1] + sigmoid(x[1])  # (x + 1)·T + x·(1 − T)


def second(x: Point) -> Point:
    return 0.5 * x[0], 0.75 * x[1]  # 0·T + x·(1 − T)


def by_hand(*layers: Callable[[Point], Point]) -> tuple[float, float]:
    """Loss and accuracy of these layers between identities."""
    losses, hits = [], []
    for x, target in SAMPLES:
        for layer in layers:
            x = layer(x)  # noqa: PLW2901
        losses.append(math.log(math.exp(x[0]) + math.exp(x[1])) - x[target])
        hits.append(x[target] > x[1 - target])
    return sum(losses) / len(losses), sum(hits) / len(hits)


@pytest.fixture
def three() -> Split:
    return split_of(torch.tensor([x for x, _ in SAMPLES]), torch.tensor([target for _, target in SAMPLES]), 2)


def told(score: Score) -> object:
    assert score.accuracy is not None
    return pytest.approx((score.loss, score.accuracy), rel=1e-6)


def test_single_layers_by_hand(two_by_two: DenseNetwork, three: Split, origin: Origin) -> None:
    record = analyse_lesions(two_by_two, three, origin=origin)
    assert by_hand(first, second) == told(record.intact)
    assert by_hand(second) == told(record.closed[0])
    assert by_hand(first) == told(record.closed[1])
    assert [score.accuracy for score in (record.intact, *record.closed)] == [2 / 3, 2 / 3, 1]
    assert (len(record.closed), record.samples, record.intact.samples) == (2, 3, 3)
    assert (record.fingerprint, record.part, record.about) == ("x", "train", origin.about)


def test_pairs_and_spans_by_hand(two_by_two: DenseNetwork, three: Split, origin: Origin) -> None:
    record = analyse_pairs(two_by_two, three, origin=origin)
    one, two, both = by_hand(second)[0], by_hand(first)[0], by_hand()[0]
    np.testing.assert_allclose(record.pair_loss, [[one, both], [both, two]], rtol=1e-6)
    np.testing.assert_allclose(record.span_loss, [[one, both], [math.nan, two]], rtol=1e-6)
    assert by_hand(first, second) == told(record.intact)


def test_deletions_and_shuffles_by_hand(two_by_two: DenseNetwork, three: Split, origin: Origin) -> None:
    record = analyse_deletions(two_by_two, three, origin=origin, draws=8)
    assert record.deleted == record.swaps == (1, 2)
    draws = list(zip(record.deletion_loss[0].tolist(), record.deletion_accuracy[0].tolist(), strict=True))
    wanted = [pytest.approx(by_hand(layer), rel=1e-6) for layer in (first, second)]
    assert all(draw in wanted for draw in draws)
    assert all(one in draws for one in wanted), "both layers are drawn"
    np.testing.assert_allclose(record.deletion_loss[1], [by_hand()[0]] * 8, rtol=1e-6)
    np.testing.assert_allclose(record.deletion_accuracy[1], [1.0] * 8)
    # One swap makes layer 2 the first; a second one puts it back.
    swapped, intact = by_hand(second, first), by_hand(first, second)
    np.testing.assert_allclose(record.shuffle_loss, [[swapped[0]] * 8, [intact[0]] * 8], rtol=1e-6)
    np.testing.assert_allclose(record.shuffle_accuracy, [[swapped[1]] * 8, [intact[1]] * 8], rtol=1e-6)
    np.testing.assert_array_equal(record.order, [[-1.0] * 8, [1.0] * 8])
    assert intact == told(record.intact)


def test_spans_and_pairs_of_four_layers_are_at_their_places(origin: Origin) -> None:
    network, split = built("fc-highway", depth=5, width=7), random_split((5,))
    record = analyse_pairs(network, split, origin=origin)
    for row in range(4):
        for column in range(4):
            wanted = closed_score(network, split, {row + 1, column + 1}).loss
            assert record.pair_loss[row, column] == pytest.approx(wanted, rel=1e-6)
            if row <= column:
                wanted = closed_score(network, split, range(row + 1, column + 2)).loss
                assert record.span_loss[row, column] == pytest.approx(wanted, rel=1e-6)
            else:
                assert math.isnan(record.span_loss[row, column])


def test_a_regression_has_no_accuracy(origin: Origin) -> None:
    network, split = NETWORKS["regression"]()
    lesions, deletions = analyse_lesions(network, split, origin=origin), analyse_deletions(network, split, origin=origin, draws=2)
    assert lesions.intact == deletions.intact == evaluate(network, split)
    assert lesions.closed[0].accuracy is None
    assert lesions.closed[0].rmse == pytest.approx(3 * math.sqrt(lesions.closed[0].loss))
    assert np.isnan(deletions.deletion_accuracy).all()
    assert np.isnan(deletions.shuffle_accuracy).all()
    assert np.isfinite(deletions.deletion_loss).all()


# A pair is in order (+1) or not (−1); tau is the mean.
@pytest.mark.parametrize(
    ("order", "tau"),
    [((1,), 1), ((1, 2), 1), ((2, 1), -1), ((2, 1, 3), 1 / 3), ((3, 1, 2), -1 / 3), ((2, 4, 1, 3), 0), ((4, 2, 3, 1), -2 / 3)],
)
def test_kendalls_tau_by_hand(order: Sequence[int], tau: float) -> None:
    assert kendall_tau(order) == pytest.approx(tau)


# ----- Against networks without the layer


@pytest.mark.parametrize(
    ("name", "shape", "settings"),
    [
        ("fc-highway", (5,), {"depth": 6, "width": 7}),
        ("fc-highway", (5,), {"depth": 6, "width": 7, "carry": "independent"}),
        ("fc-residual", (5,), {"depth": 6, "width": 7}),
        ("fc-lstm", (5,), {"depth": 6, "width": 7}),
        ("mnist-highway-16", (1, 12, 12), {}),
        ("highway-a", (1, 4, 4), {"carry": "independent"}),
    ],
)
def test_a_closed_layer_is_one_that_is_not_there_to_the_bit(
    name: str, shape: tuple[int, ...], settings: dict[str, object], origin: Origin
) -> None:
    network, split = built(name, shape, **settings), random_split(shape)
    assert isinstance(network, DenseNetwork | ConvNetwork)
    record = analyse_lesions(network, split, origin=origin)
    intact = network(split.inputs)
    for number, score in enumerate(record.closed, start=1):
        shorter = network.without([number])
        with lesion(network, [number]):
            outputs = network(split.inputs)
        assert torch.equal(outputs, shorter(split.inputs))
        assert not torch.equal(outputs, intact), "every layer matters"
        assert score == evaluate(shorter, split)
    assert len(record.closed) == count_layers(network)


# ----- Against the obvious loop


@each_network
def test_scores_are_those_of_the_obvious_loop(make: Callable[[], tuple[nn.Module, Split]], origin: Origin) -> None:
    network, split = make()
    layers = count_layers(network)
    record = analyse_lesions(network, split, origin=origin)
    close(record.intact, evaluate(network, split))
    for number, score in enumerate(record.closed, start=1):
        close(score, closed_score(network, split, [number]))
    some = [{1, layers}, {layers - 1, layers}, {1, 2, 3}, set(range(1, layers + 1)), set(range(1, layers + 1, 2))]
    scores = score_routes(network, split, [closing.closing(layers, closed) for closed in some])
    for closed in some:
        close(scores[closing.closing(layers, closed)], closed_score(network, split, closed))


@each_network
def test_layers_that_are_closed_already_stay_closed(make: Callable[[], tuple[nn.Module, Split]], origin: Origin) -> None:
    network, split = make()
    with lesion(network, [2]):
        record = analyse_lesions(network, split, origin=origin)
        assert [set(module.closed_layers) for module in closable_modules(network)].count(set()) < len(closable_modules(network))
    close(record.intact, closed_score(network, split, [2]))
    close(record.closed[1], record.intact)
    close(record.closed[2], closed_score(network, split, [2, 3]))


@pytest.mark.parametrize("name", ["dense highway", "dense residual", "conv highway"])
def test_without_the_compiled_kernels_the_results_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch, origin: Origin) -> None:
    network, split = NETWORKS[name]()
    compiled = analyse_lesions(network, split, origin=origin)
    monkeypatch.setattr("highwaynet.kernels.operators._native", None)
    readable = analyse_lesions(network, split, origin=origin)
    for one, other in zip((compiled.intact, *compiled.closed), (readable.intact, *readable.closed), strict=True):
        close(one, other)
    assert readable.closed[1] == closed_score(network, split, [2])


def reordered(network: nn.Module, route: Route) -> nn.Module:
    """A copy that was put together in another order."""
    twin = copy.deepcopy(network)
    order = [number - 1 for number in route]
    if isinstance(twin, ConvNetwork):
        places = [place for place, layer in enumerate(twin.layers) if isinstance(layer, ConvHighway)]
        layers = [twin.layers[place] for place in places]
        for place, number in zip(places, order, strict=True):
            twin.layers[place] = layers[number]
    else:
        stack = twin.stack
        assert isinstance(stack, DenseHighway)
        places = order[: stack.num_layers]
        stack.weight.data, stack.bias.data = stack.weight.data[places], stack.bias.data[places]
    return twin


@pytest.mark.parametrize(
    ("name", "route"),
    [
        ("dense highway", (5, 2, 4, 3, 1)),
        ("independent carry", (2, 3, 1, 5, 4)),
        ("conv highway", (2, 1, 3, 4, 6, 5)),
        ("companion", (2, 1, 3)),
        ("own model", (3, 1, 2, 4)),
    ],
)
def test_layers_in_another_order_are_a_network_built_in_that_order(name: str, route: Route) -> None:
    network, split = NETWORKS[name]()
    closed = (*route[:1], -route[1], *route[2:])
    scores = score_routes(network, split, [route, closed])
    twin = reordered(network, route)
    close(scores[route], evaluate(twin, split))
    close(scores[closed], closed_score(twin, split, [2]))
    assert scores[route].loss != pytest.approx(evaluate(network, split).loss, rel=1e-6), "the order matters"


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("dense residual", [[1, 2, 3, 4, 5]]),
        ("conv highway", [[1, 2], [3, 4], [5, 6]]),
        ("companion", [[1, 2]]),
        ("own model", [[1, 2, 3]]),
        ("conv residual", [[1, 2, 3, 4, 5], [7, 8, 9, 10], [12, 13, 14, 15]]),
    ],
)
def test_only_layers_of_one_shape_in_a_row_trade_places(name: str, groups: list[list[int]], origin: Origin) -> None:
    network, split = NETWORKS[name]()
    assert exchangeable(network) == groups
    record = analyse_deletions(network, split, origin=origin, draws=2)
    assert record.swaps[-1] == sum(map(len, groups))
    assert np.isfinite(record.shuffle_loss).all()


def test_windows_of_two_sizes_trade_places_among_their_like() -> None:
    groups = exchangeable(built("highway-c", (3, 8, 8)))
    assert groups[:2] == [[1, 3, 5, 7, 9], [2, 4, 6, 8]]
    assert len(groups) == 6


@pytest.mark.parametrize("analyse", ANALYSES)
@pytest.mark.parametrize(("name", "depth"), [("fc-plain", 3), ("fc-highway", 1)])
def test_a_network_without_closable_layers(name: str, depth: int, analyse: Callable[..., object], origin: Origin) -> None:
    network, split = built(name, depth=depth, width=4), random_split((5,))
    record = analyse(network, split, origin=origin)
    assert record.intact == evaluate(network, split)
    assert getattr(record, "closed", ()) == getattr(record, "deleted", ()) == getattr(record, "swaps", ()) == ()
    assert getattr(record, "deletion_loss", np.empty((0, 10))).shape == (0, 10)
    assert getattr(record, "pair_loss", np.empty((0, 0))).shape == (0, 0)


def test_a_network_of_one_closable_layer(origin: Origin) -> None:
    network, split = built("fc-highway", depth=2, width=4), random_split((5,))
    record = analyse_deletions(network, split, origin=origin, draws=2)
    assert (record.deleted, record.swaps, record.order.shape) == ((1,), (), (0, 2))
    np.testing.assert_allclose(record.deletion_loss, [[closed_score(network, split, [1]).loss] * 2], rtol=1e-6)


# ----- How it is computed


def test_nothing_is_computed_twice(monkeypatch: pytest.MonkeyPatch, origin: Origin) -> None:
    network, split = built("mnist-highway-16", (1, 12, 12)), random_split((1, 12, 12), samples=5)
    calls: list[int] = []
    convolve = conv_highway.convolve
    monkeypatch.setattr(conv_highway, "convolve", lambda x, *rest: calls.append(len(x)) or convolve(x, *rest))
    analyse_lesions(network, split, origin=origin)
    assert calls == [5] * (8 + 7 + 6 + 5 + 4 + 3 + 2 + 1), "the intact network, and what follows each closed layer"


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("name", ["dense highway", "conv highway"])
def test_the_batch_size_does_not_matter(name: str, batch: int, monkeypatch: pytest.MonkeyPatch, origin: Origin) -> None:
    network, split = NETWORKS[name]()
    split = split.head(50)
    before = analyse_deletions(network, split, origin=origin, draws=2)
    monkeypatch.setattr(closing, "EVALUATION_BATCH", batch)
    after = analyse_deletions(network, split, origin=origin, draws=2)
    close(after.intact, before.intact)
    np.testing.assert_allclose(after.deletion_loss, before.deletion_loss, rtol=1e-6)
    np.testing.assert_allclose(after.shuffle_loss, before.shuffle_loss, rtol=1e-6)
    np.testing.assert_array_equal(after.deletion_accuracy, before.deletion_accuracy)
    np.testing.assert_array_equal(after.order, before.order)


def test_draws_follow_from_the_seed_alone(origin: Origin) -> None:
    network, split = NETWORKS["dense highway"]()
    torch.manual_seed(5)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    record = analyse_deletions(network, split, origin=origin, seed=3, draws=4)
    assert torch.equal(torch.rand(1), drawn), "torch's own generator is left alone"
    assert analyse_deletions(network, split, origin=origin, seed=3, draws=4) == record
    other = analyse_deletions(network, split, origin=origin, seed=4, draws=4)
    assert not np.array_equal(other.deletion_loss, record.deletion_loss)
    assert not np.array_equal(other.order, record.order)
    more = analyse_deletions(network, split, origin=origin, seed=3, draws=6)
    np.testing.assert_array_equal(more.deletion_loss[:, :4], record.deletion_loss)
    np.testing.assert_array_equal(more.shuffle_loss[:, :4], record.shuffle_loss)


@pytest.mark.parametrize("analyse", ANALYSES)
@pytest.mark.parametrize("name", ["dense highway", "companion", "own model"])
def test_progress_comes_to_its_end(name: str, analyse: Callable[..., object], origin: Origin) -> None:
    network, split = NETWORKS[name]()
    seen: list[tuple[int, int]] = []
    analyse(network, split, origin=origin, progress=lambda done, total: seen.append((done, total)))
    total = seen[-1][1]
    assert seen == [(done, total) for done in range(1, total + 1)]


class Stop(Exception):  # noqa: N818
    """What a caller raises to end an analysis."""


@pytest.mark.parametrize("analyse", ANALYSES)
@pytest.mark.parametrize("name", ["dense highway", "companion", "own model"])
def test_nothing_survives_an_exception(name: str, analyse: Callable[..., object], origin: Origin) -> None:
    network, split = NETWORKS[name]()
    before = network(split.inputs)
    memory = {key: (value.data_ptr(), value.clone()) for key, value in network.state_dict().items()}
    network.train()
    frozen = closable_modules(network)[0]
    assert isinstance(frozen, nn.Module)
    frozen.eval()
    modes = [module.training for module in network.modules()]

    def as_before() -> None:
        assert [module.training for module in network.modules()] == modes
        assert all(module.closed_layers == frozenset() for module in closable_modules(network))
        for key, value in network.state_dict().items():
            assert value.data_ptr() == memory[key][0]
            assert torch.equal(value, memory[key][1])

    for when in (1, 3):

        def progress(done: int, total: int, when: int = when) -> None:
            if done == when:
                raise Stop

        with pytest.raises(Stop):
            analyse(network, split, origin=origin, progress=progress)
        as_before()
    analyse(network, split, origin=origin)
    as_before()
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert torch.equal(network.eval()(split.inputs), before)


def test_an_exception_inside_the_model_leaves_no_lesion(monkeypatch: pytest.MonkeyPatch, origin: Origin) -> None:
    network, split = NETWORKS["own model"]()
    assert isinstance(network, Own)

    def fail(x: Tensor) -> Tensor:
        if network.stack.closed_layers == {2}:
            raise Stop
        return x

    monkeypatch.setattr(network.dropout, "forward", fail)
    with pytest.raises(Stop):
        analyse_lesions(network, split, origin=origin)
    assert network.stack.closed_layers == frozenset()


def test_who_looks_on_sees_whole_passes(origin: Origin) -> None:
    network, split = NETWORKS["dense highway"]()
    wanted = analyse_lesions(network, split, origin=origin)
    shapes = []
    assert isinstance(network, DenseNetwork)
    handle = network.stack.register_forward_hook(lambda module, inputs, output: shapes.append(module.weight.shape))
    assert analyse_lesions(network, split, origin=origin) == wanted
    handle.remove()
    assert set(shapes) == {network.stack.weight.shape}
    with observe(network, ["output"], streaming=True):
        record = analyse_lesions(network, split, origin=origin)
    close(record.closed[0], wanted.closed[0])
