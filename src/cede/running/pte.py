"""Reading and writing ExecuTorch programs (`.pte`).

The format is ExecuTorch's `schema/program.fbs`: a flatbuffer with the identifier "ET12", an
optional extended header ("eh00") behind it, and data segments. This is the only file that knows
ExecuTorch's serializer of programs, which is not public; `weights.py` has that of data files.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from executorch.exir import schema
from executorch.exir._serialize import (
    _deserialize_pte_binary,
    _PTEFile,
    _serialize_pte_binary,
)
from executorch.exir._serialize._named_data_store import NamedDataStoreOutput
from executorch.exir._serialize.data_serializer import DataEntry
from executorch.runtime import Runtime, Verification

from cede.errors import LoweringError
from cede.running.indices import check_indices
from cede.running.weights import (
    ADAPTERS,
    PAIRS,
    content,
    insist_on_pair,
    read_weights,
    weights_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cede.running.weights import Files

__all__ = [
    "Delegate",
    "Pte",
    "delegates_of",
    "named_data",
    "operators_of",
    "read",
    "read_file",
    "schema",
    "write",
]

_HEAD = struct.Struct("<4x4s4sIQQ")  # root offset, identifier, "eh00", length, sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegate:
    """One delegate of a method.

    Attributes:
        id: the backend id that stands in the program.
        data: what the backend's compiler made.
        specs: its compile specs.
        named: the named data of the whole program, which delegates share.
    """

    id: str
    data: bytes
    specs: tuple[tuple[str, bytes], ...] = ()
    named: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pte:
    """A parsed program.

    Attributes:
        origin: what error messages call it.
        data: the file's bytes; ExecuTorch's runtime points into them while it has the program.
        program: the `executorch.exir.schema.Program`, its segments put back in place.
        mutable: initial values of mutable buffers, by data buffer index.
        named: named data by key, that of the data file too.
        weights: bytes of the data file, b"" for none.
    """

    origin: str
    data: bytes = field(repr=False)
    program: Any = field(repr=False)
    mutable: tuple[bytes, ...] = field(repr=False)
    named: Mapping[str, bytes] = field(repr=False)
    weights: bytes = field(default=b"", repr=False)

    @property
    def lacks(self) -> tuple[str, ...]:
        """Names of the constants that stand in a data file and are not there.

        What delegates have there has no names: "what its delegates hold".
        """
        delegates = {
            f"what its delegates hold{' of an adapter' if kind == ADAPTERS else ''}": None
            for kind, (needs, has) in PAIRS.items()
            if needs in self.named and has not in self.named
        }
        return tuple(
            delegates
            | dict.fromkeys(
                extra.fully_qualified_name
                for plan in self.program.execution_plan
                for value in plan.values
                if isinstance(value.val, schema.Tensor)
                and (extra := value.val.extra_tensor_info) is not None
                and extra.location == schema.TensorDataLocation.EXTERNAL
                and extra.fully_qualified_name not in self.named
            )
        )

    @property
    def whole(self) -> bytes:
        """The program as one file: with what stands in its data file as named data."""
        if not self.weights:
            return self.data
        return write(self.program, self.named, mutable=self.mutable)

    def plan(self, method: str) -> Any:
        """The `ExecutionPlan` of a method. Raises LoweringError for a method it does not have."""
        for plan in self.program.execution_plan:
            if plan.name == method:
                return plan
        known = ", ".join(plan.name for plan in self.program.execution_plan)
        raise LoweringError(f"{self.origin}: no method {method!r}; it has {known}")

    def delegates(self, method: str) -> tuple[Delegate, ...]:
        """The delegates of a method, in the order their calls refer to."""
        return tuple(
            Delegate(
                id=given.id,
                data=bytes(self.program.backend_delegate_data[given.processed.index].data),
                specs=tuple((spec.key, bytes(spec.value)) for spec in given.compile_specs or ()),
                named=self.named,
            )
            for given in self.plan(method).delegates
        )

    def operators(self, method: str) -> tuple[str, ...]:
        """Operators that the method calls, as ExecuTorch's runtime names them ("aten::add.out")."""
        return tuple(
            f"{given.name}.{given.overload}" if given.overload else given.name
            for given in self.plan(method).operators
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods."""
        return tuple(plan.name for plan in self.program.execution_plan)


def read_file(path: Path | str, weights: Files | None = None) -> Pte:
    """Read a `.pte` file, and its `.ptd` files if any. Raises LoweringError with the path."""
    data = content(path)
    return read(data, str(path)) if not weights else read(data, str(path), *weights_in(weights))


def read(
    data: bytes,
    origin: str = "program",
    weights: bytes | None = None,
    weights_origin: str = "its weights",
) -> Pte:
    """Parse a program.

    Args:
        data: the bytes of a `.pte` file.
        origin: what error messages call it.
        weights: the bytes of its `.ptd` file, None for none.
        weights_origin: what error messages call that.

    Raises:
        LoweringError: no ExecuTorch program, or a truncated or damaged one; the same of its
            weights.
    """
    _check_sizes(data, origin)
    outside = {} if weights is None else read_weights(weights, weights_origin)
    try:
        found = _parsed(data, origin, outside, weights or b"")
        check_indices(found)
    except Exception as error:
        raise LoweringError(
            f"{origin}: a damaged ExecuTorch program ({_first_line(error)}); export it again"
        ) from error
    insist_on_pair(found, weights_origin)
    return found


def _parsed(data: bytes, origin: str, outside: Mapping[str, bytes], weights: bytes) -> Pte:
    # The runtime's own verifier first: the Python parser trusts what it reads.
    Runtime.get().load_program(data, verification=Verification.InternalConsistency)
    parsed = _deserialize_pte_binary(data)
    return Pte(
        origin=origin,
        data=data,
        program=parsed.program,
        mutable=tuple(bytes(buffer.storage) for buffer in parsed.mutable_data or ()),
        named={**named_data(parsed.named_data), **outside},
        weights=weights,
    )


def write(
    program: Any,
    named: Mapping[str, bytes] | None = None,
    *,
    mutable: Sequence[bytes] = (),
    alignment: int = 128,
) -> bytes:
    """Serialize a `schema.Program` whose data stands in its buffers.

    Args:
        program: the program; not changed.
        named: named data by key.
        mutable: initial values of mutable buffers.
        alignment: of segments and named data, in bytes.
    """
    store = None
    if named:
        store = NamedDataStoreOutput(
            buffers=list(named.values()),
            pte_data={
                key: DataEntry(buffer_index=i, alignment=alignment, tensor_layout=None)
                for i, key in enumerate(named)
            },
            external_data={},
        )
    return bytes(
        _serialize_pte_binary(
            pte_file=_PTEFile(
                program=program,
                mutable_data=[schema.Buffer(storage=each) for each in mutable] or None,
                named_data=store,
            ),
            extract_delegate_segments=True,
            segment_alignment=alignment,
        )
    )


def delegates_of(data: bytes, origin: str = "program") -> list[tuple[int, str, bytes]]:
    """Every delegate of a program: running index over all methods, backend id, payload."""
    pte = read(data, origin)
    found = [delegate for method in pte.methods for delegate in pte.delegates(method)]
    return [(i, delegate.id, delegate.data) for i, delegate in enumerate(found)]


def operators_of(data: bytes, origin: str = "program") -> list[str]:
    """Operators that a program calls outside its delegates ("aten::add.out"), sorted."""
    pte = read(data, origin)
    return sorted({name for method in pte.methods for name in pte.operators(method)})


def _check_sizes(data: bytes, origin: str) -> None:
    if len(data) < _HEAD.size:
        raise LoweringError(
            f"{origin}: {len(data)} bytes are no ExecuTorch program; give a .pte file"
        )
    identifier, magic, length, program_size, base = _HEAD.unpack_from(data)
    if identifier[:2] == b"BP":
        raise LoweringError(f"{origin}: a bundled program (.bpte); give the plain .pte file")
    if identifier[:2] != b"ET":
        raise LoweringError(
            f"{origin}: no ExecuTorch program (identifier {identifier!r}, expected b'ET12');"
            " give a .pte file"
        )
    if magic != b"eh00":
        return
    segments = struct.unpack_from("<Q", data, _HEAD.size)[0] if length > 24 else 0
    expected = max(program_size, base + segments)
    if len(data) < expected:
        raise LoweringError(
            f"{origin}: truncated: {len(data)} bytes, its header says {expected}; copy or export"
            " it again"
        )


def named_data(output: Any) -> dict[str, bytes]:
    """The named data of a `NamedDataStoreOutput`, or of None, by key."""
    if output is None:
        return {}
    return {key: bytes(output.buffers[e.buffer_index]) for key, e in output.pte_data.items()}


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
