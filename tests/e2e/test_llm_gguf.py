"""GGUF files of each type and architecture that `export_llm` reads, against `transformers`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type

import cede
from cede.llm import LlmProgram, export_llm, load_settings
from cede.llm.build import model_of, prepare
from cede.llm.generating import logits_of

if TYPE_CHECKING:
    from pathlib import Path

DIM, LAYERS, HEADS, GROUPS, VOCAB = 256, 2, 8, 4, 64
"""256 is the least row of a K-quant."""
HUGGING_FACE = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_down": "mlp.down_proj",
    "ffn_up": "mlp.up_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
RANDOM = {
    "base": {"model_class": "llama2"},
    "backend": {"xnnpack": {"enabled": True}},
    "export": {"max_seq_length": 16, "max_context_length": 32},
}
KINDS = ("q4_0", "q4_1", "q8_0", "q4_k", "q5_k", "q6_k")
TYPES = {"token_embd": "q8_0", "output": "q6_k", "attn_q": "q4_0", "attn_k": "q4_1",
         "attn_v": "q6_k", "ffn_down": "q5_k"}  # fmt: skip
"""One file with all types, as files named Q4_K_M mix them."""


def written(path: Path, architecture: str, types: dict[str, str], rest: str) -> dict[str, Any]:
    """Write a model, and give Hugging Face's state of it, decoded by `gguf`.

    Args:
        path: to write to.
        architecture: of llama.cpp.
        types: by the tensor's name without its layer.
        rest: the type of other matrices.
    """
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(DIM)
    writer.add_feed_forward_length(DIM)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    state = {}
    for name, value in tensors(architecture).items():
        inner = re.sub(r"blk\.\d+\.|\.\w+$", "", name)
        if value.ndim == 1:
            writer.add_tensor(name, value)
            decoded = value
        else:
            kind = types.get(inner, rest)
            raw = cede.quantize(torch.from_numpy(value), kind).data.numpy()
            writer.add_tensor(name, raw, raw_dtype=Type[kind.upper()])
            decoded = gguf.dequantize(raw, Type[kind.upper()])
        layer = re.match(r"blk\.(\d+)\.", name)
        new = f"{f'model.layers.{layer[1]}.' if layer else ''}{HUGGING_FACE[inner]}"
        if architecture == "llama" and inner in ("attn_q", "attn_k"):
            heads = HEADS if inner == "attn_q" else GROUPS
            decoded = decoded.reshape(heads, -1, 2, DIM).swapaxes(1, 2).reshape(-1, DIM)
        state[f"{new}.{name.rsplit('.', 1)[1]}"] = torch.tensor(decoded)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return state


def tensors(architecture: str) -> dict[str, Any]:
    """Random values by GGUF's names."""
    small = DIM // HEADS * GROUPS
    sizes: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (DIM,), "ffn_norm.weight": (DIM,), "attn_q.weight": (DIM, DIM),
        "attn_k.weight": (small, DIM), "attn_v.weight": (small, DIM),
        "attn_output.weight": (DIM, DIM), "ffn_gate.weight": (DIM, DIM),
        "ffn_up.weight": (DIM, DIM), "ffn_down.weight": (DIM, DIM),
    }  # fmt: skip
    if architecture == "qwen2":
        sizes |= {"attn_q.bias": (DIM,), "attn_k.bias": (small,), "attn_v.bias": (small,)}
    if architecture == "qwen3":
        sizes |= dict.fromkeys(("attn_q_norm.weight", "attn_k_norm.weight"), (DIM // HEADS,))
    whole: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (VOCAB, DIM), "output_norm.weight": (DIM,),
        "output.weight": (VOCAB, DIM),
    }  # fmt: skip
    whole |= {f"blk.{i}.{name}": size for i in range(LAYERS) for name, size in sizes.items()}
    random = np.random.default_rng(0)
    return {
        name: random.normal(1.0 if "norm" in name else 0.0, 0.1, size).astype(np.float32)
        for name, size in whole.items()
    }


def theirs(architecture: str, state: dict[str, Any], ids: torch.Tensor) -> torch.Tensor:
    """Logits of the model of `transformers`, float [tokens, vocabulary]."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        architecture, hidden_size=DIM, intermediate_size=DIM, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=GROUPS, head_dim=DIM // HEADS,
        vocab_size=VOCAB, rms_norm_eps=1e-5, tie_word_embeddings=False,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    model.load_state_dict(state)
    with torch.no_grad():
        [logits] = model(ids).logits
    assert isinstance(logits, torch.Tensor)
    return logits


def settings(path: Path, *more: str) -> Any:
    import yaml

    config = path.with_suffix(".yaml")
    config.write_text(yaml.safe_dump(RANDOM))
    return load_settings(config, [f"base.checkpoint={path}", *more])


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [*(("llama", kind) for kind in KINDS), ("qwen2", "q8_0"), ("qwen3", "q4_k")],
)
def test_a_type_is_read_as_gguf_decodes_it(architecture: str, kind: str, tmp_path: Path) -> None:
    state = written(tmp_path / "model.gguf", architecture, {}, kind)
    ids = torch.randint(0, VOCAB, (1, 9), generator=torch.Generator().manual_seed(1))
    made = settings(tmp_path / "model.gguf", "debug.generate_full_logits=true")
    with torch.no_grad():
        [ours] = model_of(made, prepare(made)).source()(ids)
    assert distance(ours, theirs(architecture, state, ids)) < 1e-5


def test_a_program_of_all_types_computes_the_same(tmp_path: Path) -> None:
    state = written(tmp_path / "model.gguf", "llama", TYPES, "q4_k")
    made = export_llm(
        settings(
            tmp_path / "model.gguf", "model.use_kv_cache=true",
            "model.use_sdpa_with_kv_cache=true", f"export.output_name={tmp_path / 'model.pte'}",
        )
    )  # fmt: skip
    ids = torch.randint(0, VOCAB, (1, 9), generator=torch.Generator().manual_seed(1))
    program = LlmProgram(made.path)
    assert distance(logits_of(program, ids[0].tolist()), theirs("llama", state, ids)) < 1e-5
