"""Programs in ExecuTorch's own runtime, and single delegates in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.tensor import get_scalar_type
from executorch.runtime import Runtime

from cede.errors import LoweringError
from cede.running.libraries import advice, register
from cede.running.pte import read, schema, write
from cede.running.signature import fit, laid_out, signature_of
from cede.running.weights import Weights

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cede.running.interpreter import Call
    from cede.running.pte import Delegate, Pte

_ALIGNMENT = 64
"""Of planned tensors, in bytes; ExecuTorch plans with 16, delegates may want a cache line."""


def registered() -> frozenset[str]:
    """Ids of the delegates that ExecuTorch's runtime has compiled in here."""
    return frozenset(Runtime.get().backend_registry.registered_backend_names)


class RuntimeProgram:
    """A program in ExecuTorch's runtime; state lives between calls.

    Args:
        pte: the program. Its bytes are kept: the runtime reads weights from them.
        path: of the file it came from, if the runtime shall read that itself.
        weights: of its data file, likewise; the runtime reads one from a file only.

    Raises:
        LoweringError: the runtime refuses the program.
    """

    def __init__(
        self, pte: Pte, path: Path | str | None = None, weights: Path | str | None = None
    ) -> None:
        self._pte = pte
        self._weights = Weights(pte, weights)
        self._methods: dict[str, Any] = {}
        register(name for method in pte.methods for name in pte.operators(method))
        try:
            self._program = Runtime.get().load_program(
                pte.data if path is None else path, data_path=self._weights.path
            )
        except RuntimeError as error:
            raise LoweringError(f"{pte.origin}: ExecuTorch can't load it: {error}") from error

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods."""
        return self._pte.methods

    def load(self, method: str) -> Any:
        """Load a method, once; `run` does it when needed.

        Raises:
            LoweringError: an unknown method, an operator without a kernel here, or a delegate
                that fails to start.
        """
        if method not in self._methods:
            where = f"{self._pte.origin}: {method}"
            present = Runtime.get().operator_registry.operator_names
            for name in self._pte.operators(method):
                if name not in present:
                    raise LoweringError(
                        f"{where}: ExecuTorch's runtime has no kernel for operator {name};"
                        f" {advice(name)}"
                    )
            try:
                self._methods[method] = self._program.load_method(method)
            except RuntimeError as error:
                ids = ", ".join(sorted({d.id for d in self._pte.delegates(method)})) or "none"
                raise LoweringError(
                    f"{where}: ExecuTorch can't load it (delegates: {ids}): {error}"
                ) from error
        return self._methods[method]

    def run(self, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
        """Call a method with its flat inputs, get its flat outputs.

        Raises:
            LoweringError: an unknown method, inputs that don't fit, or a failure in the runtime.
        """
        given = fit(signature_of(self._pte, method), inputs, self._pte.origin)
        loaded = self.load(method)
        try:
            return list(loaded.execute(given))
        except RuntimeError as error:
            raise LoweringError(f"{self._pte.origin}: {method} failed: {error}") from error


def run_delegate(delegate: Delegate, arguments: Sequence[Any]) -> Call:
    """Load one delegate into ExecuTorch's runtime, as a program that does nothing but call it.

    Every argument of the call is an input and an output of that program: which of them the
    delegate writes is known to the delegate alone.

    Args:
        delegate: the delegate.
        arguments: `EValue.val` of each argument of its call.

    Raises:
        LoweringError: no such delegate in this runtime, or it fails to start.
    """
    if delegate.id not in registered():
        raise LoweringError(
            f"no runtime here for the delegate {delegate.id}; ExecuTorch's has"
            f" {', '.join(sorted(registered()))}: install a build of executorch with that delegate"
        )
    tensors = [i for i, value in enumerate(arguments) if isinstance(value, schema.Tensor)]
    loaded: dict[tuple[Any, ...], RuntimeProgram] = {}

    def call(values: list[Any]) -> list[Any]:
        numbers = tuple(value for i, value in enumerate(values) if i not in tensors)
        if numbers not in loaded:
            program = program_of(delegate, [*_literals(arguments, values)])
            loaded[numbers] = RuntimeProgram(read(program, f"delegate {delegate.id}"))
        given = [laid_out(values[i], arguments[i].dim_order) for i in tensors]
        results = iter(loaded[numbers].run(given))
        return [next(results) if i in tensors else value for i, value in enumerate(values)]

    return call


def _literals(arguments: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    kinds = {bool: schema.Bool, int: schema.Int, float: schema.Double, str: schema.String}
    return [
        argument
        if isinstance(argument, schema.Tensor)
        else (schema.Null() if value is None else kinds[type(value)](value))
        for argument, value in zip(arguments, values, strict=True)
    ]


def program_of(delegate: Delegate, arguments: Sequence[Any]) -> bytes:
    """A program that does nothing but call a delegate.

    Args:
        delegate: the delegate.
        arguments: of its call, as `EValue` takes them; the tensors among them are both the inputs
            and the outputs of the program's "forward".
    """
    values, end = [], 0
    for value in arguments:
        if isinstance(value, schema.Tensor):
            placed, end = _placed(value, end)
            values.append(schema.EValue(placed))
        else:
            values.append(schema.EValue(value))
    tensors = [i for i, value in enumerate(arguments) if isinstance(value, schema.Tensor)]
    plan = _plan(delegate, values, tensors, end)
    program = schema.Program(
        version=0,
        execution_plan=[plan],
        constant_buffer=[schema.Buffer(storage=b"")],
        backend_delegate_data=[schema.BackendDelegateInlineData(data=delegate.data)],
        segments=[],
        constant_segment=schema.SubsegmentOffsets(segment_index=0, offsets=[]),
    )
    return write(program, _used(delegate))


def _plan(delegate: Delegate, values: list[Any], tensors: list[int], end: int) -> Any:
    """An execution plan whose only instruction calls the delegate with all the values."""
    call = schema.DelegateCall(delegate_index=0, args=list(range(len(values))))
    chain = schema.Chain(
        inputs=[], outputs=[], instructions=[schema.Instruction(call)], stacktrace=None
    )
    reference = schema.BackendDelegateDataReference(location=schema.DataLocation.INLINE, index=0)
    return schema.ExecutionPlan(
        name="forward",
        container_meta_type=schema.ContainerMetadata("", ""),
        values=values,
        inputs=tensors,
        outputs=tensors,
        chains=[chain],
        operators=[],
        delegates=[
            schema.BackendDelegate(
                id=delegate.id,
                processed=reference,
                compile_specs=[CompileSpec(key, value) for key, value in delegate.specs],
            )
        ],
        non_const_buffer_sizes=[0, end],
    )


def _placed(value: Any, begin: int) -> tuple[Any, int]:
    count = get_scalar_type(value.scalar_type).itemsize
    for size in value.sizes or ():
        count *= size
    info = schema.AllocationDetails(
        memory_id=1, memory_offset_low=begin & 0xFFFFFFFF, memory_offset_high=begin >> 32
    )
    placed = schema.Tensor(
        scalar_type=value.scalar_type,
        storage_offset=0,
        sizes=list(value.sizes or ()),
        dim_order=list(value.dim_order or ()),
        requires_grad=False,
        layout=value.layout,
        data_buffer_idx=0,
        allocation_info=info,
        shape_dynamism=value.shape_dynamism,
    )
    return placed, begin + -(-count // _ALIGNMENT) * _ALIGNMENT


def _used(delegate: Delegate) -> dict[str, bytes]:
    """The named data that the payload mentions; all of it where keys are made up while running."""
    found = {key: data for key, data in delegate.named.items() if key.encode() in delegate.data}
    return found or dict(delegate.named)
