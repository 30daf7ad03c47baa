"""Names of exports. Does not import torch."""

from typing import Literal

Target = Literal["onnx", "torch", "safetensors"]
"""What a run is exported to."""

SUFFIXES: dict[Target, str] = {"onnx": ".onnx", "torch": ".pt2", "safetensors": ".safetensors"}
"""How the names of exported files end."""

FACTS = "highwaynet.json"
"""Name of the extra file with the facts about a torch.export program."""
