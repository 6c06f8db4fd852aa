"""Operators beyond Core ATen cost one conversion, however many there are."""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir import to_edge
from torch import nn

from cede import api
from cede.lowering.beyond_core import BeyondCore, let_through

aten = torch.ops.aten


class Many(nn.Module):
    """Six of them."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q, r = torch.linalg.qr(x)
        return (
            q + torch.linalg.inv_ex(r)[0],
            torch.rand_like(x),
            torch.linalg.svdvals(x),
            torch.digamma(x),
            torch.special.i0e(x),
        )


def test_it_equals_what_core_aten_lacks() -> None:
    exceptions = list({BeyondCore()} | {aten.linear.default})
    assert aten.linalg_qr.default in exceptions
    assert aten.add.Tensor not in exceptions
    assert aten.view_copy.default not in exceptions
    assert torch.ops.quantized_decomposed.quantize_per_tensor.default not in exceptions
    assert "linalg_qr" not in exceptions
    assert BeyondCore() == exceptions[0] or BeyondCore() == exceptions[1]


def test_one_conversion_for_any_number_of_operators() -> None:
    program = torch.export.export(Many(), (torch.rand(3, 3),))
    calls: list[bool] = []

    def convert(settings: Any, plain: bool) -> Any:
        calls.append(plain)
        return to_edge(program, compile_config=settings)

    edge = let_through(program, convert)
    assert calls == [False]
    kinds = {str(node.target) for node in edge.exported_program().graph.nodes}
    assert sum("linalg_qr" in kind or "digamma" in kind for kind in kinds) == 2


def test_a_plan_warns_of_every_kernel_that_lacks() -> None:
    program = torch.export.export(Many(), (torch.rand(3, 3),))
    warned = "\n".join(api.plan(program, "xnnpack-fp32").warnings)
    for name in ("linalg_qr", "linalg_inv_ex", "rand_like", "linalg_svd", "digamma", "i0e"):
        assert name in warned
