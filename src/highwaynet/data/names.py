"""The names of tasks, parts and preprocessing steps; free of torch, so that specs load at once."""

from typing import Literal

Task = Literal["classification", "regression"]
Part = Literal["train", "validation", "test"]
Step = Literal["scale", "standardise", "gcn", "mean-image", "zca"]
LabelKind = Literal["text", "whole number", "truth value"]
"""What the labels of classes were before they became names."""
Kind = Literal["images", "features", "table"]
"""What a sample is: an image, a row of numbers, or a row of a table."""
