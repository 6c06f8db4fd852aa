"""Runs an ExecuTorch program in Python, with eager torch as its kernels.

It executes the program that ExecuTorch emitted, instruction by instruction, over the memory that
was planned, so a program with delegates that no runtime here has can be run and checked. The
instructions are those of ExecuTorch's `exir/schema.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from cede.errors import CedeError, LoweringError
from cede.running.kernels import PRIMS, append, resolve, restride
from cede.running.libraries import register
from cede.running.memory import Memory
from cede.running.pte import schema
from cede.running.signature import fit, signature_of, strides_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from cede.running.memory import Slot
    from cede.running.pte import Delegate, Pte

    Call: TypeAlias = Callable[[list[Any]], list[Any]]
    """Given every argument of a delegate call, inputs first, gives the values of the last ones."""

    Handler: TypeAlias = Callable[[Delegate, Sequence[Any]], Call]
    """Loads a delegate. Its second argument is the `EValue.val` of each argument of its call."""

    Step: TypeAlias = Callable[[list[Any]], int | None]
    """One instruction: changes the values, gives the next instruction if it jumps."""


class Interpreter:
    """A loaded program; state lives between calls.

    Args:
        pte: the program.
        handler: loads its delegates.

    Raises:
        LoweringError: an operator or a delegate that can't be run here.
    """

    def __init__(self, pte: Pte, handler: Handler) -> None:
        self._pte = pte
        try:
            memory = Memory(pte)
            self._methods = {name: _Method(pte, name, memory, handler) for name in pte.methods}
        except CedeError:
            raise
        except Exception as error:
            raise LoweringError(
                f"{pte.origin}: a damaged ExecuTorch program ({error}); export it again"
            ) from error

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods."""
        return tuple(self._methods)

    def run(self, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
        """Call a method with its flat inputs, get its flat outputs.

        Raises:
            LoweringError: an unknown method, inputs that don't fit, or an operator that fails.
        """
        signature = signature_of(self._pte, method)
        return self._methods[method](fit(signature, inputs, self._pte.origin))


class _Method:
    def __init__(self, pte: Pte, name: str, memory: Memory, handler: Handler) -> None:
        self._plan = plan = pte.plan(name)
        self._where = f"{pte.origin}: {name}"
        self._slots = memory.slots(plan)
        self._operators: tuple[str, ...] = pte.operators(name)
        register(self._operators)
        self._delegates = pte.delegates(name)
        self._handler = handler
        instructions = plan.chains[0].instructions or ()
        self._steps = [self._step(given.instr_args) for given in instructions]
        self._names = [self._describe(given.instr_args) for given in instructions]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        values = [self._initial(i) for i in range(len(self._plan.values))]
        for i, value in zip(self._plan.inputs, inputs, strict=True):
            planned = i in self._slots and self._slots[i].memory is not None
            values[i] = self._slots[i].store(value) if planned else value
        at = 0
        with torch.no_grad():
            while at < len(self._steps):
                try:
                    target = self._steps[at](values)
                except CedeError as error:
                    raise type(error)(
                        f"{self._where}, instruction {at} ({self._names[at]}): {error}"
                    ) from error
                except Exception as error:
                    raise LoweringError(
                        f"{self._where}, instruction {at} ({self._names[at]}) failed: {error}"
                    ) from error
                at = at + 1 if target is None else target
        return [_own(values[i]) for i in self._plan.outputs]

    def _initial(self, index: int) -> Any:
        if index in self._slots:
            return self._slots[index].tensor()
        value = self._plan.values[index].val
        if isinstance(value, schema.Int | schema.Bool | schema.String):
            return next(iter(vars(value).values()))
        if isinstance(value, schema.Double):
            return float(value.double_val)
        return None  # Null, or a list that is built from other values when it is read

    def _read(self, values: list[Any], index: int) -> Any:
        value = self._plan.values[index].val
        if isinstance(value, schema.IntList | schema.TensorList | schema.OptionalTensorList):
            return [values[i] if i >= 0 else None for i in value.items or ()]
        if isinstance(value, schema.BoolList | schema.DoubleList):
            return [float(v) if isinstance(v, str) else v for v in value.items or ()]
        return values[index]

    def _describe(self, call: Any) -> str:
        if isinstance(call, schema.KernelCall):
            return str(self._operators[call.op_index])
        if isinstance(call, schema.DelegateCall):
            return f"delegate {call.delegate_index} of {self._delegates[call.delegate_index].id}"
        return type(call).__name__

    def _step(self, call: Any) -> Step:
        if isinstance(call, schema.KernelCall):
            name = self._operators[call.op_index]
            if name.startswith("executorch_prim::"):
                return self._prim(name, call.args)
            return self._kernel(resolve(name, self._where), call.args)
        if isinstance(call, schema.DelegateCall):
            return self._delegate(call)
        if isinstance(call, schema.MoveCall):
            return self._move(call)
        if isinstance(call, schema.JumpFalseCall):
            return self._jump(call)
        return self._free(call)

    def _move(self, call: Any) -> Step:
        def step(values: list[Any]) -> None:
            values[call.move_to] = self._read(values, call.move_from)

        return step

    def _jump(self, call: Any) -> Step:
        def step(values: list[Any]) -> int | None:
            return None if bool(values[call.cond_value_index]) else call.destination_instruction

        return step

    def _free(self, call: Any) -> Step:
        def step(values: list[Any]) -> None:
            values[call.value_index] = self._slots[call.value_index].tensor()

        return step

    def _kernel(self, op: Any, args: Sequence[int]) -> Step:
        arguments = op._schema.arguments
        returned = args[len(arguments) :]
        outs = [i for i, argument in zip(args, arguments, strict=False) if argument.is_out]

        def step(values: list[Any]) -> None:
            positional, named = [], {}
            for i, argument in zip(args, arguments, strict=False):
                value = self._fresh(values, i) if argument.is_out else self._read(values, i)
                if argument.kwarg_only:
                    named[argument.name] = value
                else:
                    positional.append(value)
            result = op(*positional, **named)
            if outs:
                self._settle(values, outs)
            else:
                results = result if isinstance(result, tuple | list) else (result,)
                for i, value in zip(returned, results, strict=False):
                    values[i] = value

        return step

    def _fresh(self, values: list[Any], index: int) -> Any:
        listed = self._plan.values[index].val
        if isinstance(listed, schema.TensorList):
            return [self._fresh(values, i) for i in listed.items]
        slot = self._slots.get(index)
        if slot is not None and slot.dynamic and values[index] is not None:
            # An empty tensor takes any shape without torch's warning about resized outputs.
            values[index] = _empty(slot)
        return values[index]

    def _settle(self, values: list[Any], outs: Sequence[int]) -> None:
        for index in outs:
            listed = self._plan.values[index].val
            if isinstance(listed, schema.TensorList):
                self._settle(values, listed.items)
            elif index in self._slots:
                slot = self._slots[index]
                slot.check(values[index].shape)
                values[index] = restride(values[index], slot.dim_order)

    def _prim(self, name: str, args: Sequence[int]) -> Step:
        kind = name.removeprefix("executorch_prim::").partition(".")[0]
        if kind == "et_view":
            return self._view(*args[:3])
        if kind == "et_copy_index":

            def copy(values: list[Any]) -> None:
                target, source, index = (values[i] for i in args[:3])
                self._slots[args[0]].check((index + 1, *source.shape))
                values[args[0]] = append(target, source, index)

            return copy
        if kind not in PRIMS:
            raise LoweringError(f"{self._where}: no kernel for operator {name}")

        def step(values: list[Any]) -> None:
            values[args[-1]] = PRIMS[kind](*(self._read(values, i) for i in args[:-1]))

        return step

    def _view(self, source: int, sizes: int, out: int) -> Step:
        def step(values: list[Any]) -> None:
            given = values[source]
            wanted = list(self._read(values, sizes))
            if -1 in wanted:
                known = -1
                for size in wanted:
                    known *= size
                wanted[wanted.index(-1)] = given.numel() // max(known, 1)
            strides = strides_of(wanted, self._slots[out].dim_order)
            values[out] = given.as_strided(wanted, strides, given.storage_offset())

        return step

    def _delegate(self, call: Any) -> Step:
        schemas = [self._plan.values[i].val for i in call.args]
        run = self._handler(self._delegates[call.delegate_index], schemas)

        def step(values: list[Any]) -> None:
            outputs = run([self._read(values, i) for i in call.args])
            # All are computed before any is stored: an output may lie where an input lay.
            for i, value in zip(call.args[len(call.args) - len(outputs) :], outputs, strict=True):
                store = isinstance(value, torch.Tensor) and i in self._slots
                values[i] = self._slots[i].store(value) if store else value

        return step


def _empty(slot: Slot) -> torch.Tensor:
    if slot.memory is None:
        return torch.empty(0, dtype=slot.dtype)
    return slot.memory.as_strided((0,), (1,), slot.memory.storage_offset())


def _own(value: Any) -> Any:
    # The arenas are used again by the next call.
    return value.clone() if isinstance(value, torch.Tensor) else value
