"""Delegates that were compiled before."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from executorch.exir._serialize._named_data_store import NamedDataStoreOutput
from executorch.exir._serialize.data_serializer import DataEntry
from executorch.exir.backend.backend_details import PreprocessResult

from cede.lowering.contents import has_modules, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch.export import ExportedProgram

    from cede.store import Store

_SIZE = struct.Struct("<Q")


class Kept:
    """Compiles a delegate, or gets it from the cache."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __call__(
        self,
        backend: str,
        program: ExportedProgram,
        specs: Sequence[CompileSpec],
        work: Callable[[], PreprocessResult],
    ) -> PreprocessResult:
        """What `work` makes of a program, or made of an equal one before."""
        key = None if has_modules(program) else key_of(backend, program, specs)
        if key is None:
            return work()
        data = self.store.get(key)
        if data is not None:
            return _read(data)
        made = work()
        written = _write(made)
        if written is not None:
            self.store.put(key, *written)
        return made


def _write(made: PreprocessResult) -> tuple[bytes, ...] | None:
    """A compiler's outcome as bytes; None where it has more than that."""
    named = made.data_store_output
    if made.debug_handle_map or made._delegate_info_meta is not None:
        return None
    head: dict[str, Any] = {"named": named is not None}
    parts = [bytes(made.processed_bytes)]
    if named is not None:
        entries = [*named.pte_data.values()]
        entries += [e for group in named.external_data.values() for e in group.values()]
        if any(entry.tensor_layout is not None for entry in entries):
            return None
        if not all(isinstance(each, (bytes, bytearray, memoryview)) for each in named.buffers):
            return None  # they lie in a file
        head["pte"] = _entries(named.pte_data)
        head["external"] = {name: _entries(held) for name, held in named.external_data.items()}
        parts += [bytes(each) for each in named.buffers]
    head["sizes"] = [len(part) for part in parts]
    text = json.dumps(head).encode()
    return _SIZE.pack(len(text)), text, *parts


def _entries(held: dict[str, DataEntry]) -> dict[str, list[int]]:
    return {key: [entry.buffer_index, entry.alignment] for key, entry in held.items()}


def _read(data: memoryview) -> PreprocessResult:
    (size,) = _SIZE.unpack_from(data)
    head = json.loads(bytes(data[_SIZE.size : _SIZE.size + size]))
    at, parts = _SIZE.size + size, []
    for length in head["sizes"]:
        parts.append(bytes(data[at : at + length]))
        at += length
    named = None
    if head["named"]:
        external = {name: _data(held) for name, held in head["external"].items()}
        named = NamedDataStoreOutput(
            buffers=parts[1:], pte_data=_data(head["pte"]), external_data=external
        )
    return PreprocessResult(processed_bytes=parts[0], debug_handle_map={}, data_store_output=named)


def _data(held: dict[str, list[int]]) -> dict[str, DataEntry]:
    return {key: DataEntry(index, alignment, None) for key, (index, alignment) in held.items()}
