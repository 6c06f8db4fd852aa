"""Linear modules with a LoRA adapter beside them: x W' + x A' B' scale.

A module keeps its class, names and numbers: only its own forward is what it was and the product
added. So what stands for the model's weights is the same with every adapter and without.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from cede.quant.source import QuantizationReport
from cede.quant.source.rewrite import copied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from cede.llm.adapter import Asked
    from cede.llm.adapter_file import Adapter, Pair
    from cede.model import Model
    from cede.quant.source import QuantizedRow

NUMBERS = {"int8": "int8"}
"""Modes of `cede.quant.source` by `adapter_quant`; others keep the dtype of the model."""


class _Beside:
    """Mixed into the class of a module that has got `lora_a` and `lora_b`."""

    def forward(self: Any, x: Tensor) -> Tensor:
        """Of float [..., in]."""
        made: Tensor = super().forward(x) + self.lora_b(self.lora_a(x))  # type: ignore[misc]
        return made


def adapted(base: Model, adapters: Mapping[str, Adapter], method: str) -> Model:
    """A model over the same tensors, with the adapter of a method if it has one.

    The rows of matrices that were quantized are added to those of the model.
    """
    source = base.source()
    module = copied(source, (*source.parameters(), *source.buffers()))
    if method not in adapters:
        return replace(base, module=module)
    module, rows = with_adapter(module, adapters[method])
    report = base.quantization
    if not rows:
        return replace(base, module=module)
    told = QuantizationReport(
        rows=(*getattr(report, "rows", ()), *rows),
        bytes_before=sum(row.bytes_before for row in rows) + getattr(report, "bytes_before", 0),
        bytes_after=sum(row.bytes_after for row in rows) + getattr(report, "bytes_after", 0),
    )
    return replace(base, module=module, quantization=told)


def with_adapter(model: nn.Module, adapter: Adapter) -> tuple[nn.Module, tuple[QuantizedRow, ...]]:
    """The transformer, changed in place, and a row for each matrix that was quantized.

    The scale is in B.

    Args:
        model: with its weights, in the numbers that they shall have.
        adapter: that fits it.
    """
    modules = dict(model.named_modules())
    rows: list[QuantizedRow] = []
    for name, pair in adapter.pairs.items():
        own = modules[name]
        made, report = _linears(pair, adapter.asked)
        own.add_module("lora_a", made[0])
        own.add_module("lora_b", made[1])
        kind: Any = type(own)
        own.__class__ = _beside(kind)
        found = report.rows if report is not None else ()
        rows += [replace(row, module=f"{name}.lora_{'ab'[i]}") for i, row in enumerate(found)]
    return model, tuple(rows)


def _linears(pair: Pair, asked: Asked) -> tuple[nn.Sequential, QuantizationReport | None]:
    assert pair.a is not None and pair.b is not None  # noqa: S101, PT018  (it fits)
    scaled = pair.b.to(torch.float32) * asked.scale_of(pair.source)
    both = nn.Sequential(_linear(pair.a), _linear(scaled)).eval().requires_grad_(False)
    if asked.quant not in NUMBERS:
        return both, None
    from cede.config import QuantizeConfig
    from cede.quant.source import quantize_model

    made, report = quantize_model(both, QuantizeConfig(mode=NUMBERS[asked.quant]))
    assert isinstance(made, nn.Sequential)  # noqa: S101  (rewriting keeps what is around)
    return made, report


def _linear(weight: Tensor) -> nn.Linear:
    outputs, inputs = weight.shape
    made = nn.Linear(inputs, outputs, bias=False, device="meta")
    made.weight = nn.Parameter(weight.to(torch.float32).contiguous(), requires_grad=False)
    return made


@cache
def _beside(kind: type[nn.Module]) -> type[nn.Module]:
    return type(f"{kind.__name__}WithAdapter", (_Beside, kind), {"__module__": __name__})


def reported(reports: Mapping[str, Any]) -> Any:
    """One report for all methods: that of the first, with the rows of adapters of the others."""
    first = next(iter(reports.values()))
    held = set(getattr(first, "rows", ()))
    more = [
        replace(row, module=f"{name}: {row.module}")
        for name, report in list(reports.items())[1:]
        for row in getattr(report, "rows", ())
        if row not in held
    ]
    if not more:
        return first
    return QuantizationReport(
        rows=(*getattr(first, "rows", ()), *more),
        bytes_before=sum(row.bytes_before for row in more) + getattr(first, "bytes_before", 0),
        bytes_after=sum(row.bytes_after for row in more) + getattr(first, "bytes_after", 0),
    )
