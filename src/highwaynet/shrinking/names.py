"""The names of the criteria. Does not import torch."""

from typing import Literal, get_args

Criterion = Literal["greedy", "lesion", "influence", "angular", "gates", "taylor", "random"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
