"""What may stand together in `export_llm`'s YAML, and what can't be had here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.llm.debug import check_debug
from cede.llm.delegates import backends_of
from cede.llm.library import check_library
from cede.llm.metadata import read_metadata
from cede.llm.methods import lowering_of, methods_of
from cede.llm.models import check_model
from cede.llm.numbers import numbers_of
from cede.llm.prequantized import check_prequantized
from cede.llm.pruned import check_pruned
from cede.llm.shared import numbers_go_together
from cede.llm.upstream import own_checks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cede.config import Config
    from cede.config.fit import Problems
    from cede.llm.methods import Method

CANT: Mapping[str, str] = {
    "model.use_moe_quantized_op": "torchao's builds have no torchao::_pack_8bit_act_4bit_weight"
    " here, which packs its weights: leave it out",
    "quantization.calibration_tasks": "lm_eval reads its tasks from the network: give text as"
    " quantization.calibration_data, or calls as cede.quantize.calibration",
}
"""Paths whose values can't differ from their defaults, with what to do instead."""

UNUSED: Mapping[str, str] = {
    "base.preq_group_size": "base.preq_mode",
    "quantization.calibration_limit": "quantization.calibration_tasks",
    "base.preq_embedding_quantize": "base.preq_mode",
    "model.static_quantize_kv_cache_scale": "model.static_quantize_kv_cache",
    "multimethod.share_mutable_buffers": "multimethod.methods",
}
"""Paths whose values mean nothing without another one."""

SHORTEST = 4
"""Of `export.max_seq_length` with a dynamic shape: one more than the tokens of the example."""


@dataclass(kw_only=True)
class Found:
    """What was made of the values."""

    config: Config
    metadata: dict[str, Any]
    methods: tuple[Method, ...]
    notes: list[str] = field(default_factory=list)


def check(llm: Any, config: Config, values: Mapping[str, Any], problems: Problems) -> Found:
    """Add every problem that the values have with one another and with this machine.

    Args:
        llm: an instance of `LlmConfig`.
        config: the section `cede`.
        values: what the file and the overrides say, as plain values.
        problems: where problems are added.
    """
    notes: list[str] = []
    _cant(llm, problems)
    _sizes(llm, problems)
    _attention(llm, problems)
    numbers_go_together(llm, problems)
    _output(llm, problems)
    methods = methods_of(llm, problems)
    _unused(llm, problems)
    check_debug(llm, problems, notes)
    check_library(llm, problems)
    check_pruned(llm, problems, notes)
    check_prequantized(llm, problems)
    check_model(llm.base, problems)
    config = numbers_of(llm, config, problems, notes, values.get("quantization") or {})
    config = backends_of(llm, config, problems, notes, values.get("backend") or {})
    config = lowering_of(llm, config)
    metadata = read_metadata(llm.base.metadata, problems)
    return Found(config=config, metadata=metadata, methods=methods, notes=notes)


def _cant(llm: Any, problems: Problems) -> None:
    plain = type(llm)()
    for path, why in CANT.items():
        if _at(llm, path) != _at(plain, path):
            problems.add(path, f"can't be had: {why}")
    length = llm.quantization.calibration_seq_length
    if length is not None and length < 1:
        problems.add("quantization.calibration_seq_length", f"is {length}, must be 1 or more")
    asked = llm.quantization
    quantized = asked.qmode or asked.embedding_quantize or asked.pt2e_quantize
    if llm.model.dtype_override.value != "fp32" and (quantized or _int8_cache(llm)):
        problems.add(
            "model.dtype_override",
            "does not go with quantization: integers have scales of fp32; give one of them",
        )


def _int8_cache(llm: Any) -> bool:
    return bool(llm.model.quantize_kv_cache or llm.model.static_quantize_kv_cache)


def _sizes(llm: Any, problems: Problems) -> None:
    sequence, context = llm.export.max_seq_length, llm.export.max_context_length
    least = SHORTEST if llm.model.enable_dynamic_shape else 1
    if sequence < least:
        problems.add("export.max_seq_length", f"is {sequence}, must not be below {least}")
    if context < sequence:
        problems.add(
            "export.max_context_length",
            f"is {context}, less than export.max_seq_length ({sequence}); give as much or more",
        )


def _attention(llm: Any, problems: Problems) -> None:
    model, before = llm.model, len(problems.lines)
    if not model.use_kv_cache:
        for key in ("use_sdpa_with_kv_cache", "quantize_kv_cache", "static_quantize_kv_cache",
                    "local_global_attention", "use_attention_sink"):  # fmt: skip
            if getattr(model, key):
                problems.add(f"model.{key}", "needs model.use_kv_cache: true")
    _together(model, problems)
    for i, size in enumerate(model.local_global_attention or ()):
        path = f"model.local_global_attention[{i}]"
        if size < 0:
            problems.add(path, f"is {size}; give 0 (all) or more")
        elif size:
            _ring(llm, size, path, problems)
    if model.use_attention_sink:
        _sink(llm, problems)
    if len(problems.lines) == before and (said := own_checks(model)):
        problems.add("model", said)


def _together(model: Any, problems: Problems) -> None:
    if model.quantize_kv_cache and not model.use_sdpa_with_kv_cache:
        problems.add("model.quantize_kv_cache", "needs model.use_sdpa_with_kv_cache: true")
    if model.static_quantize_kv_cache and model.use_sdpa_with_kv_cache:
        problems.add(
            "model.static_quantize_kv_cache",
            "does not go with model.use_sdpa_with_kv_cache, whose op takes scales a token: give"
            " quantize_kv_cache for it, or use_sdpa_with_kv_cache: false",
        )
    for key in ("quantize_kv_cache", "local_global_attention"):
        if model.use_attention_sink and getattr(model, key):
            problems.add("model.use_attention_sink", f"does not go with model.{key}")


def _sink(llm: Any, problems: Problems) -> None:
    parts = llm.model.use_attention_sink.split(",")
    path = "model.use_attention_sink"
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        problems.add(path, f"is {llm.model.use_attention_sink!r}; give SINK,WINDOW, such as 4,124")
        return
    _ring(llm, int(parts[1]), path, problems)
    need = sum(map(int, parts))
    if llm.export.max_context_length < need:
        problems.add(path, f"keeps {need} tokens, more than export.max_context_length"
                           f" ({llm.export.max_context_length})")  # fmt: skip


def _ring(llm: Any, window: int, path: str, problems: Problems) -> None:
    """Add a call of more tokens than a ring keeps the past of.

    A ring has twice the window's places (`RingKVCache` of ExecuTorch 1.5.1): a call of more tokens
    than the window and one overwrites what its first tokens look back to.
    """
    dynamic = llm.model.enable_dynamic_shape and llm.model.use_kv_cache
    tokens = llm.export.max_seq_length - 1
    if dynamic and tokens > window + 1:
        problems.add(
            path,
            f"has a window of {window}, and a call up to {tokens} tokens: give"
            f" {tokens - 1} or more, or export.max_seq_length: {max(window + 2, SHORTEST)} or less",
        )


def _output(llm: Any, problems: Problems) -> None:
    name = llm.export.output_name or ""
    folder = Path(name).parent if name.endswith(".pte") else Path(llm.export.output_dir)
    if not folder.is_dir():
        path = "export.output_name" if name.endswith(".pte") else "export.output_dir"
        problems.add(path, f"the folder {folder} does not exist")
    elif name.endswith(".pte") and Path(name).is_dir():
        problems.add("export.output_name", f"{name} is a folder; give a file to write")


def _unused(llm: Any, problems: Problems) -> None:
    """Add what is given and read by nobody, since what it belongs to is off."""
    plain = type(llm)()
    for path, owner in UNUSED.items():
        if _at(llm, path) != _at(plain, path) and not _at(llm, owner):
            problems.add(path, f"is of no use without {owner}")


def _at(value: Any, path: str) -> Any:
    for word in path.split("."):
        value = getattr(value, word)
    return value
