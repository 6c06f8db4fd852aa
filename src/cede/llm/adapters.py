"""The adapters of all methods, held against the transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.errors import CheckpointError
from cede.llm.adapter_file import adapter_inside, read_adapter
from cede.llm.methods import FORWARD
from cede.llm.shared import OUTPUT

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from cede.config.fit import Problems
    from cede.llm.adapter_file import Adapter
    from cede.llm.settings import LlmSettings
    from cede.llm.weights import Weights


def adapters_for(
    settings: LlmSettings,
    module: torch.nn.Module,
    params: Mapping[str, Any],
    weights: Weights | None,
    problems: Problems,
) -> tuple[dict[str, Adapter], Weights | None]:
    """Adapters by the method that has them, and the weights without adapters of their own.

    Args:
        settings: of the export.
        module: the transformer, on the meta device.
        params: what that was made from.
        weights: of the checkpoint, None for random ones.
        problems: where problems are added: matrices that don't fit, files that can't be read.
    """
    found: dict[str, Adapter] = {}
    for method in settings.methods:
        asked = method.adapter
        if asked is None:
            continue
        try:
            found[method.name] = read_adapter(asked, module, params, problems)
        except CheckpointError as error:
            problems.add(f"{asked.path}.adapter_checkpoint", str(error))
        else:
            if settings.llm.model.output_prune_map and OUTPUT in found[method.name].pairs:
                problems.add(
                    f"{asked.path}.adapter_checkpoint",
                    f"an adapter of {OUTPUT} does not go with model.output_prune_map",
                )
    rank = settings.llm.base.use_lora
    if rank and weights is not None:
        found[FORWARD], weights = adapter_inside(weights, rank, module, params, problems)
    return found, weights
