"""The compiler of reference delegates, as ExecuTorch finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

from cede.backends.reference.payload import dump

if TYPE_CHECKING:
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch.export import ExportedProgram


class CedeReferenceBackend(BackendDetails):  # type: ignore[misc]
    """Serializes the subprogram as it is. ExecuTorch looks it up by its class name."""

    @classmethod
    def copy_exported_program_for_preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """The program itself: `preprocess` copies what it changes, and no weights."""
        return edge_program

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Serialize the subprogram. Raises LoweringError naming what can't be."""
        return PreprocessResult(processed_bytes=dump(edge_program))
