"""The optimiser of a run, with its groups of parameters by kind: weights, biases, and the last layer's weights."""

from typing import Any, Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from highwaynet.networks.build import Network
from highwaynet.runs.optimisers import OPTIMISERS
from highwaynet.runs.training_spec import TrainingSpec

ParameterKind = Literal["weight", "bias", "head"]


def parameter_kinds(network: Network) -> dict[str, ParameterKind]:
    """The kind of each parameter by name. Scale and shift of batch norm count as biases; so does the last layer's bias."""
    kinds: dict[str, ParameterKind] = {}
    for place, module in network.named_modules():
        for name, _ in module.named_parameters(recurse=False):
            full = f"{place}.{name}" if place else name
            if name == "bias" or isinstance(module, _BatchNorm):
                kinds[full] = "bias"
            else:
                kinds[full] = "head" if full.startswith(f"{network.head_name}.") else "weight"
    return kinds


class ThinSGD(torch.optim.SGD):
    """torch's SGD, straight to its fused operator: for a thin network the way there takes three times as long as the work."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or fill them with zeros."""
        if not set_to_none:
            super().zero_grad(set_to_none=False)
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update; the first one makes the velocities, and is torch's."""
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

    step.hooked = True  # type: ignore[attr-defined]  # torch would put its hooks around it


def make_optimiser(network: Network, training: TrainingSpec, objective: nn.Module | None = None) -> torch.optim.Optimizer:
    """The optimiser of a network, and of its objective's own parameters; each group has `rate`, the factor of its learning rate."""
    kinds = parameter_kinds(network)
    factors: dict[ParameterKind, tuple[float, float]] = {
        "weight": (1.0, 1.0),
        "bias": (training.bias_rate, training.bias_decay),
        "head": (training.head_rate, training.head_decay),
    }
    by_factors: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        by_factors.setdefault(factors[kinds[name]], []).append(parameter)
    for name, parameter in objective.named_parameters() if objective else ():
        if not parameter.requires_grad:  # what an objective only asks, such as a teacher
            continue
        by_factors.setdefault(factors["bias" if name.endswith("bias") else "weight"], []).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": parameters, "rate": rate, "weight_decay": decay * training.weight_decay}
        for (rate, decay), parameters in by_factors.items()
    ]
    rate = training.learning_rate
    smoothing = training.smoothing or OPTIMISERS[training.optimiser].smoothing
    # One pass over each parameter; the loss scaling of float16 wants to see the gradients in between.
    fused = next(network.parameters()).device.type in {"cpu", "cuda"} and training.precision != "float16"
    match training.optimiser:
        case "sgd":
            return ThinSGD(groups, lr=rate, momentum=training.momentum, nesterov=training.nesterov, fused=fused)
        case "rmsprop":
            return torch.optim.RMSprop(groups, lr=rate, alpha=smoothing, momentum=training.momentum)
        case "adamw":
            return torch.optim.AdamW(groups, lr=rate, betas=(training.momentum, smoothing), fused=fused)


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Give each group its share."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["rate"]
