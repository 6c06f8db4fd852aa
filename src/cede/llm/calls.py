"""Calls of an LLM with a text, to fit the scales of its weights to."""

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
