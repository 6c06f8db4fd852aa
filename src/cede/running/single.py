"""One compiled delegate alone, on any values, without the program that it is part of.

ExecuTorch can emit a program for a delegate by itself (`LoweredBackendModule.buffer`), but not for
one with dynamic sizes. Here the program is written for the very sizes of a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.tensor import layout_enum, scalar_type_enum

from cede.running.pte import Delegate, named_data, schema
from cede.running.runtime import program_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cede.types import Backend, Delegation, LoadedProgram


def delegate_of(module: Any) -> Delegate:
    """The delegate of an `executorch.exir.LoweredBackendModule`."""
    return Delegate(
        id=module.backend_id,
        data=bytes(module.processed_bytes),
        specs=tuple((spec.key, bytes(spec.value)) for spec in module.compile_specs),
        named=named_data(module.named_data_store_output),
    )


def given_to(module: Any, owner: Mapping[str, Delegation]) -> Delegation | None:
    """The delegation that a lowered module is of, None for one of another plan.

    Args:
        module: an `executorch.exir.LoweredBackendModule`.
        owner: delegations by op (`Plan.delegation_of`).
    """
    nodes = module.original_module.graph.nodes
    names = (node.name for node in nodes if node.op == "call_function")
    return next((owner[name] for name in names if name in owner), None)


class Single:
    """A delegate to call alone; one program for each combination of sizes.

    Args:
        delegate: what a backend's compiler made.
        backends: by name, for a delegate that ExecuTorch's own runtime can't run.
    """

    def __init__(self, delegate: Delegate, backends: Mapping[str, Backend]) -> None:
        self._delegate = delegate
        self._backends = backends
        self._loaded: dict[tuple[Any, ...], LoadedProgram] = {}

    def run(self, inputs: Sequence[Any], like: Sequence[Any]) -> list[Any]:
        """Call it.

        Args:
            inputs: tensors and numbers, in the order of the delegate's inputs.
            like: values with the dtypes and shapes that its outputs have.

        Returns:
            Its outputs.

        Raises:
            LoweringError: it can't be run here, or fails.
        """
        from cede.running import load

        values = [*inputs, *like]
        key = tuple(_key(value) for value in values)
        if key not in self._loaded:
            data = program_of(self._delegate, [_argument(value) for value in values])
            self._loaded[key] = load(data, self._backends)
        given = [v for v in inputs if isinstance(v, torch.Tensor)]
        blank = [torch.zeros_like(v) for v in like if isinstance(v, torch.Tensor)]
        results = self._loaded[key].run([*given, *blank])
        outputs = iter(results[len(given) :])
        return [next(outputs) if isinstance(v, torch.Tensor) else v for v in like]


def _key(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.dim_order()
    return type(value), value


def _argument(value: Any) -> Any:
    kinds = {bool: schema.Bool, int: schema.Int, float: schema.Double, str: schema.String}
    if value is None:
        return schema.Null()
    if not isinstance(value, torch.Tensor):
        return kinds[type(value)](value)
    return schema.Tensor(
        scalar_type=scalar_type_enum(value.dtype),
        storage_offset=0,
        sizes=list(value.shape),
        dim_order=list(value.dim_order()),
        requires_grad=False,
        layout=layout_enum(value.layout),
        data_buffer_idx=0,
        allocation_info=None,
        shape_dynamism=schema.TensorShapeDynamism.DYNAMIC_BOUND,
    )
