"""Records of a benchmark. Does not import torch."""

from typing import Any, Literal

from highwaynet.base.specs import Spec


class Setting(Spec):
    """A dense network and a batch size."""

    kind: Literal["highway", "plain"] = "highway"
    """The kind of layers."""
    layers: int = 50
    """Number of layers before the softmax, including the first, plain one."""
    width: int = 50
    """Blocks or units of each layer."""
    batch: int = 128
    """Samples in a batch."""

    @property
    def operations(self) -> int:
        """Number of multiplications and additions in the stack for one training step; backward takes twice as many as forward."""
        return 6 * (2 if self.kind == "highway" else 1) * self.batch * self.width**2 * (self.layers - 1)


class Measurement(Spec):
    """The time of one peer for one setting."""

    setting: Setting
    """Network and batch size."""
    peer: str
    """Name of the peer."""
    milliseconds: float
    """Duration of the fastest step."""
    times_naive: float | None = None
    """Speed as a multiple of the naive module's in the same turns."""
    gflops: float
    """Multiplications and additions of the stack, in 10⁹ per second."""
    share_of_product: float
    """`gflops` as a share of the speed of a large matrix product in the same turns."""


class RecurrentSetting(Spec):
    """A recurrent highway layer and a batch of sequences."""

    steps: int = 64
    """Length of the sequences."""
    batch: int = 32
    """Number of sequences."""
    inputs: int = 128
    """Size of the input at each step."""
    width: int = 128
    """Size of the state."""
    depth: int = 5
    """Micro-layers at each step."""

    @property
    def multiply_adds(self) -> int:
        """Number of multiply-adds for one step of one sequence."""
        return 2 * self.width * (self.inputs + self.depth * self.width)

    @property
    def operations(self) -> int:
        """Number of multiplications and additions for one training step; backward takes twice as many as forward."""
        return 6 * self.steps * self.batch * self.multiply_adds


class RecurrentMeasurement(Spec):
    """The time of one peer for one recurrent setting."""

    setting: RecurrentSetting
    """Layer and batch."""
    peer: str
    """Name of the peer."""
    milliseconds: float
    """Duration of the fastest step."""
    times_naive: float
    """Speed as a multiple of the naive loop's in the same turns."""
    times_lstm: float
    """Speed as a multiple of that of an nn.LSTM with as many multiply-adds."""
    gflops: float
    """Multiplications and additions of the highway layer, in 10⁹ per second."""
    share_of_product: float
    """`gflops` as a share of the speed of a large matrix product in the same turns."""


class BenchRecord(Spec):
    """The results of a benchmark."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    environment: dict[str, Any]
    """Versions, machine, threads, kernel."""
    product_gflops: float
    """Speed of a 2048×2048 matrix product, in 10⁹ operations per second."""
    steps: tuple[Measurement, ...]
    """Whole training steps: forward, loss, backward, SGD with momentum."""
    stacks: tuple[Measurement, ...]
    """Forward and backward passes of the stack only."""
    recurrent: tuple[RecurrentMeasurement, ...] = ()
    """Whole training steps of recurrent layers."""
    sweep: tuple[Measurement, ...] = ()
    """Whole training steps over depths and batch sizes."""


class WideSetting(Spec):
    """A stack of wide highway layers, as a published system uses it."""

    system: str
    """The system."""
    layers: int
    """Number of highway layers."""
    width: int
    """Number of blocks of each layer."""
    rows: int
    """Rows of a batch: samples, words, or frames of sound."""

    @property
    def operations(self) -> int:
        """Number of multiplications and additions of one training step; backward takes twice as many as forward."""
        return 12 * self.rows * self.width**2 * self.layers


class WideMeasurement(Spec):
    """The time of one peer for one stack."""

    setting: WideSetting
    """The stack."""
    peer: str
    """Name of the peer."""
    milliseconds: float
    """Duration of the fastest step."""
    times_by_hand: float
    """Speed as a multiple of that of the faster one of the two modules by hand, in the same turns."""
    gflops: float
    """Multiplications and additions of the stack, in 10⁹ per second."""


class WideRecord(Spec):
    """The results of `highway bench --wide`: training steps (forward, backward, SGD with momentum) of stacks with ReLU."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    environment: dict[str, Any]
    """Versions, machine, threads, kernel."""
    steps: tuple[WideMeasurement, ...]
    """The measurements."""
