"""Folders of Hugging Face: `config.json` and safetensors files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from cede.errors import CheckpointError

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
}  # fmt: skip
"""`modeling_llama.py` of transformers to `llama_transformer.py`."""

PARAMS = {
    "hidden_size": "dim", "intermediate_size": "hidden_dim", "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads", "num_key_value_heads": "n_kv_heads", "head_dim": "head_dim",
    "rms_norm_eps": "norm_eps", "vocab_size": "vocab_size",
}  # fmt: skip
KINDS: Mapping[str, Mapping[str, Any]] = {
    "llama": {"use_hf_rope": False},
    "qwen2": {"use_hf_rope": True, "attention_qkv_bias": True},
    "qwen3": {"use_hf_rope": True, "use_qk_norm": True, "qk_norm_before_rope": True},
    "phi3": {"use_hf_rope": True},
}
"""Kinds of model that can be converted. Llama's q and k are put in Meta's order, since only there
the transformer has the scaled rope of Llama 3.1."""

Found = tuple[dict[str, Any], dict[str, "Tensor"], tuple[str, ...]]


def from_folder(folder: Path, file: Path | None = None) -> Found:
    """Params, tensors by the transformer's names, and names that mean nothing to it.

    Args:
        folder: with `config.json`.
        file: the one file with weights, None for all of the folder.

    Raises:
        CheckpointError: files that are missing or damaged, or a model that can't be converted.
    """
    config = _config(folder)
    kind = str(config.get("model_type"))
    params = _params(config, kind, folder)
    tensors: dict[str, Tensor] = {}
    unknown = []
    for name, value in _held(folder, file).items():
        parts = list(_named(name, value, params))
        tensors.update(parts)
        if not parts and "rotary_emb" not in name:
            unknown.append(name)
    if kind == "llama":
        for name in [name for name in tensors if re.search(r"attention\.w[qk]\.", name)]:
            heads = params["n_heads" if ".wq." in name else "n_kv_heads"]
            tensors[name] = in_pairs(tensors[name], heads)
    return params, tensors, tuple(unknown)


def in_pairs(rows: Tensor, heads: int) -> Tensor:
    """Rows [heads * size, ...] of q or k, from halves of each head to pairs beside each other."""
    split = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return split.transpose(1, 2).reshape(rows.shape)


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: can't be read: {error}") from None
    if not isinstance(found, dict) or found.get("model_type") not in KINDS:
        kind = found.get("model_type") if isinstance(found, dict) else None
        raise CheckpointError(
            f"{path}: model_type {kind} can't be converted; known: {', '.join(KINDS)}"
        )
    return found


def _params(config: Mapping[str, Any], kind: str, folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = {
        new: config[old] for old, new in PARAMS.items() if config.get(old) is not None
    }
    lacking = [old for old, new in PARAMS.items() if new not in made]
    if missing := [key for key in lacking if key not in ("num_key_value_heads", "head_dim")]:
        raise CheckpointError(f"{folder / 'config.json'}: lacks {', '.join(missing)}")
    made.setdefault("n_kv_heads", made["n_heads"])
    rope = config.get("rope_parameters") or {}
    scaling = config.get("rope_scaling") or rope
    made["rope_theta"] = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    part = rope.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if part is not None and kind == "phi3":
        made["partial_rotary_factor"] = part
    if config.get("attention_bias"):
        made["attention_qkv_bias"] = True
    return made | dict(KINDS[kind]) | _scaled(config, scaling, folder)


def _scaled(config: Mapping[str, Any], scaling: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return {}
    if kind == "llama3" and scaling.get("original_max_position_embeddings") == 8192:
        return {"use_scaled_rope": True, "rope_scale_factor": int(scaling["factor"]),
                "high_freq_factor": int(scaling["high_freq_factor"])}  # fmt: skip
    if kind == "longrope":
        return {
            "rope_scaling_short_factor": scaling["short_factor"],
            "rope_scaling_long_factor": scaling["long_factor"],
            "original_max_position_embeddings": scaling.get(
                "original_max_position_embeddings", config.get("original_max_position_embeddings")
            ),
            "max_position_embeddings": config.get("max_position_embeddings"),
        }
    raise CheckpointError(f"{folder / 'config.json'}: the rope scaling {kind} can't be converted")


def _held(folder: Path, file: Path | None) -> dict[str, Tensor]:
    from cede.checkpoint import load

    names = [file] if file is not None else sorted(folder.glob("*.safetensors"))
    if not names:
        raise CheckpointError(f"{folder}: no .safetensors file in it")
    made: dict[str, Tensor] = {}
    for name in names:
        made.update(load(name).dequantize())
    return made


def _named(name: str, value: Tensor, params: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The transformer's tensors in one of Hugging Face's: none, one, or those that lie fused."""
    import torch

    found = re.fullmatch(r"(?:model\.layers\.(\d+)\.)?([\w.]+)\.(weight|bias)", name)
    if found is None:
        return
    before, inner, end = f"layers.{found[1]}." if found[1] else "", found[2], found[3]
    if inner == "self_attn.qkv_proj":
        size = params.get("head_dim") or params["dim"] // params["n_heads"]
        sizes = [params["n_heads"] * size, *[params["n_kv_heads"] * size] * 2]
        parts = zip(("wq", "wk", "wv"), torch.split(value, sizes), strict=True)
        yield from ((f"{before}attention.{new}.{end}", part.contiguous()) for new, part in parts)
    elif inner == "mlp.gate_up_proj":
        halves = zip(("w1", "w3"), value.chunk(2), strict=True)
        yield from ((f"{before}feed_forward.{n}.{end}", half.contiguous()) for n, half in halves)
    elif inner in NAMES:
        yield f"{before}{NAMES[inner]}.{end}", value
