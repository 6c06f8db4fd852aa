"""What a config says about a LoRA adapter: `LlmConfig`'s `lora_config` with peft's JSON.

LoRA: https://arxiv.org/abs/2106.09685. The keys are those of `LoraConfig` in peft
(`adapter_config.json`), which torchtune writes too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cede.config.fit import Problems

CONSTANTS = "*.lora_[ab].*"
"""The names of an adapter's constants in a program, as a glob."""

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")
TARGETS: Mapping[str, tuple[str, ...]] = {
    "q_proj": ("wq",), "k_proj": ("wk",), "v_proj": ("wv",), "o_proj": ("wo",),
    "output_proj": ("wo",), "out_proj": ("wo", "out_proj"), "qkv_proj": ("wq", "wk", "wv"),
    "gate_proj": ("w1",), "down_proj": ("w2",), "up_proj": ("w3",), "gate_up_proj": ("w1", "w3"),
    "in_proj": ("B_proj", "C_proj", "x_proj"), "lm_head": ("output",), "output": ("output",),
    **{name: (name,) for name in (
        "wq", "wk", "wv", "wo", "w1", "w2", "w3", "in_proj_qkv", "in_proj_z", "in_proj_b",
        "in_proj_a")},
}  # fmt: skip
"""Modules that peft and torchtune name, and the transformer's own names for them."""

ALL = "all-linear"
PATTERN = r"(?:.*\.)?(?:{})"
"""As peft matches a target or a key of a pattern against a module's name."""

MERGE = "merge the adapter into the checkpoint"
CANT = {
    "use_dora": f"weights of DoRA are scaled by their norms: {MERGE}",
    "fan_in_fan_out": "the model's weights lie transposed there",
    "modules_to_save": f"these modules were trained as wholes: {MERGE}",
    "layer_replication": "give a checkpoint whose layers are replicated",
    "alora_invocation_tokens": "the adapter is switched on while a text is read",
}
"""Keys of peft that have to be empty."""
PLAIN = ("none", None)
"""Of peft's `bias` and `lora_bias`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An adapter that a config asks for.

    Attributes:
        path: of the section in the YAML.
        file: of the tensors; None where they stand in the checkpoint of the model.
        rank: of its matrices.
        alpha: their product is scaled by alpha / rank.
        targets: names of modules; None for those that the file has.
        quant: "int8", "fp16", "fp32" or "".
        ranks, alphas: for modules whose name matches a pattern, as peft has them.
        root: alpha is divided by the root of the rank.
        layers: indices of those that have an adapter, None for all.
    """

    path: str
    file: Path | None
    rank: int
    alpha: float
    targets: tuple[str, ...] | None
    quant: str = ""
    ranks: Mapping[str, int] = field(default_factory=dict)
    alphas: Mapping[str, float] = field(default_factory=dict)
    root: bool = False
    layers: tuple[int, ...] | None = None

    def rank_of(self, module: str) -> int:
        """The rank of a module of that name."""
        return int(_matching(self.ranks, module, self.rank))

    def scale_of(self, module: str) -> float:
        """What the product of a module's matrices is multiplied by."""
        rank = self.rank_of(module)
        alpha = float(_matching(self.alphas, module, self.alpha))
        return alpha / (rank**0.5 if self.root else rank)


def read_asked(section: Any, path: str, problems: Problems) -> Asked | None:
    """What a `LoraConfig` asks for; problems are added, and None given where there are any.

    Args:
        section: an instance of `LoraConfig`.
        path: of it in the YAML.
        problems: where problems are added.
    """
    before = len(problems.lines)
    file = Path(section.adapter_checkpoint).expanduser()
    for text in _file_problems(file):
        problems.add(f"{path}.adapter_checkpoint", text)
    if section.adapter_quant not in (None, "int8", "fp16", "fp32"):
        near = suggestion(section.adapter_quant, ("int8", "fp16", "fp32"))
        problems.add(f"{path}.adapter_quant", f"unknown {section.adapter_quant!r}; {near}")
    held = _read(section.adapter_config, f"{path}.adapter_config", problems)
    if section.adapter_config and not held:
        return None
    rank = _number(section.lora_rank, held.get("r"), f"{path}.lora_rank", "r", problems)
    alpha = _number(
        section.lora_alpha, held.get("lora_alpha"), f"{path}.lora_alpha", "lora_alpha", problems
    )
    targets = _targets(list(section.target_modules), held, path, problems)
    if len(problems.lines) > before:
        return None
    layers = held.get("layers_to_transform")
    return Asked(
        path=path, file=file, rank=int(rank), alpha=alpha, targets=targets,
        quant=section.adapter_quant or "", ranks=held.get("rank_pattern") or {},
        alphas=held.get("alpha_pattern") or {}, root=bool(held.get("use_rslora")),
        layers=None if layers is None else tuple(layers if isinstance(layers, list) else [layers]),
    )  # fmt: skip


def own_names(targets: tuple[str, ...]) -> set[str]:
    """The transformer's names for targets, the last word of each."""
    return {name for target in targets for name in TARGETS[target.rpartition(".")[2]]}


def _file_problems(file: Path) -> Iterator[str]:
    if not file.is_file():
        yield f"{file}: no such file"
    elif file.suffix not in SUFFIXES:
        yield f"{file}: unknown form; give a file that ends in {', '.join(SUFFIXES)}"


def _read(text: str | None, path: str, problems: Problems) -> dict[str, Any]:
    """The JSON of peft, {} for none."""
    if not text:
        return {}
    file = Path(text).expanduser()
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        problems.add(path, f"{file}: no such file")
        return {}
    except ValueError as error:
        problems.add(path, f"{file}: not JSON: {error}")
        return {}
    if not isinstance(found, dict):
        problems.add(path, f"{file}: expected keys with values")
        return {}
    lines = [f"{key} is missing" for key in ("r", "lora_alpha", "target_modules")
             if key not in found]  # fmt: skip
    for line in (*lines, *_unlike(found)):
        problems.add(path, f"{file}: {line}")
    return found


def _unlike(found: Mapping[str, Any]) -> Iterator[str]:
    """What of an adapter is no plain LoRA of linear modules."""
    kind = found.get("peft_type", "LORA")
    if kind != "LORA":
        yield f"peft_type {kind} can't be had, LORA only"
    for key, why in CANT.items():
        if found.get(key):
            yield f"{key} can't be had: {why}"
    for key in ("bias", "lora_bias"):
        if (value := found.get(key) or None) not in PLAIN:
            yield f"{key} {value} can't be had, none only: {MERGE}"
    for key in ("rank_pattern", "alpha_pattern"):
        rows = found.get(key) or {}
        if not isinstance(rows, dict) or not all(map(_is_number, rows.values())):
            yield f"{key} is {rows!r}; expected names of modules with numbers above 0"


def _number(given: float, read: Any, path: str, key: str, problems: Problems) -> float:
    if given < 0 or (not given and read is None):
        problems.add(path, f"is {given}; give a number above 0, or adapter_config")
    elif read is not None and not _is_number(read):
        problems.add(path, f"{key} is {read!r} in adapter_config; expected a number above 0")
    elif given and read is not None and given != read:
        problems.add(path, f"is {given}, but adapter_config has {read}; give one of them")
    else:
        return float(given or read)
    return 0.0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _targets(
    given: list[str], held: Mapping[str, Any], path: str, problems: Problems
) -> tuple[str, ...] | None:
    path = f"{path}.target_modules"
    read = held.get("target_modules")
    if given and isinstance(read, list) and set(given) != set(read):
        problems.add(path, f"is {given}, but adapter_config has {read}; give one of them")
        return None
    if isinstance(read, str):  # a regular expression, or all linear modules
        if given:
            problems.add(path, f"is {given}, but adapter_config has {read!r}; give one of them")
        return None
    found = given or list(read or ())
    if not found:
        if read is not None or not held:
            problems.add(path, "is missing; give names such as [q_proj, v_proj], or adapter_config")
        return None
    for name in found:
        if not isinstance(name, str) or name.rpartition(".")[2] not in TARGETS:
            near = suggestion(str(name).rpartition(".")[2], TARGETS)
            problems.add(path, f"unknown module {name!r}; {near}")
    return tuple(map(str, found))


def _matching(rows: Mapping[str, Any], module: str, default: Any) -> Any:
    for key, value in rows.items():
        if re.fullmatch(PATTERN.format(key), module):
            return value
    return default
