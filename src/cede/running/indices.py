"""The references within a program: values, operators, delegates, instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from executorch.exir import schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cede.running.pte import Pte


def check_indices(pte: Pte) -> None:
    """Whether everything that a program refers to is there; the runtime trusts that it is.

    Raises:
        ValueError: something is not.
    """
    data = pte.program.backend_delegate_data
    for plan in pte.program.execution_plan:
        count = len(plan.values)
        if not plan.non_const_buffer_sizes:  # ExecuTorch's runtime aborts the process on it
            raise ValueError(f"{plan.name} has no memory plan")
        if len(plan.chains) != 1:
            raise ValueError(f"{plan.name} has {len(plan.chains)} chains")
        _within(plan.inputs, count, f"inputs of {plan.name}")
        _within(plan.outputs, count, f"outputs of {plan.name}")
        _within([given.processed.index for given in plan.delegates], len(data), plan.name)
        for i, value in enumerate(plan.values):
            _check_value(value.val, count, f"value {i} of {plan.name}")
        for i, instruction in enumerate(plan.chains[0].instructions or ()):
            _check_call(instruction.instr_args, plan, f"instruction {i} of {plan.name}")


def _check_call(call: Any, plan: Any, where: str) -> None:
    count = len(plan.values)
    if isinstance(call, schema.KernelCall):
        _within(call.args, count, where)
        _within([call.op_index], len(plan.operators), where)
    elif isinstance(call, schema.DelegateCall):
        _within(call.args, count, where)
        _within([call.delegate_index], len(plan.delegates), where)
    elif isinstance(call, schema.MoveCall):
        _within([call.move_from, call.move_to], count, where)
    elif isinstance(call, schema.JumpFalseCall):
        _within([call.cond_value_index], count, where)
        _within([call.destination_instruction], len(plan.chains[0].instructions) + 1, where)
    elif isinstance(call, schema.FreeCall):
        _within([call.value_index], count, where)


def _check_value(value: Any, count: int, where: str) -> None:
    if isinstance(value, schema.IntList | schema.TensorList):
        _within(value.items or (), count, where)
    elif isinstance(value, schema.OptionalTensorList):
        _within((i for i in value.items or () if i != -1), count, where)
    elif isinstance(value, schema.Tensor):
        sizes, order = value.sizes or (), value.dim_order or ()
        if min(sizes, default=0) < 0 or sorted(order) != list(range(len(sizes))):
            raise ValueError(f"{where} has sizes {list(sizes)} in the order {list(order)}")


def _within(indices: Iterable[int], count: int, where: str) -> None:
    for index in indices:
        if not 0 <= index < count:
            raise ValueError(f"{where} refers to entry {index} of {count}")
