"""How often a run saves its state: "2 epochs", "500 steps", "10 minutes". Does not import torch."""

import math
from dataclasses import dataclass
from typing import Literal, cast

Unit = Literal["steps", "epochs", "minutes"]


@dataclass(frozen=True)
class Interval:
    """A number of steps, epochs or minutes."""

    count: float
    unit: Unit

    @classmethod
    def parse(cls, text: str) -> "Interval":
        """Parse an interval; raises ValueError, which says what is allowed.

        >>> Interval.parse("10 minutes"), Interval.parse("1 epoch")
        (Interval(count=10.0, unit='minutes'), Interval(count=1.0, unit='epochs'))
        """
        number, _, word = text.strip().partition(" ")
        unit = f"{word.strip().removesuffix('s')}s"
        try:
            count = float(number)
        except ValueError:
            count = math.nan
        if unit not in {"steps", "epochs", "minutes"} or not 0 < count < math.inf or (unit != "minutes" and count != int(count)):
            raise ValueError("write a number and steps, epochs or minutes, for instance '500 steps' or '10 minutes'")
        return cls(count, cast(Unit, unit))
