"""The methods of a program and the adapter of each: `base.lora_config`, `multimethod`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.llm.adapter import CONSTANTS, read_asked
from cede.llm.metadata import KNOWN

if TYPE_CHECKING:
    from cede.config import Config
    from cede.config.fit import Problems
    from cede.llm.adapter import Asked

FORWARD, FP32 = "forward", "fp32"
HALF = {"fp16": "fp16", "fp32": "fp32"}
"""`model.dtype_override` by `adapter_quant`: an adapter computes in the dtype of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method that computes logits.

    Attributes:
        name: of it.
        adapter: beside the model's weights, None for none.
        tokens: how many its example has; None for those that any program's has.
    """

    name: str = FORWARD
    adapter: Asked | None = None
    tokens: int | None = None


def methods_of(llm: Any, problems: Problems) -> tuple[Method, ...]:
    """The methods that an `LlmConfig` asks for; problems are added."""
    several = llm.multimethod.methods
    _together(llm, problems)
    if not several:
        adapter = _asked(llm, llm.base.lora_config, "base.lora_config", problems)
        return (Method(adapter=adapter),)
    found = []
    for i, each in enumerate(several):
        path = f"multimethod.methods[{i}]"
        _check(llm, each, path, problems)
        adapter = _asked(llm, each.lora_config, f"{path}.lora_config", problems)
        found.append(Method(name=each.method_name, adapter=adapter, tokens=each.export_seq_len))
    for name, count in Counter(each.method_name for each in several).items():
        if count > 1:
            problems.add("multimethod.methods", f"{count} methods are called {name!r}")
    return tuple(found)


def lowering_of(llm: Any, config: Config) -> Config:
    """The config with what goes to which data file."""
    export, lowering = llm.export, config.lowering
    if export.foundation_weights_file:
        lowering = replace(lowering, external_weights=True)
    if has_adapter(llm) and (lowering.external_weights or export.lora_weights_file):
        lowering = replace(
            lowering, adapter_weights=CONSTANTS, external_adapters=bool(export.lora_weights_file)
        )
    return replace(config, lowering=lowering)


def has_adapter(llm: Any) -> bool:
    """Whether any method has an adapter."""
    base = llm.base
    return bool(
        base.lora_config or base.use_lora or any(m.lora_config for m in llm.multimethod.methods)
    )


def _asked(llm: Any, section: Any, path: str, problems: Problems) -> Asked | None:
    if section is None:
        return None
    found = read_asked(section, path, problems)
    quant, dtype = section.adapter_quant, llm.model.dtype_override.value
    if HALF.get(quant, dtype) != dtype:
        problems.add(
            f"{path}.adapter_quant",
            f"is {quant}, but the model computes in {dtype}: give model.dtype_override: {quant},"
            " or int8",
        )
    elif quant == "int8" and dtype != FP32:
        problems.add(f"{path}.adapter_quant", f"int8 is for a model in fp32, not {dtype}")
    return found


def _together(llm: Any, problems: Problems) -> None:
    base, export, several = llm.base, llm.export, llm.multimethod.methods
    if base.use_lora < 0:
        problems.add("base.use_lora", f"is {base.use_lora}; give a rank above 0, or 0 for none")
    if base.use_lora and base.random_weights:
        problems.add("base.use_lora", "needs base.checkpoint: the adapters stand in it")
    if base.use_lora and (base.lora_config or several):
        other = "multimethod.methods" if several else "base.lora_config"
        problems.add("base.use_lora", f"does not go with {other}; give one")
    if several and base.lora_config:
        problems.add("base.lora_config", "does not go with multimethod.methods: give each its own")
    if several and llm.quantization.pt2e_quantize is not None:
        problems.add(
            "quantization.pt2e_quantize", "does not go with multimethod.methods; take qmode"
        )
    if several and export.export_only:
        problems.add("export.export_only", "does not go with multimethod.methods; give one")
    if several and llm.debug.generate_etrecord:
        problems.add("debug.generate_etrecord", "does not go with multimethod.methods; give one")
    if llm.multimethod.share_mutable_buffers and several and not llm.model.use_kv_cache:
        problems.add(
            "multimethod.share_mutable_buffers", "needs model.use_kv_cache: there is no state"
        )
    _files(llm, problems)


def _files(llm: Any, problems: Problems) -> None:
    export = llm.export
    names = ("foundation_weights_file", "lora_weights_file")
    for key in names:
        name = getattr(export, key)
        if name and Path(name).name != name:
            problems.add(f"export.{key}", f"is {name!r}; give a name, for a file beside the .pte")
    if export.lora_weights_file and not has_adapter(llm):
        problems.add("export.lora_weights_file", "is of no use without base.lora_config")
    one, other = (str(getattr(export, key) or "").removesuffix(".ptd") for key in names)
    if one and one == other:
        problems.add("export.lora_weights_file", "is export.foundation_weights_file; give another")


def _check(llm: Any, method: Any, path: str, problems: Problems) -> None:
    name, tokens = method.method_name, method.export_seq_len
    if not name.isidentifier() or name in KNOWN or name.startswith("get_"):
        problems.add(f"{path}.method_name", f"{name!r} can't be the name of a method that computes")
    most = llm.export.max_seq_length - (1 if llm.model.enable_dynamic_shape else 0)
    if tokens is not None and not 0 < tokens <= most:
        problems.add(f"{path}.export_seq_len", f"is {tokens}; give 1 to {most}")
