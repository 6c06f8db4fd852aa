"""The matrices of a LoRA adapter by the transformer's names.

Names are those of peft (`base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`), of
torchtune (`layers.0.attn.q_proj.lora_a.weight`), or the transformer's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cede.llm.adapter import Asked, own_names
from cede.llm.hf import in_pairs, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import torch
    from torch import Tensor

    from cede.config.fit import Problems
    from cede.llm.weights import Weights

_PEFT = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([ABab])(?:\.default)?\.weight")
_TUNE = {
    "attn.q_proj": "attention.wq", "attn.k_proj": "attention.wk", "attn.v_proj": "attention.wv",
    "attn.output_proj": "attention.wo", "mlp.w1": "feed_forward.w1", "mlp.w2": "feed_forward.w2",
    "mlp.w3": "feed_forward.w3",
}  # fmt: skip
"""`convert_weights.py` of torchtune to `llama_transformer.py`."""

INSIDE = re.compile(r"(.+)\.adaptor\.([AB])\.weight")
"""Adapters in the checkpoint of a model, as Meta's quantized Llama 3.2 has them
(`source_transformation/lora.py`)."""
INSIDE_SCALE = 2.0
"""Of such adapters, where the params don't say it."""

_LAYER = re.compile(r"layers\.(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The matrices beside one linear module.

    Attributes:
        a: float [rank, in], None where it is missing.
        b: float [out, rank], likewise.
        source: the module's name in the file.
    """

    a: Tensor | None = None
    b: Tensor | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """An adapter that fits a transformer.

    Attributes:
        asked: what the config says about it.
        pairs: by the transformer's name of the linear module.
    """

    asked: Asked
    pairs: Mapping[str, Pair]


def read_adapter(
    asked: Asked, module: torch.nn.Module, params: Mapping[str, Any], problems: Problems
) -> Adapter:
    """Read an adapter's file and add what it has against the transformer.

    Args:
        asked: from `read_asked`.
        module: the transformer, on the meta device.
        params: what that was made from.
        problems: where problems are added.

    Raises:
        CheckpointError: a file that can't be read.
    """
    assert asked.file is not None  # noqa: S101  (the adapters of a checkpoint are its own)
    pairs: dict[str, Pair] = {}
    strange = []
    for name, value in _tensors(asked.file).items():
        found = _PEFT.fullmatch(name)
        placed = list(_placed(found[1], found[2].lower(), value, params)) if found else []
        for target, side, part in placed:
            source = found[1] if found else ""
            pairs[target] = replace(pairs.get(target, Pair()), **{side: part}, source=source)
        if not placed:
            strange.append(name)
    if strange:
        problems.add(
            f"{asked.path}.adapter_checkpoint",
            f"has {len(strange)} tensors that are no lora_A or lora_B of a known linear module:"
            f" {_some(strange)}",
        )
    return fitted(Adapter(asked=asked, pairs=pairs), module, problems)


def adapter_inside(
    weights: Weights, rank: int, module: torch.nn.Module, params: Mapping[str, Any],
    problems: Problems,
) -> tuple[Adapter, Weights]:  # fmt: skip
    """The adapters in a checkpoint (`base.use_lora`), and the checkpoint without them."""
    pairs: dict[str, Pair] = {}
    rest = dict(weights.tensors)
    for name in weights.tensors:
        if (found := INSIDE.fullmatch(name)) is not None:
            part = {found[2].lower(): rest.pop(name)}
            pairs[found[1]] = replace(pairs.get(found[1], Pair()), **part, source=found[1])
    if not pairs:
        problems.add("base.use_lora", "the checkpoint has no adapters (adaptor.A, adaptor.B)")
    args = params.get("lora_args") or {}
    if args.get("rank", rank) != rank:
        problems.add("base.use_lora", f"is {rank}, but lora_args of the params has {args['rank']}")
    scale = float(args.get("scale", INSIDE_SCALE))
    asked = Asked(path="base.use_lora", file=None, rank=rank, alpha=scale * rank, targets=None)
    made = fitted(Adapter(asked=asked, pairs=pairs), module, problems)
    unknown = tuple(name for name in weights.unknown if not INSIDE.fullmatch(name))
    return made, replace(weights, tensors=rest, unknown=unknown)


def fitted(adapter: Adapter, module: torch.nn.Module, problems: Problems) -> Adapter:
    """The adapter; matrices that are missing, of another shape or without a place are added."""
    asked = adapter.asked
    at = f"{asked.path}.adapter_checkpoint" if asked.file else asked.path
    modules: dict[str, Any] = dict(module.named_modules())
    for name, pair in adapter.pairs.items():
        shape = _shape(modules.get(name))
        if shape is None:
            problems.add(at, f"{pair.source}: the transformer has no linear module {name}")
        else:
            for text in _pair_problems(pair, shape, asked.rank_of(pair.source)):
                problems.add(at, f"{pair.source}: {text}")
    if asked.targets is not None:
        _covered(adapter, asked.targets, modules, problems)
    return adapter


def _covered(
    adapter: Adapter, targets: tuple[str, ...], modules: Mapping[str, Any], problems: Problems
) -> None:
    """Add targets that the file or the transformer lacks, and what is no target."""
    asked, wanted = adapter.asked, own_names(targets)
    linear = [name for name, inner in modules.items() if _shape(inner)]
    path = f"{asked.path}.target_modules"
    for target in targets:
        mine = {name for name in linear if name.rpartition(".")[2] in own_names((target,))}
        if not mine:
            problems.add(path, f"the transformer has no module {target}")
        elif not mine & adapter.pairs.keys():
            problems.add(path, f"has {target}, and {_file(asked)} has no tensors for it")
    some = {name.rpartition(".")[2] for name in adapter.pairs}
    lacking = [
        name for name in linear
        if name.rpartition(".")[2] in wanted & some and name not in adapter.pairs
        and _in_layers(name, asked.layers)
    ]  # fmt: skip
    if lacking and all("." not in target for target in targets):
        problems.add(
            f"{asked.path}.adapter_checkpoint",
            f"lacks lora_A and lora_B of {len(lacking)} modules: {_some(lacking)}",
        )
    if more := [name for name in adapter.pairs if name.rpartition(".")[2] not in wanted]:
        problems.add(path, f"lacks what {_file(asked)} has tensors for: {_some(more)}")


def _pair_problems(pair: Pair, shape: tuple[int, int], rank: int) -> Iterator[str]:
    outputs, inputs = shape
    for side, value, wanted in (
        ("lora_A", pair.a, [rank, inputs]), ("lora_B", pair.b, [outputs, rank])
    ):  # fmt: skip
        if value is None:
            yield f"{side} is missing"
        elif list(value.shape) != wanted:
            yield f"{side} is {list(value.shape)}, but rank {rank} and the model make it {wanted}"


def _placed(
    module: str, side: str, value: Tensor, params: Mapping[str, Any]
) -> Iterator[tuple[str, str, Tensor]]:
    """Where a matrix goes: the transformer's module, "a" or "b", and the part of it."""
    import torch

    own = module
    for theirs, ours in _TUNE.items():
        own = re.sub(rf"\.{re.escape(theirs)}$", f".{ours}", own)
    if not (module.startswith(("model.", "lm_head")) or ".self_attn." in module):
        yield own, side, value
        return
    # a fused module has one A for all of its parts, and the rows of B of each
    rows = value if side == "b" else torch.empty(_rows(module, params), 1, device="meta")
    for name, part in named(f"{module}.weight", rows, params):
        target = name.removesuffix(".weight")
        heads = {"wq": "n_heads", "wk": "n_kv_heads"}.get(target.rpartition(".")[2])
        if heads and side == "b" and not params.get("use_hf_rope"):
            part = _in_pairs(part, params.get(heads) or params["n_heads"])
        yield target, side, part if side == "b" else value


def _in_pairs(rows: Tensor, heads: int) -> Tensor:
    """Rows of B in the order of the transformer's own q and k; another shape is told later."""
    return in_pairs(rows, heads) if rows.dim() == 2 and rows.shape[0] % (2 * heads) == 0 else rows


def _rows(module: str, params: Mapping[str, Any]) -> int:
    if not module.endswith("qkv_proj"):
        return 6
    size = params.get("head_dim") or params["dim"] // params["n_heads"]
    return int((params["n_heads"] + 2 * params.get("n_kv_heads", params["n_heads"])) * size)


def _tensors(file: Path) -> dict[str, Any]:
    if file.suffix == ".safetensors":
        from cede.checkpoint import load

        return dict(load(file).dequantize())
    from cede.llm.weights import from_pth

    return dict(from_pth(file).tensors)


def _shape(module: Any) -> tuple[int, int] | None:
    import torch

    if not isinstance(module, torch.nn.Linear):
        return None
    return module.out_features, module.in_features


def _in_layers(name: str, layers: tuple[int, ...] | None) -> bool:
    found = _LAYER.match(name)
    return layers is None or found is None or int(found[1]) in layers


def _file(asked: Asked) -> str:
    return asked.file.name if asked.file else "the checkpoint"


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
