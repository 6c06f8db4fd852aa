"""One model per feature that export scripts trip over, against eager in the real runtime."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import cede
from cede.running import load

CONFIGS = ["xnnpack-fp32", "reference", "two-backends"]


def agree(
    model: nn.Module,
    calls: list[tuple[Any, ...]],
    config: str,
    dynamic_shapes: Any = None,
    example: tuple[Any, ...] | None = None,
) -> Any:
    """Export, lower, and compare every call; the state of both goes on from call to call."""
    result = cede.export(
        model.eval(), example or calls[0], config=config, dynamic_shapes=dynamic_shapes
    )
    outcome = cede.check(result, calls, config)
    assert outcome.passed, outcome.message
    return result


@pytest.mark.parametrize("config", CONFIGS)
def test_dynamic_shape_at_both_bounds_and_between(config: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = torch.relu(self.first(x))
            h = torch.cat([h, h.flip(1)], 1)
            return self.second(h).reshape(x.shape[0], -1, 2), h.mean(1, keepdim=True)

    length = torch.export.Dim("length", min=2, max=64)
    calls = [(torch.randn(1, n, 8),) for n in (64, 2, 31)]
    result = agree(Net(), calls, config, dynamic_shapes={"x": {1: length}})
    bounds = result.graph.symbols
    assert [(b.low, b.high) for b in bounds] == [(2, 64)]


@pytest.mark.parametrize("config", CONFIGS)
def test_control_flow_takes_both_branches(config: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            y = torch.cond(flag, lambda x: torch.relu(self.a(x)), lambda x: self.b(x) - 1.0, (x,))
            return self.a(y)

    x = torch.randn(2, 4)
    calls = [(torch.tensor(flag), x) for flag in (True, False)]
    result = agree(Net(), calls, config)
    inside = [op for op in result.graph.ops if op.scope]
    assert {op.scope for op in inside} == {"cond/submodule_0", "cond/submodule_1"}
    answered = {row.op for row in result.report().rows}
    assert {op.id for op in inside} <= answered


class Cache(nn.Module):
    """A KV cache written by position, starting from values that are not zero."""

    def __init__(self, dim: int = 16, length: int = 8) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.register_buffer("keys", torch.ones(1, length, dim))
        self.register_buffer("values", torch.full((1, length, dim), 2.0))

    def forward(self, x: torch.Tensor, pos: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys[:, pos] = self.k(x)
        self.values[:, pos] = self.v(x)
        weights = torch.softmax(self.q(x) @ self.keys.transpose(1, 2), -1)
        return weights @ self.values, weights


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("trainable", [True, False])
def test_kv_cache_over_three_calls(config: str, trainable: bool) -> None:
    model = Cache().requires_grad_(trainable)
    calls = [(torch.randn(1, 1, 16), torch.tensor([i])) for i in range(3)]
    result = agree(model, calls, config)
    mutated = {given.target for given in result.graph.inputs if given.mutated}
    assert mutated == {"keys", "values"}
    assert torch.equal(model.keys, torch.ones(1, 8, 16)), "exporting must not run the model"


@pytest.mark.parametrize("config", CONFIGS)
def test_shared_weights(config: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(32, 16), nn.Linear(16, 32, bias=False)
            self.head.weight = self.embed.weight
            self.mix = nn.Linear(16, 16)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(torch.cumsum(self.mix(self.mix(self.embed(ids))), 1))

    agree(Net(), [(torch.tensor([[3, 1, 2]]),)], config)


@pytest.mark.parametrize("config", CONFIGS)
def test_list_arguments(config: str) -> None:
    class Net(nn.Module):
        def forward(self, xs: list[torch.Tensor]) -> list[torch.Tensor]:
            joined = torch.stack([torch.sigmoid(x) for x in xs]).sum(0)
            return [joined, torch.cat(xs, -1).tanh(), *torch.split(joined, 2)]

    agree(Net(), [([torch.randn(4, 3) for _ in range(3)],)], config)


@pytest.mark.parametrize("config", CONFIGS)
def test_several_outputs_one_of_them_a_parameter_and_one_twice(config: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.line(x)
            return y, self.line.bias, torch.cumsum(y, 0), y

    agree(Net(), [(torch.randn(2, 4),)], config)


@pytest.mark.parametrize("config", CONFIGS)
def test_channels_last_input(config: str) -> None:
    model = nn.Sequential(nn.Conv2d(5, 11, 3, padding=1), nn.Sigmoid(), nn.AvgPool2d(2))
    x = torch.randn(2, 5, 12, 8).to(memory_format=torch.channels_last)
    agree(model, [(x,)], config)


def test_weight_only_linear_is_vetoed_with_its_reason() -> None:
    from torchao.quantization import IntxWeightOnlyConfig, PerAxis, quantize_

    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).eval()
    quantize_(model, IntxWeightOnlyConfig(torch.int8, PerAxis(0)))
    program = torch.export.export(model, (torch.randn(2, 64),))
    plan = cede.plan(program)
    assert plan.graph is not None
    products = [op.id for op in plan.graph.ops if op.kind in ("aten.addmm", "aten.linear")]
    assert len(products) == 2
    assert not set(products) & set(plan.delegation_of())
    reasons = {row.op: row.reason for row in plan.refusals}
    for op in products:
        assert "lose the weight's scale" in reasons[op].detail
        assert "8da4w" in reasons[op].detail


@pytest.mark.parametrize("bits", [4, 8])
def test_dynamically_quantized_linear_is_delegated_and_right(bits: int) -> None:
    from torchao.quantization import (
        Int8DynamicActivationIntxWeightConfig,
        PerAxis,
        PerGroup,
        quantize_,
    )

    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).eval()
    dtype, granularity = (torch.int4, PerGroup(32)) if bits == 4 else (torch.int8, PerAxis(0))
    quantize_(model, Int8DynamicActivationIntxWeightConfig(dtype, granularity))
    x = torch.randn(2, 64)
    result = cede.export(model, (x,))
    products = [op.id for op in result.graph.ops if op.kind == "aten.linear"]
    assert set(products) <= set(result.plan.delegation_of())
    with torch.no_grad():
        wanted = model(x)
    got = cede.run(result.buffer, [x]).outputs[0]
    assert (got - wanted).norm() / wanted.norm() < 1e-2


KEEPER = """\
import cede
class Keeper:
    name, backend = 'keeper', 'reference'
    def keeps(self, program):
        import torch
        a = torch.ops.aten
        return cede.Keep(ops=(a.linear.default, a.hardswish.default, a.view.default))
    def claim(self, program):
        reason = cede.Reason(code=cede.Code.DECLINED, detail='never takes anything')
        for op in program.graph.ops:
            yield cede.Refusal(partitioner=self.name, op=op.id, reason=reason)
@cede.hookimpl
def cede_partitioners():
    yield Keeper()
"""


def test_an_op_kept_whole_and_not_claimed_is_decomposed_after_all(tmp_path: Any) -> None:
    plugin = tmp_path / "keeper.py"
    plugin.write_text(KEEPER)
    config = cede.load_config(
        None, [f"plugins.files=[{plugin}]", "backends=[reference]", "partitioners=[keeper]"]
    )
    model = nn.Sequential(nn.Linear(6, 4), nn.Hardswish(), nn.Flatten()).eval()
    x = torch.randn(3, 6)
    result = cede.export(model, (x,), config=config)
    assert {op.target for op in result.graph.ops}.isdisjoint({"aten.linear.default"})
    assert not result.plan.kept
    assert any("aliases an argument" in text for text in result.plan.warnings)
    got = cede.run(result.buffer, [x])
    assert got.runtime == "executorch"
    torch.testing.assert_close(got.outputs[0], model(x).detach())


@pytest.mark.parametrize("trainable", [True, False])
def test_state_and_trained_weights_in_an_existing_script(trainable: bool) -> None:
    from executorch.exir import to_edge_transform_and_lower

    model = Cache().requires_grad_(trainable).eval()
    calls = [(torch.randn(1, 1, 16), torch.tensor([i])) for i in range(3)]
    program = torch.export.export(model, calls[0])
    edge = to_edge_transform_and_lower(program, partitioner=[cede.partitioner("xnnpack")])
    loaded = load(edge.to_executorch().buffer, {})
    for call in calls:
        with torch.no_grad():
            wanted = model(*call)
        for mine, other in zip(loaded.run(list(call)), wanted, strict=True):
            torch.testing.assert_close(mine, other)


def test_kept_and_not_claimed_in_an_existing_script(tmp_path: Any) -> None:
    from executorch.exir import to_edge_transform_and_lower

    (tmp_path / "keeper.py").write_text(KEEPER)
    config = cede.load_config(
        None,
        [f"plugins.files=[{tmp_path / 'keeper.py'}]", "backends=[reference]",
         "partitioners=[keeper]"],
    )  # fmt: skip
    model = nn.Sequential(nn.Linear(6, 4), nn.Hardswish()).eval()
    x = torch.randn(3, 6)
    ours = cede.partitioner(config=config)
    edge = to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[ours])
    got = load(edge.to_executorch().buffer, {}).run([x])
    torch.testing.assert_close(got[0], model(x).detach())
    assert not ours.plan.kept


@pytest.mark.parametrize("config", CONFIGS)
def test_weight_only_products_without_a_dequantize_are_right(config: str) -> None:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).eval()
    quantize_(model, Int8WeightOnlyConfig())
    x = torch.randn(2, 64)
    with torch.no_grad():
        wanted = model(x)
    got = cede.run(cede.export(model, (x,), config=config).buffer, [x]).outputs[0]
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("config", CONFIGS)
def test_weights_laid_out_channels_last(config: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(1)).eval()
    model.to(memory_format=torch.channels_last)
    x = torch.randn(1, 3, 8, 8)
    # Eager takes another kernel for such weights, so that the last bit may differ.
    outcome = cede.check(cede.export(model, (x,), config=config), [(x,)])
    assert outcome.passed, outcome.message
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last), "the user's stays"


@pytest.mark.parametrize("config", CONFIGS)
def test_state_returned_as_a_clone(config: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.ones(4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            self.total.add_(x)
            return self.total.clone(), x * 2

    agree(Net(), [(torch.full((4,), float(i)),) for i in range(3)], config)


@pytest.mark.parametrize("config", CONFIGS)
def test_sizes_that_depend_on_data(config: str) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.exp() - 1.5).relu().nonzero()

    x = torch.tensor([1.0, -3.0, 2.0])
    got = cede.run(cede.export(Net(), (x,), config=config).buffer, [x]).outputs[0]
    assert torch.equal(got, Net()(x))


def test_a_delegate_that_fails_to_compile_is_named(tmp_path: Any) -> None:
    (tmp_path / "greedy.py").write_text(
        "import cede\n"
        "from cede.partitioners.rules import Rule, Ruled\n"
        "@cede.hookimpl\n"
        "def cede_partitioners():\n"
        "    yield Ruled(name='greedy', backend='xnnpack', rules=(Rule(('aten.cumsum*',)),))\n"
    )
    config = cede.load_config(
        None, [f"plugins.files=[{tmp_path / 'greedy.py'}]", "lowering.failed=error"]
    )
    with pytest.raises(cede.LoweringError) as raised:
        cede.export(Sums(), (torch.randn(4),), config=config)
    text = str(raised.value)
    assert text.startswith("xnnpack could not compile delegate d0 (claimed by greedy")
    assert "aten_cumsum_default (aten.cumsum.default)" in text
    assert "policy.exclude" in text


class Sums(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x.exp(), 0)
