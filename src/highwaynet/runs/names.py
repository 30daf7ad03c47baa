"""The names of the weights that people ask a run for. Free of torch."""

from typing import Literal

Kept = Literal["final", "best", "average"]
"""After the last epoch, with the lowest validation loss, or averaged over the steps."""
