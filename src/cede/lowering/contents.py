"""What a delegate is made from, as a key: equal keys, equal delegates."""

from __future__ import annotations

import hashlib
import inspect
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from executorch.exir.backend.backend_details import BackendDetails
from torch.fx import GraphModule

from cede.programs import content
from cede.programs.content import Opaque, digest
from cede.programs.versions import installed, own_sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch.export import ExportedProgram


def key_of(backend: str, program: ExportedProgram, specs: Sequence[CompileSpec]) -> str | None:
    """The key of a delegate, None where it can't be told.

    SHA-256 over the backend's id and code, all installed versions, the compile specs, the
    signature, the graph with the facts of each node, and the bytes of each constant.
    """
    try:
        return digest(_parts(backend, program, specs))
    except Opaque:
        return None


def _parts(backend: str, program: ExportedProgram, specs: Sequence[CompileSpec]) -> Iterator[str]:
    yield f"{backend} {_code(backend)} {installed()}"
    yield repr([(spec.key, bytes(spec.value)) for spec in specs])
    yield f"{program.graph_signature.input_specs} {program.graph_signature.output_specs}"
    yield repr(sorted((str(k), str(v)) for k, v in program.range_constraints.items()))
    yield from content.nodes(program.graph)
    yield from content.constants({**program.state_dict, **program.constants})


@cache
def _code(backend: str) -> str:
    """Hashes of cede's own sources and of the file of a compiler."""
    kind = next(each for each in BackendDetails.__subclasses__() if each.__name__ == backend)
    source = inspect.getsourcefile(kind)
    own = hashlib.sha256(Path(source).read_bytes()).hexdigest() if source else ""
    return f"{own_sources()} {own}"


def has_modules(program: ExportedProgram) -> bool:
    """Whether a graph holds other graphs, whose content the key does not tell."""
    return any(isinstance(each, GraphModule) for each in program.graph_module.children())
