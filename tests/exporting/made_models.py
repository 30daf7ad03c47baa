"""Models with random weights, as after some training, without any training."""

from pathlib import Path

import torch

from highwaynet import NetworkSpec, RunSpec, TrainedModel, build_network
from highwaynet.data.preparation import Preparation
from highwaynet.data.preprocessing import Preprocessing
from highwaynet.data.record import DataRecord
from highwaynet.networks.network import Network
from highwaynet.networks.presets import PRESETS


def shaken(network: Network) -> Network:
    """The network with biases, norms and affine maps that are no longer at their simple start."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.dtype != torch.float32:
                continue
            noise = torch.empty_like(tensor).normal_(std=0.1, generator=generator)
            tensor.add_(noise.abs() if name.endswith("running_var") else noise if tensor.dim() < 3 else noise * 0.1)
        if any(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules()):  # without statistics, outputs would be huge
            for _ in range(20):
                network(torch.rand(4, *network.plan.input_shape, generator=torch.Generator().manual_seed(2)))
    return network.eval()


def model_of(network: Network, task: str = "classification", kind: str = "images", **values: object) -> TrainedModel:
    """A model of this network with simple preprocessing, or that of a record with these values."""
    names = tuple(f"class {number}" for number in range(network.plan.outputs)) if task == "classification" else ()
    steps = ("scale",) if kind == "images" else ()
    facts: dict[str, object] = {"found": "made up", "kind": kind, "task": task, "input_shape": network.plan.input_shape}
    facts |= {"class_names": names, "preprocessing": steps, "full_scale": 255.0 if kind == "images" else 1.0}
    facts |= {"target_mean": 1e4, "target_std": 200.0} if task == "regression" else {}
    record = DataRecord.model_validate(facts | {"train": 9, "validation": 0, "test": 0} | values)
    state = values.pop("state", {})
    preparation = Preparation(record, Preprocessing(record.preprocessing, record.full_scale, state))  # type: ignore[arg-type]
    return TrainedModel(network, preparation, RunSpec(), Path("made-up"))


def preset_model(name: str, task: str = "classification", **settings: object) -> TrainedModel:
    """A model of a preset, at the size that it was made for."""
    own = {"depth": 12} if PRESETS[name].family == "dense" else {}
    spec = NetworkSpec.model_validate({"name": name} | own | settings)
    shape = PRESETS[name].made_for
    outputs = 10 if task == "classification" else 1
    return model_of(shaken(build_network(spec, shape, outputs, generator=torch.Generator().manual_seed(0))), task)
