"""The names of tasks, parts and preprocessing steps. Does not import torch, so that specs load fast."""

from typing import Literal

Task = Literal["classification", "regression"]
Part = Literal["train", "validation", "test"]
Step = Literal["scale", "standardise", "gcn", "mean-image", "zca", "piecewise"]
LabelKind = Literal["text", "whole number", "truth value"]
"""The type of the class labels in the data, before they were converted to names."""
Kind = Literal["images", "features", "table"]
"""What a sample is: an image, a row of numbers, or a row of a table."""
