"""Which modules are quantized, how, and in which groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import nn

from cede.config import SelectorConfig
from cede.errors import ConfigError
from cede.policy import selects_module
from cede.quant.source.scheme import Embedding, Scheme, read_embedding, read_mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cede.config import QuantizeConfig

NONE = "none"
"""The mode of a layer rule for modules that stay as they are."""
FITTED = "fitted"
"""`quantize.scales` that are searched for."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One module with what is to be done.

    Attributes:
        path: of the module.
        module: itself.
        scheme: None leaves it, for the reason in `note`.
        padding: zeros to append to each row of the weight.
        note: for the report.
        importance: mean squared inputs, float32 [in], where scales are fitted to calls.
    """

    path: str
    module: nn.Module
    scheme: Scheme | Embedding | None
    padding: int = 0
    note: str = ""
    importance: torch.Tensor | None = field(default=None, compare=False, repr=False)


def layers(model: nn.Module, config: QuantizeConfig, *, values: bool = True) -> list[Layer]:
    """One for each module with a weight of two or more dimensions.

    Args:
        model: to quantize.
        config: in which numbers.
        values: whether weights must have values; without, only sizes are looked at.

    Raises:
        ConfigError: a mode that can't be had, a rule that selects no module, or groups that don't
            divide and are not to be helped: every such module is named.
    """
    _refuse_pt2e(config)
    linear = read_mode(config.mode, config.group_size, "quantize.mode") if config.mode else None
    table = read_embedding(config.embedding, "quantize.embedding") if config.embedding else None
    rules = list(_rules(config))
    used = [False] * len(rules)
    found = []
    for path, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if weight is None or not hasattr(weight, "dim") or weight.dim() < 2:
            continue
        kind = "aten.embedding" if isinstance(module, nn.Embedding) else "aten.linear"
        if type(module) not in (nn.Linear, nn.Embedding):
            note = f"{type(module).__name__} is no nn.Linear or nn.Embedding"
            found.append(Layer(path, module, None, 0, note))
            continue
        scheme: Scheme | Embedding | None = table if kind == "aten.embedding" else linear
        note = "" if scheme else "no mode for it"
        dtype = str(weight.dtype).removeprefix("torch.")
        for number, (selector, asked) in enumerate(rules):
            if selects_module(selector, path, kind, dtype):
                used[number] = True
                if asked is None or isinstance(asked, Embedding) == (kind == "aten.embedding"):
                    scheme, note = asked, f"quantize.layers[{number}]" if asked is None else ""
        given = Layer(path, module, scheme, 0, note)
        found.append(_whole(given, weight) if values else given)
    _insist_on_use(rules, used)
    found = _grouped(found, config.on_mismatch)
    return _fitted(found) if config.scales == FITTED else found


def _insist_on_use(rules: Sequence[tuple[object, object]], used: Sequence[bool]) -> None:
    for number, (selector, _) in enumerate(rules):
        if not used[number]:
            raise ConfigError(
                f"quantize.layers[{number}]: no linear or embedding module is {selector}"
            )


def _whole(layer: Layer, weight: torch.Tensor) -> Layer:
    """The layer, left if a new module could not stand for it.

    Raises:
        ConfigError: its weight has no values yet.
    """
    if layer.scheme is None or not (why := _unfit(layer, weight)):
        return layer
    return replace(layer, scheme=None, note=f"left: {why}")


def _unfit(layer: Layer, weight: torch.Tensor) -> str:
    module = layer.module
    if weight.is_meta:
        raise ConfigError(
            f"{layer.path or 'the model'}: its weight is on the meta device and has no values: load"
            " the weights before quantizing"
        )
    if weight.dtype != torch.float32:  # torchao's kernels give float32 alone
        return f"its weight is {str(weight.dtype).removeprefix('torch.')}, not float32"
    if type(weight) is not nn.Parameter:
        return f"its weight is no plain parameter but a {type(weight).__name__}"
    if not bool(weight.detach().isfinite().all()):
        return "its weight has NaN or infinities"
    if module._forward_hooks or module._forward_pre_hooks:
        return "it has hooks, which a new module would not have"
    if isinstance(module, nn.Embedding) and module.max_norm is not None:
        return "it renormalizes its weight (max_norm)"
    return ""


def _refuse_pt2e(config: QuantizeConfig) -> None:
    if config.pt2e:
        raise ConfigError(
            "quantize.pt2e is about an exported program, not a model's source:"
            " cede.quantize_program and cede export take it"
        )
    plain = type(config)()
    for key in ("pt2e_mode", "per_channel", "calibration"):
        wanted = key == "calibration" and config.scales == FITTED
        if not wanted and getattr(config, key) != getattr(plain, key):
            raise ConfigError(f"quantize.{key}: name the quantizer that it is for in quantize.pt2e")


def _rules(config: QuantizeConfig) -> Iterator[tuple[SelectorConfig, Scheme | Embedding | None]]:
    for number, rule in enumerate(config.layers):
        where = f"quantize.layers[{number}].mode"
        selector = SelectorConfig(**SelectorConfig.read(rule.select))
        if rule.mode == NONE:
            yield selector, None
        elif "," in rule.mode:
            yield selector, read_embedding(rule.mode, where)
        else:
            yield selector, read_mode(rule.mode, rule.group_size, where)


def _grouped(found: list[Layer], on_mismatch: str) -> list[Layer]:
    """The layers with groups that divide, by the rule for those that don't."""
    made, wrong = [], []
    for layer in found:
        scheme = layer.scheme
        if scheme is None:
            made.append(layer)
            continue
        shape = layer.module.get_parameter("weight").shape
        columns = shape[1]
        if not (why := _misfit(scheme, columns)):
            made.append(layer)
            continue
        fitting = _fitting(scheme, columns)
        if on_mismatch == "skip":
            made.append(replace(layer, scheme=None, note=f"left: {why}"))
        elif on_mismatch == "pad" and isinstance(scheme, Scheme):
            more = -columns % (scheme.group or scheme.step)
            made.append(replace(layer, padding=more, note=f"padded by {more} columns: {why}"))
        elif on_mismatch == "smaller" and fitting:
            smaller = replace(scheme, group=fitting[-1])
            made.append(replace(layer, scheme=smaller, note=f"group {fitting[-1]}: {why}"))
        else:
            sizes = ", ".join(map(str, reversed(fitting[-6:]))) or "none (pad it or leave it out)"
            size = "x".join(map(str, shape))
            wrong.append(f"  {layer.path} [{size}]: {why}; group sizes that fit: {sizes}")
    if wrong:
        raise ConfigError(
            "quantize: groups that don't divide:\n" + "\n".join(wrong) + "\nGive a group size that"
            " fits, a rule for these modules, or quantize.on_mismatch: skip, pad or smaller."
        )
    return made


def _fitted(found: list[Layer]) -> list[Layer]:
    """The layers with the search for scales, where there are 4 bits."""
    made = [
        replace(layer, scheme=replace(scheme, fitted=True))
        if isinstance(scheme := layer.scheme, Scheme) and scheme.bits == 4 and not scheme.kernels
        else layer
        for layer in found
    ]
    if made == found:
        raise ConfigError(
            "quantize.scales: fitted is for linear modules in 4 bits (4w, 8da4w), and none is: give"
            " such a mode, or leave quantize.scales out"
        )
    return made


def _misfit(scheme: Scheme | Embedding, columns: int) -> str:
    """Why a weight of so many columns can't be quantized so, "" if it can."""
    if scheme.group and columns % scheme.group:
        return f"{columns} columns don't divide into groups of {scheme.group}"
    have, pack = scheme.group or columns, {2: 4, 4: 2}.get(scheme.bits, 1)
    if have % pack:
        return f"{scheme.bits} bits need {pack} columns to a byte, and a group has {have}"
    if _blocks(scheme) and have % scheme.step:
        return f"groups are multiples of {scheme.step}, and a row has {have} columns"
    return ""


def _blocks(scheme: Scheme | Embedding) -> TypeGuard[Scheme]:
    """Whether the weight is stored in blocks of XNNPACK's, for int8 activations."""
    return isinstance(scheme, Scheme) and scheme.dynamic and scheme.bits < 8 and not scheme.kernels


def _fitting(scheme: Scheme | Embedding, columns: int) -> list[int]:
    """Group sizes up to the one asked for that divide so many columns, ascending."""
    step = scheme.step if isinstance(scheme, Scheme) else {2: 4, 4: 2}.get(scheme.bits, 1)
    most = scheme.group or columns
    return [size for size in range(step, most + 1, step) if columns % size == 0]
