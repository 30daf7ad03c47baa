"""What a benchmark measured, as plain records. Free of torch."""

from typing import Any, Literal

from highwaynet.base.specs import Spec


class Setting(Spec):
    """A dense network and a batch."""

    kind: Literal["highway", "plain"] = "highway"
    """Which layers it is made of."""
    layers: int = 50
    """Layers before the softmax, the first plain one included."""
    width: int = 50
    """Blocks or units of each layer."""
    batch: int = 128
    """Samples of a step."""

    @property
    def operations(self) -> int:
        """Multiplications and additions in the stack for one training step: forward, and twice as many backward."""
        return 6 * (2 if self.kind == "highway" else 1) * self.batch * self.width**2 * (self.layers - 1)


class Measurement(Spec):
    """How long one peer takes for one setting."""

    setting: Setting
    """What was computed."""
    peer: str
    """Who computed it."""
    milliseconds: float
    """The fastest step of all turns."""
    times_naive: float | None = None
    """How many times as fast as the naive module in the same turns."""
    gflops: float
    """Multiplications and additions of the stack in a second, in thousands of millions."""
    share_of_product: float
    """The same as a share of the speed of a large matrix product in the same turns."""


class BenchRecord(Spec):
    """A whole benchmark."""

    schema_version: Literal[1] = 1
    """Version of this format."""
    environment: dict[str, Any]
    """Versions, machine, threads, kernel."""
    product_gflops: float
    """Speed of a product of two matrices of 2048×2048."""
    steps: tuple[Measurement, ...]
    """Whole training steps: forward, loss, backward, SGD with momentum."""
    stacks: tuple[Measurement, ...]
    """Forward and backward of the stack alone."""
    sweep: tuple[Measurement, ...] = ()
    """Whole training steps over depth and batch."""
