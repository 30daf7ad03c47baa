"""Optimisers and their groups by kind of parameter, against rules written out by hand."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from highwaynet import NetworkSpec, TrainingSpec, build_network
from highwaynet.networks.network import Network
from highwaynet.networks.presets import PRESETS
from highwaynet.training.optimiser import ThinSGD, make_optimiser, parameter_kinds, set_learning_rate


@pytest.mark.parametrize("name", PRESETS)
def test_every_parameter_has_a_kind(name: str) -> None:
    network = build_network(NetworkSpec(name=name), PRESETS[name].made_for, 10)
    kinds = parameter_kinds(network)
    assert set(kinds) == {key for key, _ in network.named_parameters()}
    heads = [key for key, kind in kinds.items() if kind == "head"]
    assert len(heads) == 1
    assert 10 in network.get_parameter(heads[0]).shape, "the last layer gives the outputs"
    for key, kind in kinds.items():
        assert (kind == "bias") == (key.endswith("bias") or ".norm." in key)


def network_and_gradients() -> tuple[Network, dict[str, Tensor]]:
    network = build_network(NetworkSpec(name="mnist-highway-16"), (1, 28, 28), 10, generator=torch.Generator().manual_seed(0))
    gradients = {}
    for key, parameter in network.named_parameters():
        parameter.grad = gradients[key] = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(key)))
    return network, gradients


def test_released_factors_and_nesterov_momentum_by_hand() -> None:
    factors = {"bias_rate": 2.0, "bias_decay": 0.0, "head_decay": 10.0, "head_rate": 0.5}
    training = TrainingSpec(momentum=0.9, nesterov=True, weight_decay=1e-3, **factors)
    network, gradients = network_and_gradients()
    kinds = parameter_kinds(network)
    expected = {key: parameter.detach().clone() for key, parameter in network.named_parameters()}
    velocity = {key: torch.zeros_like(value) for key, value in expected.items()}
    optimiser = make_optimiser(network, training)
    for rate in (0.1, 0.05):
        set_learning_rate(optimiser, rate)
        optimiser.step()
        for key, value in expected.items():
            kind = kinds[key]
            decay = 1e-3 * {"weight": 1.0, "bias": 0.0, "head": 10.0}[kind]
            gradient = gradients[key] + decay * value
            velocity[key] = 0.9 * velocity[key] + gradient
            expected[key] = value - rate * {"weight": 1.0, "bias": 2.0, "head": 0.5}[kind] * (gradient + 0.9 * velocity[key])
    for key, parameter in network.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[key], msg=key)


def test_classical_momentum_and_plain_sgd_by_hand() -> None:
    for momentum in (0.9, 0.0):
        network, gradients = network_and_gradients()
        before = {key: parameter.detach().clone() for key, parameter in network.named_parameters()}
        optimiser = make_optimiser(network, TrainingSpec(momentum=momentum))
        set_learning_rate(optimiser, 0.1)
        optimiser.step()
        optimiser.step()
        for key, parameter in network.named_parameters():
            torch.testing.assert_close(parameter.detach(), before[key] - 0.1 * (2 + momentum) * gradients[key], msg=key)


def test_rmsprop_by_hand() -> None:
    network, gradients = network_and_gradients()
    before = {key: parameter.detach().clone() for key, parameter in network.named_parameters()}
    optimiser = make_optimiser(network, TrainingSpec(optimiser="rmsprop", momentum=0.0, smoothing=0.9))
    set_learning_rate(optimiser, 0.01)
    optimiser.step()
    for key, parameter in network.named_parameters():
        step = 0.01 * gradients[key] / (0.1 * gradients[key].square()).sqrt().add(1e-8)
        torch.testing.assert_close(parameter.detach(), before[key] - step, msg=key)


def test_adamw_takes_decay_off_directly() -> None:
    network, gradients = network_and_gradients()
    before = {key: parameter.detach().clone() for key, parameter in network.named_parameters()}
    optimiser = make_optimiser(network, TrainingSpec(optimiser="adamw", weight_decay=0.1, bias_decay=0.0))
    set_learning_rate(optimiser, 0.01)
    optimiser.step()
    for key, parameter in network.named_parameters():
        decayed = before[key] * (1.0 if key.endswith("bias") else 1 - 0.01 * 0.1)
        torch.testing.assert_close(parameter.detach(), decayed - 0.01 * gradients[key].sign(), atol=1e-5, rtol=1e-4, msg=key)


@pytest.mark.parametrize(
    "settings",
    [
        {"momentum": 0.0},
        {"momentum": 0.9, "weight_decay": 0.01},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.5},
        {"momentum": 0.5, "maximize": True},
    ],
    ids=str,
)
def test_the_short_way_to_sgd_is_torchs(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    network = build_network(NetworkSpec(depth=3, width=4), (6,), 3)
    twin = copy.deepcopy(network)
    ours = ThinSGD(network.parameters(), lr=0.1, fused=True, **settings)
    theirs = torch.optim.SGD(twin.parameters(), lr=0.1, **settings)
    short: list[int] = []
    fused = torch._fused_sgd_
    for step in range(6):
        if step == 4:  # from here on with the memory of another
            ours, other = ThinSGD(network.parameters(), lr=0.1, fused=True, **settings), ours
            ours.load_state_dict(other.state_dict())
        for each, optimiser in ((network, ours), (twin, theirs)):
            optimiser.zero_grad()
            assert all(parameter.grad is None for parameter in each.parameters())
            each(torch.full((2, 6), 0.1 * step)).square().sum().backward()
            if step == 2:  # a parameter without a gradient stays as it is
                next(each.parameters()).grad = None
        with monkeypatch.context() as patch:
            patch.setattr(torch.optim.SGD, "step", lambda *a, _step=step, _usual=torch.optim.SGD.step: short.append(_step) or _usual(*a))
            ours.step()
        theirs.step()
        for mine, right in zip(network.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(mine, right, rtol=1e-6, atol=1e-7)
    assert fused is torch._fused_sgd_
    assert short == ([0, 2] if settings["momentum"] else [2]), "torch's way is taken for the first step, and where a gradient is missing"


def test_hooks_and_zeros_of_the_short_way() -> None:
    network = build_network(NetworkSpec(depth=2, width=3), (2,), 2)
    optimiser = make_optimiser(network, TrainingSpec(momentum=0.9))
    assert isinstance(optimiser, ThinSGD)
    told: list[str] = []
    optimiser.register_step_pre_hook(lambda *arguments: told.append("before"))
    optimiser.register_step_post_hook(lambda *arguments: told.append("after"))
    for _ in range(3):
        network(torch.ones(1, 2)).sum().backward()
        optimiser.step()
    assert told == ["before", "after"] * 3
    optimiser.zero_grad(set_to_none=False)
    assert all(parameter.grad is not None and parameter.grad.count_nonzero() == 0 for parameter in network.parameters())


def test_shared_counters_of_adamw_are_torchs() -> None:
    """Parameters share a counter of steps while all have gradients; a step in which one has none counts for the others only."""
    networks = [build_network(NetworkSpec(depth=3, width=4), (3,), 2, generator=torch.Generator().manual_seed(0)) for _ in range(2)]
    mine = make_optimiser(networks[0], TrainingSpec(optimiser="adamw", learning_rate=0.01, weight_decay=0.1))
    groups = [{"params": list(networks[1].parameters()), "weight_decay": 0.1}]
    theirs = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.999), fused=True)
    for step in range(8):
        for network in networks:
            for place, parameter in enumerate(network.parameters()):
                missing = step == 4 and place == 1
                parameter.grad = (
                    None if missing else torch.randn(parameter.shape, generator=torch.Generator().manual_seed(10 * step + place))
                )
        set_learning_rate(mine, 0.01)
        mine.step()
        theirs.step()
    for one, two in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
        assert torch.equal(one, two)
        assert float(mine.state[one]["step"]) == float(theirs.state[two]["step"])
