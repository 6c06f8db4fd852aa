"""What can't be emitted or run is told before a delegate is compiled, all of it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torchao.quantization import IntxWeightOnlyConfig, PerAxis, quantize_

from cede import api
from cede.errors import LoweringError, PolicyError

if TYPE_CHECKING:
    from pathlib import Path


@torch.library.custom_op("cede_borders::wave", mutates_args=())
def wave(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x)


@wave.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def step(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, torch.tanh(self.lin(x))

        return while_loop(lambda i, x: i < 3, step, (torch.zeros((), dtype=torch.int64), x))[1]


class InBranch(Loop):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, super().forward, lambda x: x * 2.0, (x,))


class Everything(Loop):
    """A loop, a custom operator, and weights in a form without kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.odd = nn.Linear(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.odd(wave(super().forward(x)))


# Compiling is told by a file, so that the test sees whether it began.
COMPILES = """
import pathlib
import cede

def register():
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

    class TouchingBackend(BackendDetails):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            pathlib.Path(__file__).with_name("compiled").touch()
            return PreprocessResult(processed_bytes=b"")

    globals()["TouchingBackend"] = TouchingBackend

class Mine:
    name = backend = "touching"
    def keeps(self, program):
        return cede.Keep()
    def claim(self, program):
        reason = cede.Reason(code=cede.Code.DECLINED, detail="no product")
        for op in program.graph.ops:
            if op.kind in ("aten.mm", "aten.addmm", "aten.linear"):
                yield cede.Claim(partitioner="touching", backend="touching", ops=frozenset({op.id}))
            else:
                yield cede.Refusal(partitioner="touching", op=op.id, reason=reason)

@cede.hookimpl
def cede_partitioners():
    yield Mine()

@cede.hookimpl
def cede_backends():
    yield cede.Backend(name="touching", delegate_id="TouchingBackend", register=register)
"""


def exported(model: nn.Module, *args: Any) -> torch.export.ExportedProgram:
    with torch.no_grad():
        return torch.export.export(model.eval(), args)


def test_every_problem_is_in_one_error_and_nothing_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "touching.py").write_text(COMPILES)
    config = api.load_config(
        None,
        [
            f"plugins.files=[{tmp_path / 'touching.py'}]",
            "backends=[touching]",
            "policy.require=[{op: aten.tanh}]",
        ],
    )
    model = Everything()
    quantize_(model.odd, IntxWeightOnlyConfig(torch.int8, PerAxis(0)))
    program = exported(model, torch.ones(2, 4))
    with pytest.raises(LoweringError) as caught:
        api.lower(program, config=config)
    text = str(caught.value)
    assert "policy.require" in text
    assert "nobody takes while_loop" in text
    assert "nobody takes cede_borders.wave.default" in text
    assert "no out variant is registered for torchao::dequantize_affine" in text
    assert "import a build of torchao.quantization" in text
    assert "in module odd" in text
    assert text.count("touching: declined: no product") >= 3
    assert "test_borders.py:" in text
    assert not (tmp_path / "compiled").exists()
    # Planning goes on and warns of the same, and the policy alone is an error of its own kind.
    with pytest.raises(PolicyError):
        api.plan(program, config)


@pytest.mark.parametrize("form", [Loop, InBranch])
def test_a_loop_is_a_warning_of_the_plan(form: type[nn.Module]) -> None:
    program = exported(form(), torch.ones(2, 4))
    plan = api.plan(program, "xnnpack-fp32")
    warned = [text for text in plan.warnings if "nobody takes while_loop" in text]
    assert len(warned) == 1
    assert "run it outside of the program" in warned[0]
    with pytest.raises(LoweringError, match="nobody takes while_loop"):
        api.lower(program, config="xnnpack-fp32")


class Sorts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x)[0] + torch.cumsum(x, 0)


class Orders(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.argsort(torch.relu(x), descending=True)


@pytest.mark.parametrize("form", [Sorts, Orders])
def test_a_kernel_that_the_runtime_lacks_is_a_warning_of_the_plan(form: type[nn.Module]) -> None:
    found = [text for text in api.plan(exported(form(), torch.ones(3))).warnings if "sort" in text]
    assert len(found) == 1
    assert "no kernel for aten::sort." in found[0]
    assert "test_borders.py:" in found[0]
    assert "cumsum.out" not in found[0]


class Roots(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) ** 0.5 + x.norm(dim=0, keepdim=True)


def test_a_power_that_is_left_runs() -> None:
    """`aten::pow` has several overloads of numbers, which hide its out variants from a look-up."""
    x = torch.randn(3, 4)
    lowered = api.lower(exported(Roots(), x), config="xnnpack-fp32")
    assert "aten.pow.Tensor_Scalar" in [row.target for row in lowered.report().left]
    torch.testing.assert_close(api.run(lowered.buffer, [x]).outputs[0], Roots()(x))
