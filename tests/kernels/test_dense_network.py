"""The loss of a whole dense network as one function, against the same network in torch's operators and float64."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from highwaynet.kernels import dense_network
from highwaynet.kernels.native import native_module
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.dense import DenseNetwork, build_dense
from highwaynet.networks.spec import NetworkSpec

pytestmark = pytest.mark.skipif(native_module() is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")


def network_of(kind: str = "highway", activation: str = "tanh", depth: int = 4, width: int = 7, **options: object) -> DenseNetwork:
    spec = NetworkSpec.model_validate({"name": f"fc-{kind}", "depth": depth, "width": width, "activation": activation, **options})
    network = build_dense(plan_of(spec, (11,), 5), torch.Generator().manual_seed(depth))
    with torch.no_grad():
        for parameter in network.parameters():  # biases that are not 0
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return network


def batch(rows: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    return torch.randn(rows, 11, generator=generator), torch.randint(5, (rows,), generator=generator)


def exact(network: DenseNetwork, x: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Logits, loss and gradients by name, of x as well, from a float64 copy, which no kernel takes."""
    network, x = copy.deepcopy(network).double(), x.double().requires_grad_()
    logits = network(x)
    loss = F.cross_entropy(logits, targets)
    loss.backward()
    found = {name: parameter.grad for name, parameter in network.named_parameters() if parameter.grad is not None}
    assert x.grad is not None
    return logits.detach(), loss.detach(), found | {"x": x.grad}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A word for each time that the function was really used."""
    calls: list[str] = []
    forward = dense_network.stack_forward
    monkeypatch.setattr(dense_network, "stack_forward", lambda *a, **k: calls.append("used") or forward(*a, **k))
    return calls


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("kind", ["highway", "plain", "residual"])
@pytest.mark.parametrize(
    ("activation", "depth", "width", "rows"), [("tanh", 4, 7, 9), ("relu", 1, 3, 1), ("sigmoid", 2, 17, 200), ("identity", 3, 1, 33)]
)
def test_loss_and_gradients_are_torchs(kind: str, activation: str, depth: int, width: int, rows: int, used: list[str]) -> None:
    network, (x, targets) = network_of(kind, activation, depth, width), batch(rows)
    x.requires_grad_()
    logits, loss = network(x, targets=targets)
    assert used
    loss.backward()
    right_logits, right_loss, gradients = exact(network, x.detach(), targets)
    torch.testing.assert_close(logits.double(), right_logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(loss.double(), right_loss, rtol=1e-6, atol=1e-6)
    for name, parameter in [*network.named_parameters(), ("x", x)]:
        if not parameter.numel():  # a stack of no layers
            continue
        assert parameter.grad is not None
        assert (parameter.grad.double() - gradients[name]).norm() <= 2e-6 * (gradients[name].norm() + 1e-3), name
    assert not logits.requires_grad


def one_by_one(network: DenseNetwork, x: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Mean outputs, mean loss and gradients by name, from a float64 copy whose members are computed one after the other."""
    network, x = copy.deepcopy(network).double(), x.double().requires_grad_()
    count = 1 if network.members is None else network.members.count
    outputs = []
    for number, head in enumerate(network.head.weight.chunk(count, dim=1)):
        scaled = x if network.members is None else x * network.members.factors[0, number]
        outputs.append(F.linear(network.stack(network.entry(scaled)), head, network.head.bias))
    if targets.is_floating_point():
        loss = torch.stack([(each - targets.double().view_as(each)).square().mean() for each in outputs]).mean()
    else:
        loss = torch.stack([F.cross_entropy(each, targets) for each in outputs]).mean()
    loss.backward()
    found = {name: parameter.grad for name, parameter in network.named_parameters() if parameter.grad is not None}
    assert x.grad is not None
    return torch.stack(outputs).mean(0).detach(), loss.detach(), found | {"x": x.grad}


@pytest.mark.usefixtures("_each_instruction_set")
@pytest.mark.parametrize("kind", ["highway", "plain", "residual"])
@pytest.mark.parametrize("members", [None, 2, 5])
@pytest.mark.parametrize("outputs", [None, 1, 3], ids=["classes", "a number", "numbers"])
@pytest.mark.parametrize("fast", [True, False], ids=["fused", "layer by layer"])
def test_each_member_learns_on_its_own(kind: str, members: int | None, outputs: int | None, fast: bool, used: list[str]) -> None:
    spec = NetworkSpec.model_validate({"name": f"fc-{kind}", "depth": 3, "width": 7, "members": members})
    network = build_dense(plan_of(spec, (11,), outputs or 5), torch.Generator().manual_seed(3))
    x, targets = batch(6)
    if outputs:
        targets = torch.randn((6,) if outputs == 1 else (6, outputs), generator=torch.Generator().manual_seed(4))
    if not fast:
        network.stack.register_forward_hook(lambda module, given, found: None)
    x.requires_grad_()
    mean, loss = network(x, targets=targets)
    assert bool(used) == fast
    loss.backward()
    right_mean, right_loss, gradients = one_by_one(network, x.detach(), targets)
    torch.testing.assert_close(mean.double(), right_mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(network(x).double(), right_mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(network.by_member(x).mean(1).double(), right_mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(loss.double(), right_loss, rtol=1e-6, atol=1e-6)
    for name, parameter in [*network.named_parameters(), ("x", x)]:
        assert parameter.grad is not None
        assert (parameter.grad.double() - gradients[name]).norm() <= 2e-6 * (gradients[name].norm() + 1e-3), name


def test_gradients_of_gradients_of_members() -> None:
    network, (x, targets) = network_of(members=3), batch()
    twin = copy.deepcopy(network).double()
    seconds = []
    for each, inputs in ((network, x), (twin, x.double())):
        assert each.members is not None
        loss = each(inputs, targets=targets)[1]
        (gw,) = torch.autograd.grad(loss, each.stack.weight, create_graph=True)
        seconds.append(torch.autograd.grad(gw.square().sum(), each.members.factors)[0].double())
    torch.testing.assert_close(*seconds, rtol=1e-4, atol=1e-6)


def test_a_gradient_from_above_and_more_than_one_backward_pass() -> None:
    network, (x, targets) = network_of(), batch()
    _, _, gradients = exact(network, x, targets)
    _, loss = network(x, targets=targets)
    (3 * loss).backward(retain_graph=True)
    torch.testing.assert_close(network.stack.weight.grad.double(), 3 * gradients["stack.weight"], rtol=1e-5, atol=1e-6)
    loss.backward()  # adds the same once more, from torch
    torch.testing.assert_close(network.stack.weight.grad.double(), 4 * gradients["stack.weight"], rtol=1e-5, atol=1e-6)


def test_gradients_of_gradients() -> None:
    network, (x, targets) = network_of(), batch()
    twin = copy.deepcopy(network).double()
    seconds = []
    for each, inputs in ((network, x), (twin, x.double())):
        loss = each(inputs, targets=targets)[1]
        (gw,) = torch.autograd.grad(loss, each.stack.weight, create_graph=True)
        seconds.append(torch.autograd.grad(gw.square().sum(), each.entry.weight)[0].double())
    torch.testing.assert_close(*seconds, rtol=1e-4, atol=1e-6)


def test_frozen_parameters_and_closed_layers(used: list[str]) -> None:
    network, (x, targets) = network_of(), batch()
    network.head.weight.requires_grad_(False)
    network.stack.closed_layers = frozenset({2})
    _, loss = network(x, targets=targets)
    loss.backward()
    _, right, gradients = exact(network, x, targets)
    assert used
    assert network.head.weight.grad is None
    torch.testing.assert_close(loss.detach().double(), right, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(network.entry.weight.grad.double(), gradients["entry.weight"], rtol=1e-5, atol=1e-6)
    assert network.stack.weight.grad[1].count_nonzero() == 0


class Watching(TorchDispatchMode):
    """Looks at operators, so that they go through the registry."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return function(*args, **(kwargs or {}))


def test_where_it_is_not_used_the_numbers_are_the_same(used: list[str]) -> None:
    x, targets = batch()
    network = network_of()
    expected = network(x, targets=targets)[1].item()
    used.clear()
    with torch.no_grad():
        assert network(x, targets=targets)[1].item() == pytest.approx(expected, rel=1e-6)
    with Watching():
        assert network(x, targets=targets)[1].item() == pytest.approx(expected, rel=1e-6)
    twice = network_of().double()(x.double(), targets=targets)[1]
    assert twice.item() == pytest.approx(expected, rel=1e-6)
    for options in ({"dropout": (0.5, 0.0)}, {"carry": "independent"}):
        assert network_of(**options)(x, targets=targets)[1].requires_grad
    saving = network_of()
    saving.stack.recomputes = True
    assert saving(x, targets=targets)[1].item() == pytest.approx(expected, rel=1e-6)
    assert not used


def test_a_target_that_is_no_class() -> None:
    x, _ = batch()
    with pytest.raises((ValueError, IndexError)):
        network_of()(x, targets=torch.full((9,), 5))


def test_numbers_that_are_none_pass_as_in_torch() -> None:
    network, (x, targets) = network_of(), batch()
    x[3, 2] = float("nan")
    _, loss = network(x, targets=targets)
    loss.backward()
    assert loss.isnan()
    assert network.stack.weight.grad.isnan().any()


def test_the_number_of_threads_cannot_be_seen_in_the_stack() -> None:
    network, (x, targets) = network_of(depth=6, width=50), batch(128)
    before = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            network.zero_grad()
            network(x, targets=targets)[1].backward()
            results.append(network.stack.weight.grad.clone())
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-8)  # torch's own products around it may differ in the last bit


@pytest.mark.parametrize("make", [lambda t: torch.stack([t, t], dim=1)[:, 0], lambda t: t[:1].expand(9)], ids=["strided", "expanded"])
def test_targets_with_gaps(make: Callable[[torch.Tensor], torch.Tensor], used: list[str]) -> None:
    network, (x, targets) = network_of(), batch()
    targets = make(targets)
    loss = network(x, targets=targets)[1]
    assert used
    assert loss.item() == pytest.approx(F.cross_entropy(network(x), targets).item(), rel=1e-6)


@pytest.mark.parametrize(
    ("where", "name", "shape"),
    [
        ("entry", "bias", (1, 3)),
        ("head", "bias", (2,)),
        ("stack", "bias", (3, 7)),
        ("stack", "weight", (3, 7, 7)),
        ("head", "weight", (5, 6)),
        ("entry", "weight", (1, 7, 9)),
    ],
)
def test_parameters_that_do_not_fit_never_reach_the_kernel(where: str, name: str, shape: tuple[int, ...], used: list[str]) -> None:
    network, (x, targets) = network_of(), batch()
    setattr(getattr(network, where), name, torch.nn.Parameter(torch.zeros(shape)))
    with pytest.raises((RuntimeError, ValueError)):
        network(x, targets=targets)
    assert not used


class Louder(nn.Linear):
    """A head that computes something else."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        return 10 * super().forward(input)


def test_changed_modules_and_hooks_are_respected(used: list[str]) -> None:
    x, targets = batch()
    changed = network_of()
    changed.head = Louder(7, 5)
    hooked = network_of()
    hooked.stack.register_forward_hook(lambda module, inputs, output: 2 * output)
    sequence = network_of()
    sequence.head = nn.Sequential(nn.Linear(7, 5))  # type: ignore[assignment]
    outer = network_of()
    outer.register_forward_pre_hook(lambda module, inputs: (2 * inputs[0],))
    for network in (changed, hooked, sequence, outer):
        used.clear()
        loss = network(x, targets=targets)[1]
        assert loss.item() == pytest.approx(F.cross_entropy(network(x), targets).item(), rel=1e-6)
        assert used == ([] if network is not outer else ["used"])
    with torch.no_grad():
        assert outer(x, targets=targets)[1].item() == pytest.approx(F.cross_entropy(outer(x), targets).item(), rel=1e-6)
    with pytest.raises(ValueError, match="gates or the loss, not both"):
        outer(x, return_gates=True, targets=targets)


def test_an_input_that_depends_on_a_parameter_and_hooks_on_parameters() -> None:
    """Where torch takes over: the way through the input must not count twice, nor a hook run twice."""
    network, (x, targets) = network_of(), batch()
    twin = copy.deepcopy(network).double()
    found = []
    for each, inputs in ((network, x), (twin, x.double())):
        mixed = inputs * each.entry.weight.sum()
        loss = each(mixed, targets=targets)[1]
        found.append(torch.autograd.grad(loss, each.entry.weight, create_graph=True)[0].double())
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)
    network.stack.weight.register_hook(lambda gradient: 2 * gradient)
    _, loss = network(x, targets=targets)
    _, _, gradients = exact(network, x, targets)
    once = torch.autograd.grad(loss, network.stack.weight, retain_graph=True)[0]
    again = torch.autograd.grad(loss, network.stack.weight)[0]
    for gradient in (once, again):
        torch.testing.assert_close(gradient.double(), 2 * gradients["stack.weight"], rtol=1e-5, atol=1e-6)


def test_nothing_is_computed_for_a_frozen_network(used: list[str]) -> None:
    network, (x, targets) = network_of().requires_grad_(False), batch()
    assert not network(x, targets=targets)[1].requires_grad
    assert not used
