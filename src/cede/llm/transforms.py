"""More of what is taken from inside ExecuTorch's LLM export (1.5.1): `source_transformation/`.

Each function changes the transformer that it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def pruned(model: torch.nn.Module, maps: Mapping[str, Mapping[int, int]]) -> torch.nn.Module:
    """The transformer with some rows of its embedding and of its output (`prune_vocab.py`).

    Args:
        model: with weights; made with these maps.
        maps: "input_prune_map" and "output_prune_map": new id -> id of before.
    """
    from executorch.examples.models.llama.source_transformation import prune_vocab

    with torch.no_grad():
        if found := maps.get("input_prune_map"):
            model = prune_vocab.prune_input_vocab(model, dict(found))
        if found := maps.get("output_prune_map"):
            model = prune_vocab.prune_output_vocab(model, dict(found))
    return model.requires_grad_(False)


def with_expanded_tables(model: torch.nn.Module) -> torch.nn.Module:
    """The transformer with a row of the rotary tables for every head (`rope.py`)."""
    from executorch.examples.models.llama.source_transformation.rope import (
        materialze_broadcast_of_rope_freq_cis,
    )

    made: torch.nn.Module = materialze_broadcast_of_rope_freq_cis(model)
    return made


def with_static_caches(
    model: torch.nn.Module, scale: float, *, custom_update: bool
) -> torch.nn.Module:
    """The transformer with int8 caches, one scale a value of a head (`custom_kv_cache.py`).

    Args:
        model: with ordinary caches.
        scale: of all values.
        custom_update: whether `llama::update_cache` writes them.
    """
    from executorch.examples.models.llama.source_transformation import custom_kv_cache

    made: torch.nn.Module = custom_kv_cache.replace_kv_cache_with_static_quantized_kv_cache(
        model, scale, custom_update
    )
    return made


def calibrate_caches(model: torch.nn.Module, calls: Iterable[tuple[Any, ...]]) -> None:
    """Set the scales of static caches by the largest keys and values of some calls."""
    from executorch.examples.models.llama.source_transformation import custom_kv_cache

    custom_kv_cache.enable_static_kv_cache_calibration(model)
    with torch.no_grad():
        for call in calls:
            model(*call)
        custom_kv_cache.finalize_static_kv_cache_calibration(model)


def with_hadamard(model: torch.nn.Module) -> torch.nn.Module:
    """The transformer with SpinQuant's fourth rotation in each feed-forward (`spin_quant.py`).

    It is `llama::fast_hadamard_transform`, which the runtime has.
    """
    from executorch.examples.models.llama.source_transformation.spin_quant import (
        inject_fast_hadamard_transform_native_for_spin_quant,
    )
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  registers it

    made: torch.nn.Module = inject_fast_hadamard_transform_native_for_spin_quant(model)
    return made


def rotated_sizes(model: torch.nn.Module) -> list[int]:
    """How many values each of these rotations would turn."""
    from executorch.examples.models.llama.feed_forward import FeedForward

    found: list[Any] = [each for each in model.modules() if isinstance(each, FeedForward)]
    return [each.w2.in_features for each in found]
