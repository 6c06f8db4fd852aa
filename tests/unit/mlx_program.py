"""Reads an MLX delegate back, and executes its instructions with Apple's `mlx`.

The payload is the flatbuffer of executorch/backends/mlx/serialization/schema.fbs behind a header;
it is read with ExecuTorch's own generated reader. Constants stand in the program's named data.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.tensor import get_scalar_type

from cede.backends.metal.generated import import_mlx

if TYPE_CHECKING:
    from cede.running.pte import Delegate

_HEADER = 24


@dataclass(frozen=True)
class Meta:
    """Shape (None where dynamic) and dtype of a tensor slot."""

    shape: tuple[int | None, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class MLXProgram:
    """What stands in the payload.

    Attributes:
        inputs: slots of the inputs, in the order of the call.
        outputs: slots of the outputs.
        constants: value by slot.
        names: key in the named data by slot, the prefix cut off.
        metas: by slot; temporaries have none.
        chains: lists of instructions, each the fields of its node and its `op_name`.
        main: the chain that a call runs.
        kinds: of the inputs: 0 is a tensor, 1 a number.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: dict[int, torch.Tensor]
    names: dict[int, str]
    metas: dict[int, Meta]
    chains: tuple[tuple[dict[str, Any], ...], ...]
    main: int
    kinds: tuple[int, ...] = ()

    @property
    def ops(self) -> Counter[str]:
        """How often each node occurs in the chain that a call runs."""
        return Counter(given["op_name"] for given in self.chains[self.main])

    def __call__(self, *given: Any) -> list[torch.Tensor]:
        """Execute the main chain with mlx.core on the CPU."""
        from .mlx_ops import Machine

        machine = Machine(self.constants)
        for slot, kind, value in zip(self.inputs, self.kinds, given, strict=True):
            if kind:
                machine.numbers[slot] = int(value)
            else:
                machine.put(slot, value)
        for instruction in self.chains[self.main]:
            machine.step(instruction)
        return [machine.get(slot) for slot in self.outputs]


def program_of(delegate: Delegate) -> MLXProgram:
    """The program of a delegate, with its constants."""
    import_mlx()
    from executorch.backends.mlx.pte_inspector import parse_mlx_payload
    from executorch.backends.mlx.serialization._generated.mlx_delegate.MLXGraph import MLXGraph

    parsed = parse_mlx_payload(delegate.data)["graph"]
    assert "error" not in parsed, parsed
    assert parsed["num_mutable_buffer_tensors"] == 0
    assert parsed["init_chain_idx"] == -1
    graph = MLXGraph.GetRootAs(delegate.data[_HEADER:], 0)
    metas = {i: _meta(graph.TensorMeta(i)) for i in range(graph.TensorMetaLength())}
    named = [given for given in parsed["named_slots"] if given["slot_type"] == 0]
    keys = {given["slot_idx"]: given["name"] for given in named}
    count = parsed["num_constant_tensors"]
    return MLXProgram(
        inputs=tuple(given["idx"] for given in parsed["input_map"]),
        outputs=tuple(given["idx"] for given in parsed["output_map"]),
        constants={i: _constant(delegate.named[keys[i]], metas[i]) for i in range(count)},
        names={slot: key.partition("/")[2] for slot, key in keys.items()},
        metas=metas,
        chains=tuple(tuple(chain["instructions"]) for chain in parsed["instruction_chains"]),
        main=parsed["main_chain_idx"],
        kinds=tuple(given["slot_type"] for given in parsed["input_map"]),
    )


def _meta(given: Any) -> Meta:
    sizes = [given.Shape(i).Value() for i in range(given.ShapeLength())]
    dtype = get_scalar_type(given.ScalarType())
    return Meta(tuple(None if size < 0 else size for size in sizes), dtype)


def _constant(data: bytes, meta: Meta) -> torch.Tensor:
    shape = [size for size in meta.shape if size is not None]
    return torch.frombuffer(bytearray(data), dtype=meta.dtype).reshape(shape)
