"""Example inputs of a method, and which sizes of them vary."""

from __future__ import annotations

from typing import Any


def example_inputs(llm: Any, count: int | None = None) -> tuple[tuple[Any, ...], Any]:
    """Example inputs and dynamic shapes, as `export_llm` has them.

    Args:
        llm: an instance of `LlmConfig`.
        count: of tokens, None for the usual. One token is all that the method takes then: a size
            of 1 can't vary in `torch.export`.
    """
    import torch

    cached = llm.model.use_kv_cache
    dynamic = llm.model.enable_dynamic_shape and count != 1
    if cached:
        held = [2, 3, 4] if dynamic else [1]
        count = count or len(held)
        tokens = torch.tensor([[*held, *[1] * count][:count]])
        first = torch.tensor([0])
        position = first if llm.model.enable_dynamic_shape else torch.arange(count)
        args: tuple[Any, ...] = (tokens, {"input_pos": position})
        more: tuple[Any, ...] = ({"input_pos": {0: 1}},)
    else:
        count = count or llm.export.max_seq_length - (1 if dynamic else 0)
        args, more = (torch.ones(1, count, dtype=torch.long),), ()
    if not dynamic:
        return args, None
    size = torch.export.Dim("token_dim", max=llm.export.max_seq_length - 1)
    return args, ({1: size}, *more)
