"""Checkpoints in the names and order of ExecuTorch's transformer.

Hugging Face and GGUF of the architecture llama differ in the order of rows of q and k: GGUF has
Meta's (pairs beside each other), Hugging Face has halves (`convert_hf_to_gguf.py` of llama.cpp,
`permute`). Qwen and Phi have halves in both, and so does the transformer with `use_hf_rope`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cede.errors import CheckpointError
from cede.llm.hf import from_folder
from cede.llm.hf_config import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

    from cede.checkpoint import TensorDict

LAYOUT = frozenset({"use_hf_rope"})
"""Params that say how a checkpoint lies, not what the model is."""

GGUF_NAMES = {
    "token_embd": "tok_embeddings", "output_norm": "norm", "output": "output",
    "attn_q": "attention.wq", "attn_k": "attention.wk", "attn_v": "attention.wv",
    "attn_output": "attention.wo", "attn_q_norm": "attention.q_norm_fn",
    "attn_k_norm": "attention.k_norm_fn", "ffn_gate": "feed_forward.w1",
    "ffn_down": "feed_forward.w2", "ffn_up": "feed_forward.w3", "attn_norm": "attention_norm",
    "ffn_norm": "ffn_norm",
}  # fmt: skip
"""`gguf/constants.py` of llama.cpp to `llama_transformer.py`."""

GGUF_EXTRA = {kind: KINDS[kind] for kind in ("llama", "qwen2", "qwen3")}
ROPE_TENSOR = "rope_freqs.weight"
TIED = ("output.weight", "tok_embeddings.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A checkpoint.

    Attributes:
        params: what its header says about the model; {} where it has none.
        tensors: by the transformer's names, as far as known; encoded ones are still encoded.
        unknown: names that mean nothing to the transformer.
        metadata: of a GGUF file.
        window: how many tokens attention looks back, None for all.
    """

    params: Mapping[str, Any]
    tensors: Mapping[str, Any]
    unknown: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    window: int | None = None

    def plain(self) -> dict[str, Tensor]:
        """All tensors in float32; those that were tied share their values."""
        import torch

        made: dict[str, Tensor] = {}
        for name, value in self.tensors.items():
            decoded = value if isinstance(value, torch.Tensor) else value.dequantize()
            made[name] = decoded.to(torch.float32)
        if TIED[0] not in made and TIED[1] in made:
            made[TIED[0]] = made[TIED[1]]
        return made


def read_weights(path: Path) -> Weights:
    """Read a checkpoint: `.gguf`, `.pth`, `.ptd`, a safetensors file, or a folder of Hugging Face.

    Raises:
        CheckpointError: damage, or an architecture that can't be converted.
    """
    if path.suffix == ".gguf":
        from cede.checkpoint import load

        return _from_gguf(load(path), path)
    if path.suffix in (".pth", ".pt"):
        return from_pth(path)
    if path.suffix == ".ptd":
        from cede.llm.flat import read_flat

        return Weights(params={}, tensors=read_flat(path))
    folder = path if path.is_dir() else path.parent
    params, tensors, unknown, window = from_folder(folder, None if path.is_dir() else path)
    return Weights(params=params, tensors=tensors, unknown=unknown, window=window)


def from_pth(path: Path) -> Weights:
    """Read a file of torch with tensors alone.

    Raises:
        CheckpointError: damage, or anything but names with tensors.
    """
    import pickle

    import torch

    try:
        held = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise CheckpointError(f"{path}: can't be read as a checkpoint of torch: {first}") from error
    held = held.get("model", held) if isinstance(held, dict) else held
    if not isinstance(held, dict) or not all(isinstance(v, torch.Tensor) for v in held.values()):
        raise CheckpointError(f"{path}: no mapping of names to tensors")
    return Weights(params={}, tensors=held)


def _from_gguf(held: TensorDict, path: Path) -> Weights:
    metadata = held.metadata
    kind = str(metadata.get("general.architecture"))
    if kind not in GGUF_EXTRA:
        raise CheckpointError(
            f"{path}: architecture {kind} can't be converted; known: {', '.join(GGUF_EXTRA)}"
        )
    tensors: dict[str, Any] = {}
    unknown = []
    for name, value in held.held().items():
        if (new := _gguf_name(name)) is not None:
            tensors[new] = value
        elif name != ROPE_TENSOR:
            unknown.append(name)
    if TIED[1] not in tensors:
        raise CheckpointError(f"{path}: no token_embd.weight in it")
    vocabulary, _ = tensors[TIED[1]].shape
    params = (
        _gguf_params(metadata, kind, path) | {"vocab_size": vocabulary} | dict(GGUF_EXTRA[kind])
    )
    if ROPE_TENSOR in held:
        params["use_scaled_rope"] = True
    scaling = metadata.get(f"{kind}.rope.scaling.type", "none")
    if scaling != "none":
        raise CheckpointError(f"{path}: the rope scaling {scaling} can't be converted")
    return Weights(
        params=params, tensors=tensors, unknown=tuple(unknown), metadata=metadata,
        window=metadata.get(f"{kind}.attention.sliding_window"),
    )  # fmt: skip


def _gguf_name(name: str) -> str | None:
    found = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
    if found is None or found[2] not in GGUF_NAMES:
        return None
    return f"{f'layers.{found[1]}.' if found[1] else ''}{GGUF_NAMES[found[2]]}.{found[3]}"


def _gguf_params(metadata: Mapping[str, Any], kind: str, path: Path) -> dict[str, Any]:
    keys = {
        "dim": "embedding_length", "hidden_dim": "feed_forward_length", "n_layers": "block_count",
        "n_heads": "attention.head_count", "n_kv_heads": "attention.head_count_kv",
        "norm_eps": "attention.layer_norm_rms_epsilon", "rope_theta": "rope.freq_base",
        "head_dim": "attention.key_length",
    }  # fmt: skip
    found = {key: metadata.get(f"{kind}.{name}") for key, name in keys.items()}
    if found["n_kv_heads"] is None:
        found["n_kv_heads"] = found["n_heads"]
    lacking = [keys[key] for key in ("dim", "hidden_dim", "n_layers", "n_heads", "norm_eps")
               if found[key] is None]  # fmt: skip
    if lacking:
        raise CheckpointError(f"{path}: the metadata lack {kind}.{', '.join(lacking)}")
    # float32 in the file: 1e-5 is not 1e-05 there
    found["norm_eps"] = float(f"{found['norm_eps']:.6g}")
    return {key: value for key, value in found.items() if value is not None}
