"""The optimiser of a run, with parameter groups: weights and biases, of convolutions and of other layers, and weights of the last layer."""

from typing import Any, Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from highwaynet.networks.members import Members
from highwaynet.networks.network import Network
from highwaynet.runs.optimisers import OPTIMISERS
from highwaynet.runs.training_spec import TrainingSpec

ParameterKind = Literal["weight", "bias", "head"]


def parameter_kinds(network: Network) -> dict[str, ParameterKind]:
    """Return the kind of each parameter by name. All of batch norm, factors of members and the last bias count as biases."""
    kinds: dict[str, ParameterKind] = {}
    for place, module in network.named_modules():
        for name, _ in module.named_parameters(recurse=False):
            full = f"{place}.{name}" if place else name
            if name == "bias" or isinstance(module, _BatchNorm | Members):
                kinds[full] = "bias"
            else:
                kinds[full] = "head" if full.startswith(f"{network.head_name}.") else "weight"
    return kinds


class ThinSGD(torch.optim.SGD):
    """`torch.optim.SGD` that calls the fused operator directly: for thin networks torch's overhead is three times the computation."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set all gradients to None, or to zeros."""
        if not set_to_none:
            super().zero_grad(set_to_none=False)
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update the parameters; torch's own `step` does the first update, which creates the momentum buffers."""
        if self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks:
            return self._with_hooks(closure)
        if closure or not all(group["fused"] and self._is_under_way(group) for group in self.param_groups):
            return super().step(closure)
        for group in self.param_groups:
            parameters = group["params"]
            velocities = [self.state[parameter]["momentum_buffer"] for parameter in parameters] if group["momentum"] else []
            torch._fused_sgd_(
                parameters,
                [parameter.grad for parameter in parameters],
                velocities,
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                lr=group["lr"],
                dampening=group["dampening"],
                nesterov=group["nesterov"],
                maximize=group["maximize"],
                is_first_step=False,
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=getattr(self, "found_inf", None),
            )
        return None

    def _with_hooks(self, closure: Any) -> Any:
        step: Any = torch.optim.SGD.step
        return (step if getattr(step, "hooked", False) else self.profile_hook_step(step))(self, closure)

    def _is_under_way(self, group: dict[str, Any]) -> bool:
        if any(parameter.grad is None for parameter in group["params"]):
            return False
        return not group["momentum"] or all("momentum_buffer" in self.state[parameter] for parameter in group["params"])

    step.hooked = True  # type: ignore[attr-defined]  # keeps torch from wrapping it with its hooks


class ThinAdamW(torch.optim.AdamW):
    """`torch.optim.AdamW` that calls the fused operator directly, as `ThinSGD` does. Parameters of a group share a counter of steps."""

    zero_grad = ThinSGD.zero_grad
    _shares_counters = False

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update the parameters; torch's own `step` does the first update, which creates the moments."""
        if self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks:
            self._count_apart()
            step: Any = torch.optim.AdamW.step
            return (step if getattr(step, "hooked", False) else self.profile_hook_step(step))(self, closure)
        if closure or not all(group["fused"] and self._is_under_way(group) for group in self.param_groups):
            self._count_apart()
            return super().step(closure)
        for group in self.param_groups:
            parameters = group["params"]
            states = [self.state[parameter] for parameter in parameters]
            torch._fused_adamw_(
                parameters,
                [parameter.grad for parameter in parameters],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                self._counted(states),
                amsgrad=False,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=group["maximize"],
                grad_scale=None,
                found_inf=None,
            )
        return None

    def _is_under_way(self, group: dict[str, Any]) -> bool:
        """Whether all parameters have gradients and moments, on the CPU; loss scaling, for float16, is left to torch."""
        if getattr(self, "grad_scale", None) is not None or getattr(self, "found_inf", None) is not None:
            return False
        return all(
            parameter.grad is not None and parameter.device.type == "cpu" and "exp_avg" in self.state[parameter]
            for parameter in group["params"]
        )

    def _counted(self, states: list[dict[str, Any]]) -> list[torch.Tensor]:
        """Count a step, and return the counter of each parameter: one for all, if they are equal, because counting each takes longer."""
        counter: torch.Tensor = states[0]["step"]
        others = [state for state in states if state["step"] is not counter]
        if all(state["step"].equal(counter) for state in others):
            for state in others:
                state["step"] = counter
            self._shares_counters = True
            return [counter.add_(1)] * len(states)
        self._count_apart()
        steps = [state["step"] for state in states]
        torch._foreach_add_(steps, 1)
        return steps

    def _count_apart(self) -> None:
        """Give each parameter a counter of its own again, as torch's `step` needs it."""
        if self._shares_counters:
            for state in self.state.values():
                state["step"] = state["step"].clone()
            self._shares_counters = False

    step.hooked = True  # type: ignore[attr-defined]  # keeps torch from wrapping it with its hooks


class ThinAverage(AveragedModel):
    """Torch's moving average of weights and buffers, without looking for their names at every step.

    Args:
        network: The network.
        share: How much of the average stays at a step.
    """

    def __init__(self, network: nn.Module, share: float) -> None:
        super().__init__(network, multi_avg_fn=get_ema_multi_avg_fn(share), use_buffers=True)
        self._share = share
        self._pairs: tuple[nn.Module, list[torch.Tensor], list[torch.Tensor]] | None = None

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Update the average; torch's own function does the first update, which copies, and those of networks with buffers."""
        if self._pairs is None or self._pairs[0] is not model:
            mine, theirs = ([*one.parameters(), *one.buffers()] for one in (self.module, model))
            plain = all(
                a.dtype.is_floating_point and a.dtype == b.dtype and a.device == b.device for a, b in zip(mine, theirs, strict=True)
            )
            self._pairs = (model, mine, theirs) if plain else (model, [], [])
        if not self._pairs[1] or self.n_averaged == 0:
            super().update_parameters(model)
            return
        torch._foreach_lerp_(self._pairs[1], self._pairs[2], 1 - self._share)
        self.n_averaged.add_(1)


def make_optimiser(network: Network, training: TrainingSpec, objective: nn.Module | None = None) -> torch.optim.Optimizer:
    """Make the optimiser for a network and the parameters of its objective; `rate` of a group is the factor of its learning rate."""
    kinds = parameter_kinds(network)
    factors: dict[ParameterKind, tuple[float, float]] = {
        "weight": (1.0, 1.0),
        "bias": (training.bias_rate, training.bias_decay),
        "head": (training.head_rate, training.head_decay),
    }
    convolutions = {
        f"{place}.{name}"
        for place, module in network.named_modules()
        for name, _ in module.named_parameters(recurse=False)
        if getattr(module, "weight", torch.empty(0)).dim() == 4
    }
    by_factors: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:  # above the layer that learns from a hint
            continue
        rate, decay = factors[kinds[name]]
        by_factors.setdefault((rate * training.conv_rate if name in convolutions else rate, decay), []).append(parameter)
    for name, parameter in objective.named_parameters() if objective else ():
        if not parameter.requires_grad:  # for instance a teacher
            continue
        by_factors.setdefault(factors["bias" if name.endswith("bias") else "weight"], []).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": parameters, "rate": rate, "weight_decay": decay * training.weight_decay}
        for (rate, decay), parameters in by_factors.items()
    ]
    rate = training.learning_rate
    smoothing = training.smoothing or OPTIMISERS[training.optimiser].smoothing
    # Fused updates take one pass over each parameter. With float16 the loss scaling has to read the gradients in between.
    fused = next(network.parameters()).device.type in {"cpu", "cuda"} and training.precision != "float16"
    match training.optimiser:
        case "sgd":
            return ThinSGD(groups, lr=rate, momentum=training.momentum, nesterov=training.nesterov, fused=fused)
        case "rmsprop":
            return torch.optim.RMSprop(groups, lr=rate, alpha=smoothing, momentum=training.momentum)
        case "adamw":
            return ThinAdamW(groups, lr=rate, betas=(training.momentum, smoothing), fused=fused)


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of each group: `rate` times the factor of the group."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["rate"]
