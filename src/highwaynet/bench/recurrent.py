"""Speed of recurrent highway layers, compared with a naive loop and with nn.LSTM in the same turns."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from highwaynet.bench.bench_records import RecurrentMeasurement, RecurrentSetting
from highwaynet.bench.peers import MOMENTUM, PRODUCT_OPERATIONS, RATE, StepCall, product
from highwaynet.layers.recurrent_highway import RecurrentHighway

SETTINGS = (
    RecurrentSetting(),
    RecurrentSetting(batch=128),
    RecurrentSetting(width=256),
    RecurrentSetting(steps=35, batch=20, width=512, inputs=512),
)
Times = Callable[[dict[str, StepCall], float], dict[str, float]]


class NaiveRecurrentHighway(nn.Module):
    """A recurrent highway layer as it is usually written: a loop over steps and micro-layers."""

    def __init__(self, inputs: int, width: int, depth: int) -> None:
        super().__init__()
        self.width = width
        self.input_transform, self.input_gate = nn.Linear(inputs, width, bias=False), nn.Linear(inputs, width, bias=False)
        self.transforms = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.gates = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map (time, batch, inputs) to the states after each step and the last one."""
        state, found = x.new_zeros(x.shape[1], self.width), []
        for step in x:
            for number, (transform, gate) in enumerate(zip(self.transforms, self.gates, strict=True)):
                h, t = transform(state), gate(state)
                if number == 0:
                    h, t = h + self.input_transform(step), t + self.input_gate(step)
                h, t = torch.tanh(h), torch.sigmoid(t)
                state = h * t + state * (1 - t)
            found.append(state)
        return torch.stack(found), state


def lstm_width(setting: RecurrentSetting) -> int:
    """The width of an LSTM layer with about as many multiply-adds: 4·w·(inputs + w)."""
    return round((math.sqrt(setting.inputs**2 + setting.multiply_adds) - setting.inputs) / 2)


def modules_for(setting: RecurrentSetting) -> dict[str, nn.Module]:
    """Return the layers to compare, by the name shown in tables."""
    sizes = (setting.inputs, setting.width, setting.depth)
    width = lstm_width(setting)
    return {
        "highwaynet": RecurrentHighway(*sizes),
        "naive PyTorch": NaiveRecurrentHighway(*sizes),
        f"nn.LSTM, width {width}": nn.LSTM(setting.inputs, width),
    }


def step_of(module: nn.Module, setting: RecurrentSetting) -> StepCall:
    """Return a training step: forward, a loss of all outputs, backward, SGD with momentum."""
    x = torch.randn(setting.steps, setting.batch, setting.inputs, generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)

    def step() -> None:
        loss = module(x)[0].square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def measure_recurrent(setting: RecurrentSetting, seconds: float, best_times: Times) -> tuple[list[RecurrentMeasurement], float]:
    """Measure all peers of a setting, and the speed of the matrix product in the same turns."""
    steps = {name: step_of(module, setting) for name, module in modules_for(setting).items()}
    times = best_times(steps | {"product": product()}, seconds)
    peak = PRODUCT_OPERATIONS / times.pop("product") / 1e9
    naive, lstm = times["naive PyTorch"], next(duration for name, duration in times.items() if "LSTM" in name)
    found = [
        RecurrentMeasurement(
            setting=setting,
            peer=name,
            milliseconds=1e3 * duration,
            times_naive=naive / duration,
            times_lstm=lstm / duration,
            gflops=setting.operations / duration / 1e9,
            share_of_product=setting.operations / duration / 1e9 / peak,
        )
        for name, duration in times.items()
    ]
    return found, peak
