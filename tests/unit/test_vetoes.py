"""XNNPACK's delegate loses the scale of weight-only quantization: never delegated; the rest is."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torchao.quantization import (
    Int8DynamicActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
    PerAxis,
    PerGroup,
    quantize_,
)

from cede import api
from cede.backends.xnnpack.vetoes import lost_dequantize, prelu_rank, weight_only
from cede.errors import LoweringError
from cede.types import Claim, Code, Op, OpGraph, Ref, TensorFact

if TYPE_CHECKING:
    from pathlib import Path


def model(bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Linear(64, 128, bias=bias), nn.GELU(), nn.Linear(128, 64, bias=bias))
    return nn.Sequential(*layers).eval()


def run_close(made: nn.Module, x: torch.Tensor, wanted: torch.Tensor, lowered: Any) -> None:
    got = api.run(lowered.buffer, [x]).outputs[0]
    assert (got - wanted).norm() / wanted.norm() < 1e-2


@pytest.mark.parametrize(
    ("bits", "group", "bias", "shape"),
    [
        (8, None, True, (2, 64)),
        (8, None, False, (2, 3, 64)),
        (8, 32, True, (2, 3, 64)),
        (4, 32, True, (2, 64)),
        (4, 32, False, (2, 64)),
        (4, None, False, (2, 3, 64)),
    ],
)
def test_weight_only_is_never_delegated(
    bits: int, group: int | None, bias: bool, shape: tuple[int, ...]
) -> None:
    made = model(bias)
    granularity = PerAxis(0) if group is None else PerGroup(group)
    quantize_(made, IntxWeightOnlyConfig(getattr(torch, f"int{bits}"), granularity))
    plan = api.plan(torch.export.export(made, (torch.randn(shape),)))
    assert plan.graph is not None
    taken = {plan.graph.op(op).kind for op in plan.delegation_of()}
    assert taken == {"aten.gelu"}
    product = "aten.addmm" if bias else "aten.mm"
    refused = {op.id: op for op in plan.graph.ops if op.kind == product}
    reasons = [row.reason for row in plan.refusals if row.op in refused]
    assert len(reasons) == 2
    for reason in reasons:
        assert reason.code is Code.QUANT_SCHEME
        assert "would lose the weight's scale" in reason.detail
        assert not plan.kept, "what is refused is not kept whole"


def test_lowering_it_says_what_has_no_kernel_where_and_why() -> None:
    made = model()
    quantize_(made, IntxWeightOnlyConfig(torch.int8, PerAxis(0)))
    program = torch.export.export(made, (torch.randn(2, 64),))
    with pytest.raises(LoweringError) as caught:
        api.lower(program)
    text = str(caught.value)
    assert "no out variant is registered for torchao::dequantize_affine" in text
    assert (
        "torchao_dequantize_affine_default (torchao.dequantize_affine.default) in module 0" in text
    )
    assert "in module 2" in text
    assert "would lose the weight's scale; quantize the activation dynamically" in text


def test_a_float_layer_beside_a_weight_only_one_is_delegated() -> None:
    made = model()
    quantize_(made[2], IntxWeightOnlyConfig(torch.int8, PerAxis(0)))
    plan = api.plan(torch.export.export(made, (torch.randn(2, 64),)))
    assert plan.graph is not None
    taken = [plan.graph.op(op).module for op in plan.delegation_of()]
    assert "0" in taken
    assert "2" not in taken
    assert plan.kept == ("linear",)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("bias", [True, False])
def test_dynamic_quantization_is_delegated_and_right(bits: int, bias: bool) -> None:
    made, x = model(bias), torch.randn(3, 64)
    dtype = getattr(torch, f"int{bits}")
    granularity = PerGroup(32) if bits == 4 else PerAxis(0)
    quantize_(made, Int8DynamicActivationIntxWeightConfig(dtype, granularity))
    lowered = api.export(made, (x,))
    products = [op.id for op in lowered.graph.ops if op.kind == "aten.linear"]
    assert len(products) == 2
    assert set(products) <= set(lowered.plan.delegation_of())
    with torch.no_grad():
        run_close(made, x, made(x), lowered)


def test_int8_weights_in_groups_are_refused_with_the_reason() -> None:
    made = model()
    config = Int8DynamicActivationIntxWeightConfig(torch.int8, PerGroup(32))
    quantize_(made, config)
    plan = api.plan(torch.export.export(made, (torch.randn(3, 64),)))
    assert plan.graph is not None
    products = {op.id for op in plan.graph.ops if op.kind in ("aten.linear", "aten.addmm")}
    assert len(products) == 2
    assert not products & set(plan.delegation_of())
    reasons = [row.reason for row in plan.refusals if row.op in products]
    assert {reason.code for reason in reasons} == {Code.QUANT_SCHEME}
    assert all("in groups of 32" in reason.detail for reason in reasons)


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.line = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x)).mean((2, 3), keepdim=True)
        return self.line(y.flatten(1))


def test_static_quantization_is_delegated_and_right() -> None:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    x = torch.randn(1, 3, 8, 8)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(Convolved().eval(), (x,)).module(), quantizer)
    for _ in range(4):
        prepared(torch.randn(1, 3, 8, 8))
    prepared(x)
    made = convert_pt2e(prepared)
    lowered = api.lower(torch.export.export(made, (x,)))
    taken = {lowered.graph.op(op).kind for op in lowered.plan.delegation_of()}
    assert "aten.convolution" in taken
    assert taken & {"aten.linear", "aten.addmm"}
    vetoed = [row for row in lowered.plan.refusals if row.reason.code is Code.QUANT_SCHEME]
    assert not vetoed, vetoed
    with torch.no_grad():
        wanted = made(x)
    got = api.run(lowered.buffer, [x]).outputs[0]
    # one step of the output's scale, which is at most range / 255
    assert (got - wanted).abs().max() <= 2 * (wanted.max() - wanted.min()).item() / 255 + 1e-6


def op(id: str, target: str, *reads: str, names: tuple[str, ...] = ()) -> Op:
    args = tuple((name, Ref(read)) for name, read in zip(names, reads, strict=False))
    return Op(id=id, target=target, args=args, inputs=reads)


GRAPH = OpGraph(
    ops=(
        op("weight", "torchao.dequantize_affine.default", "w"),
        op("turned", "aten.permute_copy.default", "weight"),
        op("act", "quantized_decomposed.dequantize_per_tensor.default", "x"),
        op("bad", "aten.mm.default", "x", "turned", names=("self", "mat2")),
        op("good", "aten.mm.default", "act", "turned", names=("self", "mat2")),
        op("float", "aten.mm.default", "x", "y", names=("self", "mat2")),
        op("computed", "aten.add.Tensor", "weight"),
        op("other", "aten.mm.default", "x", "computed", names=("self", "mat2")),
        op("conv", "aten.convolution.default", "x", "weight", names=("input", "weight")),
    )
)


@pytest.mark.parametrize(
    ("ops", "vetoed"),
    [
        ("bad", True),
        ("weight turned bad", True),
        ("act good", False),
        ("float", False),
        ("other", False),
        ("conv", True),
        ("good bad", True),
    ],
)
def test_weight_only_on_hand_made_graphs(ops: str, vetoed: bool) -> None:
    claim = Claim(partitioner="x", backend="x", ops=frozenset(ops.split()))
    assert (weight_only(claim, GRAPH) is not None) is vetoed


def test_a_weights_dequantize_goes_with_its_users() -> None:
    graph = OpGraph(ops=GRAPH.ops[:5])

    def veto(*ops: str) -> str:
        reason = lost_dequantize(Claim(partitioner="x", backend="x", ops=frozenset(ops)), graph)
        return reason.detail if reason else ""

    assert veto("weight") == (
        "the weight's torchao.dequantize_affine.default is used outside the claim, by turned"
    )
    assert veto("weight", "turned") == ""


@pytest.mark.parametrize(
    ("shape", "whole"), [((2, 4), False), ((2, 4, 3), False), ((2, 4, 3, 3), True)]
)
def test_prelu_is_delegated_whole_in_four_dimensions_and_in_parts_elsewhere(
    shape: tuple[int, ...], whole: bool
) -> None:
    made, x = nn.Sequential(nn.PReLU(4), nn.ReLU()).eval(), torch.randn(shape)
    lowered = api.export(made, (x,))
    taken = {lowered.graph.op(op).kind for op in lowered.plan.delegation_of()}
    assert ("aten.prelu" in taken) is whole
    assert "aten.relu" in taken
    with torch.no_grad():
        torch.testing.assert_close(api.run(lowered.buffer, [x]).outputs[0], made(x))


def test_a_prelu_that_was_kept_whole_all_the_same_is_refused_with_its_shape() -> None:
    flat = TensorFact(shape=(2, 4), dtype="float32")
    given = Op(id="act", target="aten.prelu.default", outputs=(flat,))
    claim = Claim(partitioner="x", backend="x", ops=frozenset({"act"}))
    reason = prelu_rank(claim, OpGraph(ops=(given,)))
    assert reason is not None
    assert reason.code is Code.SHAPE
    assert "float32[2,4]" in reason.detail


class Sharing(nn.Module):
    """A linear module whose constants are read, or returned, beside it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.linear(x)
        if self.how == "weight":
            return y, self.linear.weight + 1
        if self.how == "bias":
            return (y + self.linear.bias,)
        if self.how == "returned":
            return y, self.linear.bias
        return (self.linear(y),)


FROM_FILE = """
import sys
import torch
from executorch.runtime import Runtime

program = Runtime.get().load_program(sys.argv[1])
method = program.load_method("forward")
x = torch.load(sys.argv[2])
method.execute([x])
torch.save([value.clone() for value in method.execute([x])], sys.argv[3])
"""


@pytest.mark.parametrize(
    "how",
    [
        "weight",
        pytest.param("bias", marks=pytest.mark.slow),
        "returned",
        pytest.param("twice", marks=pytest.mark.slow),
    ],
)
def test_a_constant_that_is_packed_has_no_other_reader(how: str, tmp_path: Path) -> None:
    made, x = Sharing(how).eval(), torch.randn(2, 8)
    lowered = api.export(made, (x,), config="xnnpack-fp32")
    refused = [row for row in lowered.report().left if "packs as a weight or bias" in row.reason]
    assert len(refused) == (how != "twice")
    files = [str(tmp_path / name) for name in ("model.pte", "x.pt", "got.pt")]
    lowered.save(files[0])
    torch.save(x, files[1])
    # the memory is freed only where the program comes from a file, and then the process dies
    subprocess.run([sys.executable, "-c", FROM_FILE, *files], check=True, timeout=300)
    got = torch.load(files[2])
    for mine, theirs in zip(got, made(x), strict=True):
        torch.testing.assert_close(mine, theirs.detach())


@pytest.mark.parametrize("columns", [62, 63])
def test_an_int4_weight_is_kept_whole_only_where_it_will_be_claimed(columns: int) -> None:
    class Four(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            generator = torch.Generator().manual_seed(0)
            data = torch.randint(-8, 8, (8, columns), generator=generator, dtype=torch.int8)
            self.register_buffer("data", data)
            self.register_buffer("scale", torch.rand(8, generator=generator) + 0.5)
            self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight = torch.ops.quantized_decomposed.dequantize_per_channel.default(
                self.data, self.scale, self.zeros, 0, -8, 7, torch.int8
            )
            return nn.functional.linear(x, weight)

    made, x = Four().eval(), torch.randn(3, columns)
    import executorch.kernels.quantized  # noqa: F401  a script emits with its own imports

    # in an existing script an op that is kept whole and then left would be fatal
    ours = api.partitioner("xnnpack")
    edge = to_edge_transform_and_lower(torch.export.export(made, (x,)), partitioner=[ours])
    assert ours.plan is not None
    assert bool(ours.plan.kept) == (columns % 2 == 0)
    run_close(made, x, made(x), edge.to_executorch())
