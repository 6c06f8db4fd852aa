"""Reads a Core ML delegate back and executes its MIL program in torch.

The ops are those of coremltools' MIL reference (coremltools.converters.mil.mil.ops.defs); what a
delegate holds is an mlpackage, flattened by ExecuTorch's `executorchcoreml`.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import torch
from coremltools.converters.mil.frontend.milproto.load import load
from coremltools.converters.mil.mil import types
from coremltools.proto import FeatureTypes_pb2
from executorch.backends.apple.coreml import executorchcoreml

from .coreml_ops import OPS

_WEIGHTS = Path("Data") / "com.apple.CoreML" / "weights"
_DTYPES = {
    "FLOAT16": torch.float16,
    "FLOAT32": torch.float32,
    "DOUBLE": torch.float64,
    "INT32": torch.int32,
}


@dataclass(frozen=True)
class Feature:
    """An input or output of the model."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Model:
    """What stands in the payload."""

    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    version: int
    function: Any

    @property
    def ops(self) -> Counter[str]:
        """How often each MIL op occurs, constants left out."""
        return Counter(op.op_type for op in self.function.operations if op.op_type != "const")

    @property
    def constants(self) -> list[np.ndarray[Any, Any]]:
        """Every floating-point constant tensor."""
        found = [op.outputs[0].val for op in self.function.operations if op.op_type == "const"]
        return [
            value for value in found if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        ]

    def __call__(self, *given: torch.Tensor) -> list[torch.Tensor]:
        """Execute the program; each value is rounded to the dtype that MIL gives it."""
        values = {}
        for feature, value in zip(self.inputs, given, strict=True):
            # A tensor without dimensions crosses the border as one of size 1.
            assert (tuple(value.shape) or (1,)) == feature.shape, (feature, value.shape)
            values[feature.name] = value.reshape(feature.shape).to(feature.dtype)
        for op in self.function.operations:
            if op.op_type == "const":
                values[op.outputs[0].name] = plain(op.outputs[0].val)
                continue
            arguments = {name: _value(var, values) for name, var in op.inputs.items()}
            results = OPS[op.op_type](arguments)
            results = results if isinstance(results, list) else [results]
            for var, result in zip(op.outputs, results, strict=True):
                values[var.name] = result.to(_dtype(var))
                assert list(values[var.name].shape) == list(var.shape), (op.op_type, var.name)
        return [values[feature.name] for feature in self.outputs]


def model_of(payload: bytes) -> Model:
    """The model in a delegate's processed bytes."""
    with tempfile.TemporaryDirectory() as folder:
        assert executorchcoreml.unflatten_directory_contents(payload, folder)
        [found] = Path(folder).rglob("metadata.json")
        metadata = json.loads(found.read_text())
        package = found.parent / "model.mlpackage"
        spec = ct.utils.load_spec(str(package))
        program = load(
            spec,
            specification_version=spec.specificationVersion,
            file_weights_dir=str(package / _WEIGHTS),
        )
        inputs = tuple(map(_feature, spec.description.input))
        outputs = tuple(map(_feature, spec.description.output))
        # The runtime passes arguments by these names, in this order.
        assert metadata["inputNames"] == [given.name for given in inputs]
        assert metadata["outputNames"] == [given.name for given in outputs]
        return Model(inputs, outputs, spec.specificationVersion, program.functions["main"])


def _feature(given: Any) -> Feature:
    array = given.type.multiArrayType
    name = FeatureTypes_pb2.ArrayFeatureType.ArrayDataType.Name(array.dataType)
    return Feature(given.name, tuple(array.shape), _DTYPES[name])


def plain(value: Any) -> Any:
    """A MIL constant as a tensor, a number or a text."""
    if isinstance(value, np.ndarray) and value.ndim:
        return torch.from_numpy(value.copy())
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def _value(var: Any, values: dict[str, Any]) -> Any:
    if isinstance(var, list | tuple):
        return [_value(each, values) for each in var]
    if var is None:
        return None
    return values[var.name] if var.name in values else plain(var.val)


def _dtype(var: Any) -> torch.dtype:
    kind: torch.dtype = torch.from_numpy(np.empty(0, types.nptype_from_builtin(var.dtype))).dtype
    return kind
