"""A program to hold a plugin against: a model, and what it is called with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A model with calls.

    Attributes:
        model: put into eval mode and exported without gradients.
        calls: positional inputs of each call, in order; the first is exported with. State lives
            from one call to the next.
        dynamic_shapes: as `torch.export.export` takes them.
        needs: operators without overload ("acme.rotate") that neither ExecuTorch's runtime nor a
            decomposition has. Where the plugin leaves one, the program isn't lowered.
    """

    model: torch.nn.Module
    calls: tuple[tuple[Any, ...], ...]
    dynamic_shapes: Any = None
    needs: tuple[str, ...] = ()

    def export(self) -> torch.export.ExportedProgram:
        """The exported program. Raises what `torch.export.export` raises."""
        import torch

        with torch.no_grad():
            return torch.export.export(
                self.model.eval(), self.calls[0], dynamic_shapes=self.dynamic_shapes
            )
