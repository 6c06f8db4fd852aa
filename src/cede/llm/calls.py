"""Calls of an LLM with a text, to fit the scales of its numbers to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.config.fit import Problems
from cede.errors import ConfigError
from cede.llm.pruned import token_map

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cede.llm.tokens import Tokenizer


def calls_with(text: str, tokenizer: Tokenizer, llm: Any) -> list[tuple[Any, ...]]:
    """Positional inputs of calls that read a text, as many tokens each as a call may have.

    Args:
        text: a text like those to come.
        tokenizer: of the model.
        llm: an instance of `LlmConfig`.
    """
    return list(_calls(_ids(text, tokenizer, llm), llm))


def program_calls(text: str, tokenizer: Tokenizer, llm: Any) -> list[tuple[Any, ...]]:
    """Positional inputs of calls of the exported program, whose sizes may be fixed.

    Args:
        text: as `calls_with` has it.
        tokenizer: as there.
        llm: as there.
    """
    import torch

    if llm.model.enable_dynamic_shape:
        return calls_with(text, tokenizer, llm)
    ids = _ids(text, tokenizer, llm)
    if llm.model.use_kv_cache:
        context = llm.export.max_context_length
        return [
            (torch.tensor([[id]]), {"input_pos": torch.tensor([i % context])})
            for i, id in enumerate(ids)
        ]
    most = llm.export.max_seq_length
    whole = ids * -(-most // len(ids)) if len(ids) < most else ids
    return [(torch.tensor([whole[i : i + most]]),) for i in range(0, len(whole) - most + 1, most)]


def _ids(text: str, tokenizer: Tokenizer, llm: Any) -> list[int]:
    """Of the tokens that the model reads; a pruned vocabulary has lost the others."""
    ids = tokenizer.encode(text)[: llm.quantization.calibration_seq_length]
    if not llm.model.input_prune_map:
        return ids
    given = token_map(llm.model.input_prune_map, "model.input_prune_map", Problems(origin=str))
    new = {old: i for i, old in given.items()}
    kept = [new[id] for id in ids if id in new]
    if ids and not kept:
        raise ConfigError(
            "quantization.calibration_data: model.input_prune_map keeps none of its tokens"
        )
    return kept


def _calls(ids: Sequence[int], llm: Any) -> Iterator[tuple[Any, ...]]:
    import torch

    most = llm.export.max_seq_length - (1 if llm.model.enable_dynamic_shape else 0)
    for i in range(0, len(ids), most):
        tokens = torch.tensor([ids[i : i + most]])
        if not llm.model.use_kv_cache:
            yield (tokens,)
        elif llm.model.enable_dynamic_shape:
            yield tokens, {"input_pos": torch.tensor([0])}
        else:
            yield tokens, {"input_pos": torch.arange(tokens.shape[1])}
