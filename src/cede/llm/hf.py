"""Folders of Hugging Face: `config.json` and safetensors files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cede.errors import CheckpointError
from cede.llm.hf_config import params_of_config, read_config, window_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor

NAMES = {
    "model.embed_tokens": "tok_embeddings", "model.norm": "norm", "lm_head": "output",
    "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo",
    "self_attn.q_norm": "attention.q_norm_fn", "self_attn.k_norm": "attention.k_norm_fn",
    "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2",
    "mlp.up_proj": "feed_forward.w3", "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
    # LFM2: short convolutions between layers of attention
    "model.embedding_norm": "norm", "operator_norm": "attention_norm", "ffn_norm": "ffn_norm",
    "self_attn.out_proj": "attention.wo", "self_attn.q_layernorm": "attention.q_norm_fn",
    "self_attn.k_layernorm": "attention.k_norm_fn", "feed_forward.w1": "feed_forward.w1",
    "feed_forward.w2": "feed_forward.w2", "feed_forward.w3": "feed_forward.w3",
    "conv.conv": "conv.conv", "conv.out_proj": "conv.out_proj",
    # Qwen3.5: linear attention between layers of attention
    **{f"linear_attn.{name}": f"attention.{name}" for name in (
        "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "conv1d", "norm", "out_proj",
        "dt_bias", "A_log")},
}  # fmt: skip
"""`modeling_llama.py`, `modeling_lfm2.py` and `modeling_qwen3_5.py` of transformers to
`llama_transformer.py`."""

Found = tuple[dict[str, Any], dict[str, "Tensor"], tuple[str, ...], int | None]


def from_folder(folder: Path, file: Path | None = None) -> Found:
    """Params, tensors by the transformer's names, names that mean nothing to it, and its window.

    Args:
        folder: with `config.json`.
        file: the one file with weights, None for all of the folder.

    Raises:
        CheckpointError: files that are missing or damaged, or a model that can't be converted.
    """
    config = read_config(folder)
    params = params_of_config(config, folder)
    tensors: dict[str, Tensor] = {}
    unknown = []
    for name, value in _held(folder, file).items():
        parts = list(named(name, value, params))
        tensors.update(parts)
        if not parts and "rotary_emb" not in name:
            unknown.append(name)
    if config["model_type"] == "llama":
        for name in [name for name in tensors if re.search(r"attention\.w[qk]\.", name)]:
            heads = params["n_heads" if ".wq." in name else "n_kv_heads"]
            tensors[name] = in_pairs(tensors[name], heads)
    return params, tensors, tuple(unknown), window_of(config)


def in_pairs(rows: Tensor, heads: int) -> Tensor:
    """Rows [heads * size, ...] of q or k, from halves of each head to pairs beside each other."""
    split = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return split.transpose(1, 2).reshape(rows.shape)


def _held(folder: Path, file: Path | None) -> dict[str, Tensor]:
    from cede.checkpoint import load

    names = [file] if file is not None else sorted(folder.glob("*.safetensors"))
    if not names:
        raise CheckpointError(f"{folder}: no .safetensors file in it")
    made: dict[str, Tensor] = {}
    for name in names:
        made.update(load(name).dequantize())
    return made


def named(name: str, value: Tensor, params: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The transformer's tensors in one of Hugging Face's: none, one, or those that lie fused."""
    import torch

    name = name.replace("model.language_model.", "model.", 1)
    found = re.fullmatch(r"(?:model\.layers\.(\d+)\.)?([\w.]+?)(\.weight|\.bias|)", name)
    if found is None:
        return
    before, inner, end = f"layers.{found[1]}." if found[1] else "", found[2], found[3]
    if inner == "self_attn.qkv_proj":
        size = params.get("head_dim") or params["dim"] // params["n_heads"]
        sizes = [params["n_heads"] * size, *[params["n_kv_heads"] * size] * 2]
        parts = zip(("wq", "wk", "wv"), torch.split(value, sizes), strict=True)
        yield from ((f"{before}attention.{new}{end}", part.contiguous()) for new, part in parts)
    elif inner == "mlp.gate_up_proj":
        halves = zip(("w1", "w3"), value.chunk(2), strict=True)
        yield from ((f"{before}feed_forward.{n}{end}", half.contiguous()) for n, half in halves)
    elif inner == "conv.in_proj":
        thirds = zip(("B_proj", "C_proj", "x_proj"), value.chunk(3), strict=True)
        yield from ((f"{before}conv.{new}{end}", third.contiguous()) for new, third in thirds)
    elif inner in NAMES:
        yield f"{before}{NAMES[inner]}{end}", value
