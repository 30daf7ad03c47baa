"""The peers: for each, a function that makes one training step of the same network."""

from collections.abc import Callable
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highwaynet.bench.bench_records import Setting
from highwaynet.networks.architectures import plan_of
from highwaynet.networks.dense import build_dense
from highwaynet.networks.spec import NetworkSpec
from highwaynet.runs.training_spec import TrainingSpec
from highwaynet.training.optimiser import make_optimiser

INPUTS, OUTPUTS, RATE, MOMENTUM = 784, 10, 0.01, 0.9
StepCall = Callable[[], object]
Loss = Callable[[Tensor, Tensor], Tensor]
Activated = Callable[[Tensor], Tensor]


class NaiveHighway(nn.Module):
    """A highway layer as it is usually written."""

    def __init__(self, width: int, activation: Activated = torch.tanh) -> None:
        super().__init__()
        self.activation = activation
        self.transform, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, -2.0)

    def forward(self, x: Tensor) -> Tensor:
        """Compute H·T + x·(1 − T) with two matrix products."""
        h, t = self.activation(self.transform(x)), torch.sigmoid(self.gate(x))
        return h * t + x * (1 - t)


class MergedHighway(nn.Module):
    """A highway layer with one matrix product for H and T, and torch.lerp."""

    def __init__(self, width: int, activation: Activated = torch.tanh) -> None:
        super().__init__()
        self.activation = activation
        self.both = nn.Linear(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        """Compute H·T + x·(1 − T) with one matrix product."""
        h, t = self.both(x).chunk(2, dim=1)
        return torch.lerp(x, self.activation(h), torch.sigmoid(t))


class NaivePlain(nn.Module):
    """A plain layer as it is usually written."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Compute tanh of a linear layer."""
        return torch.tanh(self.linear(x))


def _samples(setting: Setting) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(setting.batch, INPUTS, generator=generator), torch.randint(OUTPUTS, (setting.batch,), generator=generator)


def _torch_step(
    network: nn.Module, setting: Setting, loss_of: Loss | None = None, optimiser: torch.optim.Optimizer | None = None
) -> StepCall:
    inputs, targets = _samples(setting)
    optimiser = optimiser or torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM)
    loss_of = loss_of or (lambda inputs, targets: F.cross_entropy(network(inputs), targets))

    def step() -> None:
        loss = loss_of(inputs, targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def _written_out(layer: Callable[[int], nn.Module], setting: Setting) -> nn.Module:
    layers = [layer(setting.width) for _ in range(setting.layers - 1)]
    return nn.Sequential(nn.Linear(INPUTS, setting.width), nn.Tanh(), *layers, nn.Linear(setting.width, OUTPUTS))


def ours(setting: Setting) -> StepCall:
    """A network of highwaynet, with the loss and the optimiser of its training loop."""
    spec = NetworkSpec(name=f"fc-{setting.kind}", depth=setting.layers, width=setting.width)
    network = build_dense(plan_of(spec, (INPUTS,), OUTPUTS), None)
    optimiser = make_optimiser(network, TrainingSpec(learning_rate=RATE, momentum=MOMENTUM))
    return _torch_step(network, setting, lambda inputs, targets: network(inputs, targets=targets)[1], optimiser)


def naive(setting: Setting) -> StepCall:
    """PyTorch modules as they are usually written."""
    layer = NaiveHighway if setting.kind == "highway" else NaivePlain
    return _torch_step(_written_out(layer, setting), setting)


def merged(setting: Setting) -> StepCall:
    """PyTorch modules with one matrix product for H and T."""
    return _torch_step(_written_out(MergedHighway, setting), setting)


def compiled(setting: Setting) -> StepCall:
    """The naive module under torch.compile; the first step takes a minute."""
    layer = NaiveHighway if setting.kind == "highway" else NaivePlain
    network = torch.compile(_written_out(layer, setting))
    return _torch_step(network, setting)  # type: ignore[arg-type]


def jax_step(setting: Setting) -> StepCall:
    """JAX with jit and lax.scan over the layers; JAX chooses its number of threads."""
    import jax
    import jax.numpy as jnp

    inputs, targets = (jnp.asarray(tensor.numpy()) for tensor in _samples(setting))
    parts = 2 if setting.kind == "highway" else 1
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    scale = setting.width**-0.5
    parameters = {
        "entry": jax.random.normal(keys[0], (INPUTS, setting.width)) * INPUTS**-0.5,
        "stack": jax.random.normal(keys[1], (setting.layers - 1, setting.width, parts * setting.width)) * scale,
        "bias": jnp.zeros((setting.layers - 1, parts * setting.width)),
        "head": jax.random.normal(keys[2], (setting.width, OUTPUTS)) * scale,
    }

    def loss(parameters, inputs, targets):  # type: ignore[no-untyped-def]
        def layer(x, own):  # type: ignore[no-untyped-def]
            z = x @ own[0] + own[1]
            h = jnp.tanh(z[:, : setting.width])
            if parts == 1:
                return h, None
            t = jax.nn.sigmoid(z[:, setting.width :])
            return h * t + x * (1 - t), None

        x, _ = jax.lax.scan(layer, jnp.tanh(inputs @ parameters["entry"]), (parameters["stack"], parameters["bias"]))
        logs = jax.nn.log_softmax(x @ parameters["head"])
        return -logs[jnp.arange(len(targets)), targets].mean()

    @jax.jit
    def update(parameters, velocity):  # type: ignore[no-untyped-def]
        gradients = jax.grad(loss)(parameters, inputs, targets)
        velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradients)
        return jax.tree.map(lambda p, v: p - RATE * v, parameters, velocity), velocity

    state = [parameters, jax.tree.map(jnp.zeros_like, parameters)]

    def step() -> None:
        state[:] = update(*state)
        jax.block_until_ready(state)

    return step


def peers_for(setting: Setting, *, compile_too: bool = False) -> dict[str, Callable[[Setting], StepCall]]:
    """Return the peers that are installed, by the name shown in tables."""
    found: dict[str, Callable[[Setting], StepCall]] = {"highwaynet": ours, "naive PyTorch": naive}
    if setting.kind == "highway":
        found["PyTorch, H and T merged"] = merged
    if compile_too:
        found["PyTorch, torch.compile"] = compiled
    if find_spec("jax"):
        found["JAX, jit + scan"] = jax_step
    return found


def stack_alone(setting: Setting) -> StepCall:
    """Forward and backward pass of highwaynet's stack, without first layer, loss and update."""
    spec = NetworkSpec(name=f"fc-{setting.kind}", depth=setting.layers, width=setting.width)
    stack = build_dense(plan_of(spec, (INPUTS,), OUTPUTS), None).stack
    x, gradient = torch.randn(setting.batch, setting.width, requires_grad=True), torch.ones(setting.batch, setting.width)

    def step() -> None:
        stack(x).backward(gradient)
        stack.zero_grad()
        x.grad = None

    return step


def product() -> StepCall:
    """A large matrix product, as a measure of the machine's peak speed."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    return lambda: torch.mm(a, b)


PRODUCT_OPERATIONS = 2 * 2048**3
