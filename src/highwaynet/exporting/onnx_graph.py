"""An ONNX graph that grows node by node. The only file that imports `onnx`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwaynet.base.errors import HighwayError

try:
    from onnx import TensorProto, checker, helper, numpy_helper
except ImportError as missing:
    raise HighwayError("exporting to ONNX needs onnx and ONNX Runtime: install them with `pip install 'highwaynet[onnx]'`") from missing

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
"""Versions that ONNX Runtime has read since 1.13 (2022). Nothing here needs a later one."""
BATCH = "batch"
"""Name of the dimension that may have any size."""

TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "uint8": TensorProto.UINT8,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
}
"""ONNX's types by numpy's names."""


class OnnxGraph:
    """Collects inputs, constants, nodes and outputs. Values are named by strings; names of inner values start with a slash."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._domains: set[str] = set()

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return [value.name for value in self._inputs]

    def input(self, name: str, kind: str, shape: Sequence[int] = ()) -> str:
        """Add an input (batch, *shape) of a type, by numpy's name for it."""
        self._inputs.append(helper.make_tensor_value_info(name, TYPES[kind], [BATCH, *shape]))
        return name

    def output(self, value: str, name: str, kind: str, shape: Sequence[int] = ()) -> None:
        """Make a value an output (batch, *shape) of the graph; a name that an input has gets an underscore."""
        while name in self.input_names:
            name += "_"
        self._nodes.append(helper.make_node("Identity", [value], [name], name=f"/{name}"))
        self._outputs.append(helper.make_tensor_value_info(name, TYPES[kind], [BATCH, *shape]))

    def constant(self, values: Any) -> str:
        """Add a constant: an array, or a list of strings."""
        name, array = f"/constant-{len(self._constants) + 1}", np.asarray(values)
        if array.dtype.kind in "UO":
            encoded = [str(text).encode() for text in array.reshape(-1)]
            self._constants.append(helper.make_tensor(name, TensorProto.STRING, array.shape, encoded))  # type: ignore[arg-type]
        else:
            self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, operator: str, *inputs: str | NDArray[Any] | np.generic, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Add a node and return the name of its output, or a list of them if it has several; arrays among its inputs become constants."""
        number = len(self._nodes) + 1
        names = [given if isinstance(given, str) else self.constant(given) for given in inputs]
        made = [f"/{operator}-{number}" + (f".{place}" if outputs > 1 else "") for place in range(1, outputs + 1)]
        self._nodes.append(helper.make_node(operator, names, made, name=f"/{operator}-{number}", domain=domain, **attributes))
        self._domains.add(domain)
        return made if outputs > 1 else made[0]

    def cast(self, value: str, kind: str) -> str:
        """Convert a value to another type."""
        name: str = self.add("Cast", value, to=TYPES[kind])
        return name

    def serialised(self, name: str, about: str, metadata: Mapping[str, str]) -> bytes:
        """Return the model as the bytes of an .onnx file; equal graphs give equal bytes.

        Raises:
            HighwayError: If the model is larger than the two gigabytes that one file can have.
        """
        from highwaynet import __version__

        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._constants, doc_string=about)
        versions = [helper.make_opsetid("", OPSET)]
        versions += [helper.make_opsetid("ai.onnx.ml", ML_OPSET)] if "ai.onnx.ml" in self._domains else []
        model = helper.make_model(graph, opset_imports=versions, producer_name="highwaynet", producer_version=__version__)
        model.ir_version = IR_VERSION
        helper.set_model_props(model, dict(metadata))
        if model.ByteSize() >= 2**31:
            raise HighwayError("the network is larger than 2 GiB, which one ONNX file cannot hold: export it to safetensors")
        checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString(deterministic=True)
        return content
