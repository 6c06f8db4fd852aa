"""`config.json` of Hugging Face in terms of the transformer's params."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cede.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = "config.json"
PARAMS = {
    "hidden_size": "dim", "intermediate_size": "hidden_dim", "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads", "num_key_value_heads": "n_kv_heads", "head_dim": "head_dim",
    "rms_norm_eps": "norm_eps", "vocab_size": "vocab_size",
}  # fmt: skip
OPTIONAL = ("num_key_value_heads", "head_dim")
MORE: Mapping[str, Mapping[str, str]] = {
    "lfm2": {"norm_eps": "norm_eps", "block_ff_dim": "hidden_dim", "layer_types": "layer_types"},
    "qwen3_5_text": {"layer_types": "layer_types"} | {
        name: name for name in ("linear_conv_kernel_dim", "linear_key_head_dim",
        "linear_value_head_dim", "linear_num_key_heads", "linear_num_value_heads")
    },
}  # fmt: skip
"""Keys of single kinds."""

NORMED = {"use_hf_rope": True, "use_qk_norm": True, "qk_norm_before_rope": True}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "llama": {"use_hf_rope": False},
    "mistral": {"use_hf_rope": True},
    "qwen2": {"use_hf_rope": True, "attention_qkv_bias": True},
    "qwen3": NORMED,
    "qwen3_5_text": {**NORMED, "use_q_gate": True, "rms_norm_add_unit_offset": True},
    "phi3": {"use_hf_rope": True},
    "lfm2": NORMED,
}
"""Kinds of model that can be converted. Llama's q and k are put in Meta's order, since only there
the transformer has the scaled rope of Llama 3.1."""

PARTIAL = ("phi3", "qwen3_5_text")
"""Kinds that may rotate a part of a head."""
TEXT = {"qwen3_5": "qwen3_5_text"}
"""Kinds of several media, and the kind of the text model in each, under `text_config`."""
ACTIVATION = "silu"


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a folder's text model.

    Raises:
        CheckpointError: none that can be read, or one of a model that can't be converted.
    """
    path = folder / NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: can't be read: {error}") from None
    kind = found.get("model_type") if isinstance(found, dict) else None
    if kind in TEXT:
        found = {**found.get("text_config", {}), "model_type": TEXT[kind]}
    elif kind not in KINDS:
        known = sorted({*KINDS, *TEXT} - {*TEXT.values()})
        raise CheckpointError(
            f"{path}: model_type {kind} can't be converted; known: {', '.join(known)}"
        )
    if (act := found.get("hidden_act", ACTIVATION)) != ACTIVATION:
        raise CheckpointError(f"{path}: hidden_act {act} can't be converted, {ACTIVATION} only")
    return dict(found)


def params_of_config(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Arguments of the transformer.

    Raises:
        CheckpointError: keys that are missing, or a rotary embedding that can't be converted.
    """
    kind = str(config["model_type"])
    names = PARAMS | dict(MORE.get(kind, {}))
    made: dict[str, Any] = {
        new: config[old] for old, new in names.items() if config.get(old) is not None
    }
    lacking = [old for old, new in PARAMS.items() if new not in made and old not in OPTIONAL]
    if lacking:
        raise CheckpointError(f"{folder / NAME}: lacks {', '.join(lacking)}")
    made.setdefault("n_kv_heads", made["n_heads"])
    rope = config.get("rope_parameters") or {}
    scaling = config.get("rope_scaling") or rope
    made["rope_theta"] = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    part = rope.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if part is not None and kind in PARTIAL:
        made["partial_rotary_factor"] = part
    if config.get("attention_bias"):
        made["attention_qkv_bias"] = True
    if kind == "lfm2":
        made |= _short_convolutions(config, made)
    return made | dict(KINDS[kind]) | _scaled(config, scaling, folder)


def window_of(config: Mapping[str, Any]) -> int | None:
    """The tokens that attention looks back, where it does not to the first (`sliding_window`)."""
    used = config.get("use_sliding_window", True)
    return config.get("sliding_window") if used else None


def _short_convolutions(config: Mapping[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
    """Of LFM2: the feed-forward's size is rounded, and older configs number attention's layers."""
    found: dict[str, Any] = {}
    if config.get("block_auto_adjust_ff_dim", True):
        size = int(2 * made["hidden_dim"] / 3 * config.get("block_ffn_dim_multiplier", 1.0))
        multiple = config.get("block_multiple_of", 256)
        found["hidden_dim"] = -(-size // multiple) * multiple
    if "layer_types" not in made:
        layers = range(made["n_layers"])
        full = config.get("full_attn_idxs") or list(layers)
        found["layer_types"] = ["full_attention" if i in full else "conv" for i in layers]
    return found


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
    raise CheckpointError(f"{folder / NAME}: the rope scaling {kind} can't be converted")
