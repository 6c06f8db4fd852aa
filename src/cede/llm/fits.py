"""Whether a checkpoint is of the model that its params make."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cede.llm.delegates import products
from cede.llm.weights import TIED

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from cede.config import Config
    from cede.config.fit import Problems
    from cede.llm.weights import Weights

_LAYER = re.compile(r"(?:layers|model\.layers|blk)\.(\d+)\.")


def fits(
    module: torch.nn.Module,
    weights: Weights,
    params: Mapping[str, Any],
    problems: Problems,
    notes: list[str],
) -> None:
    """Add tensors that are missing, of another shape, or of a layer that has no place for them.

    Args:
        module: the transformer.
        weights: the checkpoint.
        params: what the transformer was made from.
        problems: where problems are added.
        notes: where tensors of no use are told.
    """
    wanted = {name: tuple(value.shape) for name, value in module.named_parameters()}
    shapes = {name: tuple(value.shape) for name, value in weights.tensors.items()}
    if TIED[1] in shapes:
        shapes.setdefault(TIED[0], shapes[TIED[1]])
    missing = [name for name in wanted if name not in shapes]
    if missing:
        problems.add("base.checkpoint", f"lacks {len(missing)} tensors: {_some(missing)}")
    for name in wanted.keys() & shapes.keys():
        if wanted[name] != shapes[name]:
            problems.add(
                "base.checkpoint",
                f"{name} is {list(shapes[name])}, but the params make it {list(wanted[name])}",
            )
    known = {*wanted, *(name for name, _ in module.named_buffers())}
    unused = [*weights.unknown, *(name for name in shapes if name not in known)]
    _unused(unused, params["n_layers"], problems, notes)


def _unused(unused: list[str], layers: int, problems: Problems, notes: list[str]) -> None:
    inside = {name: int(found[1]) for name in unused if (found := _LAYER.match(name))}
    deeper = [name for name, layer in inside.items() if layer >= layers]
    if deeper:
        problems.add("base.params", f"the checkpoint has more than n_layers: {_some(deeper)}")
    if strange := [name for name in inside if name not in deeper]:
        problems.add(
            "base.checkpoint",
            f"the transformer has no place for {_some(strange)}: give params that make one, or"
            " it is a model that can't be converted",
        )
    if rest := [name for name in unused if name not in inside]:
        notes.append(f"left in the checkpoint: {_some(rest)}")


def context_fits(
    weights: Weights | None,
    params: Mapping[str, Any],
    llm: Any,
    problems: Problems,
    notes: list[str],
) -> None:
    """Add a context in which the model would look back further than it was trained to."""
    context = llm.export.max_context_length
    short = params.get("original_max_position_embeddings")
    if params.get("rope_scaling_long_factor") and short and context > short:
        notes.append(
            f"export.max_context_length is above {short}: the rotary embedding has the factors of"
            " long texts for all texts"
        )
    if weights is None:
        return
    if weights.window and context > weights.window and not llm.model.local_global_attention:
        problems.add(
            "export.max_context_length",
            f"is {context}, but attention of this model looks back {weights.window} tokens:"
            f" give {weights.window} or less, or windows as model.local_global_attention",
        )


def heads_fit(llm: Any, params: Mapping[str, Any], config: Config, problems: Problems) -> None:
    """Add heads that `model.expand_rope_table` has no table for."""
    if not llm.model.expand_rope_table:
        return
    heads, groups = params["n_heads"], params.get("n_kv_heads")
    if groups and groups != heads:
        problems.add(
            "model.expand_rope_table",
            f"has one table for the heads of q and k, and the model has {heads} and {groups}:"
            " leave it out",
        )
    if params.get("use_hf_rope") and not products(config):
        problems.add(
            "model.expand_rope_table",
            "the rotation of this model, in halves as Hugging Face has it, takes no table a head:"
            " leave it out",
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
