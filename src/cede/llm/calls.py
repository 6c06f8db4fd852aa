"""Calls of an LLM with a text, to fit the scales of its numbers to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    return list(_calls(tokenizer.encode(text), llm))


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
    ids = tokenizer.encode(text)
    if llm.model.use_kv_cache:
        context = llm.export.max_context_length
        return [
            (torch.tensor([[id]]), {"input_pos": torch.tensor([i % context])})
            for i, id in enumerate(ids)
        ]
    most = llm.export.max_seq_length
    whole = ids * -(-most // len(ids)) if len(ids) < most else ids
    return [(torch.tensor([whole[i : i + most]]),) for i in range(0, len(whole) - most + 1, most)]


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
