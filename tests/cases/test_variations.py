"""More forms of the kinds beside: other ops, other dtypes, other orders, nested."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from torch import nn

import cede
from cede import api
from cede.errors import LoweringError
from cede.host import Host
from cede.running import load


def exported(model: nn.Module, *args: Any, sizes: Any = None) -> torch.export.ExportedProgram:
    with torch.no_grad():
        return torch.export.export(model.eval(), args, dynamic_shapes=sizes)


def randn(*sizes: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def agree(lowered: Any, calls: list[tuple[Any, ...]], atol: float = 1e-4) -> None:
    outcome = api.check(lowered, calls, api.load_config(None, [f"check.atol={atol}"]))
    assert outcome.passed, outcome.message


class Normed(nn.Module):
    """An op that XNNPACK lacks between two convolutions, over and over."""

    def __init__(self, between: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 1) for _ in range(4))
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            x = conv(torch.relu(self.between(x)))
        return x


class Rolled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, 1)


class Flipped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.flip(x, (3,))


@pytest.mark.parametrize(
    ("between", "kind"),
    [
        (nn.GroupNorm(2, 4), "aten.native_group_norm"),
        (Rolled(), "aten.cumsum"),
        (Flipped(), "aten.flip"),
    ],
)
def test_what_splits_a_program_is_ranked_first(between: nn.Module, kind: str) -> None:
    x = randn(1, 4, 6, 6)
    program = exported(Normed(between), x)
    report = api.report(program, "xnnpack-fp32", rank=True)
    first = report.ranking[0]
    assert (first.kind, len(first.ops), first.comparison.after.delegates) == (kind, 4, 1)
    assert first.comparison.before.delegates == 4
    agree(api.lower(program, config="xnnpack-fp32"), [(x,)])


class Bfloat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.lin = nn.Conv1d(4, 4, 3).bfloat16(), nn.Linear(6, 6).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(self.conv(x.bfloat16()).double())


def test_dtypes_without_a_kernel_are_left_with_their_names() -> None:
    x = randn(1, 4, 8)
    lowered = api.lower(exported(Bfloat(), x), config="xnnpack-fp32")
    reasons = {row.target: row.reason for row in lowered.report().left}
    assert "bfloat16" in reasons["aten.convolution.default"]
    assert "float64" in reasons["aten.addmm.default"]
    assert any("cast" in one.do for one in lowered.report().advice)
    agree(lowered, [(x,)], 5e-2)


class Beyond(nn.Module):
    """Operators beyond Core ATen, two of one name and one more."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.qr(x)[1] + torch.linalg.inv_ex(x)[0] + torch.rand_like(x) * 0.0


class Checked(nn.Module):
    """`linalg.inv` checks its result, which torch orders by a token."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x) + torch.linalg.qr(x)[1]


def test_operators_beyond_core_aten_are_offered_and_told_all_at_once() -> None:
    x = randn(4, 4) + torch.eye(4)
    program = exported(Beyond(), x)
    warned = [text for text in api.plan(program, "xnnpack-fp32").warnings if "no kernel" in text]
    for kind in ("linalg_qr.out", "linalg_inv_ex.inverse", "rand_like.out"):
        [line] = [text for text in warned if f"aten::{kind}" in text]
        assert "test_variations.py:" in line
    agree(api.lower(program, config="reference"), [(x,)])


def test_side_effects_stop_before_any_delegate_is_compiled() -> None:
    x = torch.eye(4)
    program = exported(Checked(), x)
    with pytest.raises(LoweringError, match="emits no operator with side effects") as told:
        api.lower(program, config="xnnpack-fp32")
    assert "test_variations.py:" in str(told.value)
    assert any("side effects" in text for text in api.plan(program, "xnnpack-fp32").warnings)
    agree(api.lower(program, config="reference"), [(x,)])  # takes the op whole


def test_complex_numbers_are_told_with_op_dtype_and_line() -> None:
    program = exported(Absolute(), torch.ones(3, dtype=torch.complex64))
    with pytest.raises(LoweringError, match=r"(?s)aten\.abs.*complex64.*test_variations\.py"):
        api.plan(program, "xnnpack-fp32")


class Absolute(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.abs(x)


class Caches(nn.Module):
    """Two caches of two dtypes, written in another order than they are read and returned."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("keys", torch.full((4, 8), 0.25))
        self.register_buffer("seen", torch.zeros(4, dtype=torch.int64))
        self.register_buffer("values", torch.zeros(4, 8))
        self.lin = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = self.lin(x)
        self.values[at] = h
        self.seen[at] = self.seen[at] + 1
        self.keys[at] = x
        return self.keys.sum(0), self.values + 0.0, self.seen * 2, h


@pytest.mark.parametrize("config", ["xnnpack-fp32", "reference"])
def test_caches_are_paired_by_name(config: str) -> None:
    calls = [(randn(1, 8, seed=i), torch.tensor([i % 3])) for i in range(4)]
    lowered = api.lower(exported(Caches(), *calls[0]), config=config)
    agree(lowered, calls)
    states = {state.name: state for state in lowered.report().states}
    assert states.keys() == {"keys", "seen", "values"}
    if config == "reference":
        assert {state.owner for state in states.values()} == {"d0"}


class Fanned(nn.Module):
    """One activation is read by three products, an op of floats, and the products' sum."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = (nn.Linear(32, 32, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        return torch.cumsum(q * k, -1) + v + torch.sigmoid(x) + self.q(x + 1.0)


@pytest.mark.parametrize("mode", ["8da4w", pytest.param("8da8w", marks=pytest.mark.slow)])
def test_one_activation_read_by_products_and_floats(mode: str) -> None:
    x = randn(4, 32)
    made, _ = cede.quantize_model(Fanned().eval(), cede.config.QuantizeConfig(mode=mode))
    lowered = api.lower(exported(made, x), config="xnnpack-fp32")
    products = [op.id for op in lowered.graph.ops if op.kind == "aten.linear"]
    assert len(products) == 4
    assert set(products) <= set(lowered.plan.delegation_of())
    with torch.no_grad():
        wanted = made(x)
    got = api.run(lowered.buffer, [x]).outputs[0]
    assert (got - wanted).norm() / wanted.norm() < 2e-2


class Layouts(nn.Module):
    """Channels last comes in second, meets contiguous values, and goes out again."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.conv(y)
        return torch.cumsum(h + x, 1), h * y


@pytest.mark.parametrize("config", ["xnnpack-fp32", "reference"])
def test_layouts_meet(config: str) -> None:
    x, y = randn(1, 4, 5, 6), randn(1, 4, 5, 6, seed=2).to(memory_format=torch.channels_last)
    lowered = api.lower(exported(Layouts(), x, y), config=config)
    agree(lowered, [(x, y)])


class Inner(nn.Module):
    """The model itself makes channels last values for an op that is left."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x.to(memory_format=torch.channels_last) * 2.0, 1)


def test_a_layout_of_the_model_s_own_is_a_warning() -> None:
    plan = api.plan(exported(Inner(), randn(1, 4, 5, 6)), "xnnpack-fp32")
    assert any("may refuse channels last values" in text for text in plan.warnings)


class Nested(nn.Module):
    """A `cond` in a branch of another; a weight in two branches and outside; a constant branch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, p: torch.Tensor, q: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(q, lambda x: self.b(x) - 1.0, lambda x: torch.tanh(self.a(x)), (x,))

        y = torch.cond(p, lambda x: torch.zeros_like(x) + 3.0, inner, (self.a(x),))
        return torch.cond(q, lambda y: y * 2.0, lambda y: self.b(y), (y,))


class Apart(Nested):
    """Two `cond` after each other, both read at the end and by state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(4))

    def forward(self, p: torch.Tensor, q: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(p, lambda x: self.b(x), lambda x: self.a(x), (x,))
        z = torch.cond(q, lambda x: self.a(self.b(x)), lambda x: self.a(torch.tanh(x)), (x,))
        self.state.add_(y[0])
        return y + z + self.state


@pytest.mark.parametrize("form", [Nested, Apart])
@pytest.mark.parametrize("config", ["xnnpack-fp32", "reference"])
def test_values_of_branches_last(config: str, form: type[nn.Module]) -> None:
    flags = [(p, q) for p in (True, False) for q in (True, False)]
    calls = [(torch.tensor(p), torch.tensor(q), randn(2, 4)) for p, q in flags]
    lowered = api.lower(exported(form(), *calls[0]), config=config)
    agree(lowered, calls)
    if config == "xnnpack-fp32" and form is Nested:
        scopes = {row.scope for row in lowered.report().rows}
        assert any(scope.count("/") == 3 for scope in scopes), scopes


class Grown(nn.Module):
    """Any number of rows, state, and a weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.register_buffer("total", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return self.two(torch.cumsum(self.one(x), 0)) + self.total


def test_a_dynamic_program_with_state_that_was_saved_is_the_same() -> None:
    rows = torch.export.Dim("rows", min=2, max=9)
    program = exported(Grown(), randn(4, 4), sizes={"x": {0: rows}})
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file)
    first, second = (api.plan(one, "xnnpack-fp32") for one in (program, again))
    assert first.fingerprint == second.fingerprint
    assert first.delegations == second.delegations
    agree(api.lower(again, first), [(randn(n, 4),) for n in (2, 9, 5)])


@pytest.mark.parametrize("depth", [2, 4])
def test_each_delegate_is_compiled_once_whatever_the_depth(
    depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend

    compiled = []
    own = XnnpackBackend.preprocess
    monkeypatch.setattr(
        XnnpackBackend, "preprocess", staticmethod(lambda *a: (compiled.append(1), own(*a))[1])
    )
    layers = [layer for _ in range(depth) for layer in (nn.Linear(4, 4), Rolled())]
    config = api.load_config("xnnpack-fp32", ["lowering.cache=false"])
    lowered = api.lower(exported(nn.Sequential(*layers), randn(2, 4)), config=config)
    assert len(compiled) == len(lowered.plan.delegations) == depth


class Step(nn.Module):
    """One of two methods over the same state and weight."""

    def __init__(self, sets: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.sets = sets
        self.register_buffer("state", torch.full((2, 8), 2.0))
        self.lin = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.sets:
            self.state.copy_(x)
            return self.lin(self.state + 0.0)
        return self.lin(self.state.add_(x)) * 2.0


@pytest.mark.parametrize(("backend", "shared"), [("xnnpack", True), ("reference", False)])
def test_methods_share_state_where_the_script_asks_for_it(backend: str, shared: bool) -> None:
    x, models = randn(2, 8), {"step": Step(False).eval(), "set": Step(True).eval()}
    programs = {name: exported(model, x) for name, model in models.items()}
    edge = to_edge_transform_and_lower(programs, partitioner=[cede.partitioner(backend)])
    settings = ExecutorchBackendConfig(
        emit_mutable_buffer_names=True,
        memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=shared),
    )
    with pytest.warns(UserWarning, match="Mutation on a buffer"):
        program = load(edge.to_executorch(settings).buffer, Host.load().backends)
    if shared:
        models["set"].state = models["step"].state
    for name in ("step", "set", "step", "step", "set", "step"):
        with torch.no_grad():
            wanted = models[name](x)
        torch.testing.assert_close(program.run([x], name)[0], wanted, atol=1e-4, rtol=1e-4)
