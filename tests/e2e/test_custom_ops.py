"""Custom operators: kept whole, claimed, put between built-in ops, run, and refused in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.operator.convert import to_out_variant
from tests.e2e import custom_ops as forms

import cede
from cede.backends.reference.runner import load as load_reference

if TYPE_CHECKING:
    from pathlib import Path

    from cede.lowering import Lowered

OWN = """
import cede
from cede.partitioners.rules import Rule, Ruled


@cede.hookimpl
def cede_partitioners():
    yield Ruled(name="own", backend="reference", rules=(Rule(("cede_test.*",)),), keep=keep)


def keep():
    import torch

    ops = torch.ops.cede_test
    return (ops.wave.default, ops.scale_.default, ops.composite.default, ops.known.default)
"""
X = torch.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(OWN)
    return path


def agreeing(
    model: torch.nn.Module, config: Any, calls: list[tuple[Any, ...]] | None = None, **kwargs: Any
) -> Lowered:
    """The program, which gives eager's numbers and keeps eager's state on each of three calls."""
    calls = calls or [(X + i,) for i in range(3)]
    lowered = cede.export(model.eval(), calls[0], config=config, **kwargs)
    outcome = cede.check(lowered, calls, config)
    assert outcome.passed, outcome.message
    return lowered


def taken(lowered: Lowered) -> list[tuple[str, list[str]]]:
    """Backend and targets of each delegate, in order."""
    return [
        (given.backend, [lowered.graph.op(op).target for op in given.ops])
        for given in lowered.plan.delegations
    ]


ONE_DELEGATE = [
    forms.TwoOutputs, forms.OneUnused, forms.AList, forms.Arguments, forms.InPlace,
    forms.WrittenInput, forms.Buffer, forms.View,
]  # fmt: skip


@pytest.mark.parametrize("form", ONE_DELEGATE)
def test_it_shares_a_delegate_with_built_in_ops(form: type[torch.nn.Module]) -> None:
    lowered = agreeing(form(), "reference")
    [(_, targets)] = taken(lowered)
    assert any(target.startswith("cede_test.") for target in targets)
    assert "aten.linear.default" in targets
    assert not [op for op in lowered.graph.ops if "auto_functionalized" in op.target]


def test_it_stands_in_a_branch() -> None:
    calls = [(torch.tensor(flag), X) for flag in (True, False)]
    lowered = agreeing(forms.Branch(), "reference", calls)
    [(_, targets)] = taken(lowered)
    assert {"cond", "cede_test.wave.default", "cede_test.multiples.default"} <= set(targets)


def test_the_batch_is_dynamic() -> None:
    batch = torch.export.Dim("batch", min=1, max=8)
    calls = [(torch.randn(n, 4),) for n in (3, 8, 1)]
    lowered = agreeing(forms.AList(), "reference", calls, dynamic_shapes=({0: batch},))
    assert [bound.high for bound in lowered.graph.symbols] == [8]


def test_a_dynamic_size_that_executorch_fixes_is_told() -> None:
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(forms.AList(), (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    with pytest.raises(cede.LoweringError, match=r"dimension 0 of x;.*cede_test_multiples_default"):
        to_edge_transform_and_lower(program, partitioner=[cede.partitioner("reference")])
    config = EdgeCompileConfig(_check_ir_validity=False)
    program = torch.export.export(forms.AList(), (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    partitioner = cede.partitioner("reference")
    to_edge_transform_and_lower(program, partitioner=[partitioner], compile_config=config)
    assert partitioner.plan is not None
    assert partitioner.plan.graph.inputs[-1].tensor.dynamic  # type: ignore[union-attr]


@pytest.mark.parametrize("form", [forms.TwoOutputs, forms.AList, forms.InPlace, forms.Buffer])
def test_it_stands_between_delegates_of_another_backend(
    form: type[torch.nn.Module], own: Path
) -> None:
    config = cede.load_config(
        None,
        [f"plugins.files=[{own}]", "backends=[xnnpack,reference]", "partitioners=[xnnpack,own]"],
    )
    lowered = agreeing(form(), config)
    assert not lowered.plan.warnings
    backends = [backend for backend, _ in taken(lowered)]
    assert backends == ["xnnpack", "reference", "xnnpack"]
    assert all(target.startswith(("cede_test.", "getitem")) for target in taken(lowered)[1][1])


def test_written_arguments_are_facts_by_the_schema() -> None:
    graph = cede.plan(torch.export.export(forms.View(), (X,)), "reference").graph
    assert graph is not None
    [op] = [op for op in graph.ops if op.target == "cede_test.scale_.default"]
    assert op.arg("k") == 3.0
    assert graph.input(op.arg("x").id).target == "rows"  # type: ignore[union-attr]
    assert op.arg("_x_storage_offset") == 4
    assert [str(fact) for fact in op.outputs] == ["float32[3,4]"]


@pytest.mark.parametrize("form", [forms.Composite, forms.Known])
def test_one_with_a_decomposition_is_decomposed_for_those_who_do_not_want_it(
    form: type[torch.nn.Module], own: Path
) -> None:
    lowered = agreeing(form(), "xnnpack-fp32")
    assert not [op for op in lowered.graph.ops if op.target.startswith("cede_test.")]
    files = f"plugins.files=[{own}]"
    whole = cede.load_config("two-backends", [files, "partitioners=[xnnpack,own]"])
    assert any("cede_test." in str(targets) for _, targets in taken(agreeing(form(), whole)))
    # Wanted whole by one whose claim is then vetoed: it is decomposed all the same.
    vetoed = cede.load_config(whole, ["policy.exclude=[{op: 'cede_test.*'}]"])
    assert "cede_test." not in str(taken(agreeing(form(), vetoed)))


def test_a_plan_with_a_whole_op_is_followed_later(own: Path) -> None:
    config = cede.load_config(
        "two-backends", [f"plugins.files=[{own}]", "partitioners=[xnnpack,own]"]
    )
    program = torch.export.export(forms.Known().eval(), (X,))
    plan = cede.plan(program, config)
    assert "cede_test.known.default" in plan.kept
    lowered = cede.lower(program, plan, config)
    assert lowered.plan.delegations == plan.delegations
    assert cede.check(lowered, [(X,)], config).passed


@pytest.mark.parametrize("form", [forms.OutVariant, forms.WritingOutVariant])
def test_one_with_an_out_variant_is_left_to_the_program(form: type[torch.nn.Module]) -> None:
    model = form().eval()
    lowered = cede.export(model, (X,), config="xnnpack-fp32")
    [warning] = lowered.warnings
    assert "cede_test::" in warning
    assert "no kernel" in warning
    # ExecuTorch's runtime lacks the kernel; the interpreter calls torch's.
    program = load_reference(lowered.buffer)
    for x in (X, X + 1):
        with torch.no_grad():
            torch.testing.assert_close(program.run([x]), [model(x)])


def test_upstream_still_finds_out_variants_as_emission_does() -> None:
    assert to_out_variant(forms.OPS.plus.default)[0] is forms.OPS.plus.out
    assert to_out_variant(forms.OPS.count.default)[0] is forms.OPS.count.out
    with pytest.raises(RuntimeError, match="out variant"):
        to_out_variant(forms.OPS.wave.default)


class Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = torch.nn.Sequential(forms.TwoOutputs(), forms.InPlace())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x)


TRAP = """
import cede
from cede.partitioners.rules import Rule, Ruled


def register():
    raise AssertionError("a delegate was about to be compiled")


@cede.hookimpl
def cede_backends():
    yield cede.Backend(name="trap", delegate_id="TrapBackend", register=register)


@cede.hookimpl
def cede_partitioners():
    yield Ruled(name="trap", backend="trap", rules=(Rule(("aten.*",)),))
"""


def test_one_that_nothing_can_run_stops_before_any_delegate_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "trap.py").write_text(TRAP)
    config = cede.load_config(
        None, [f"plugins.files=[{tmp_path / 'trap.py'}]", "backends=[trap,xnnpack]"]
    )
    with pytest.raises(cede.LoweringError) as raised:
        cede.export(Nested().eval(), (X,), config=config)
    told = str(raised.value)
    for op, module in {"wave": "block.0", "scale_": "block.1"}.items():
        line = next(line for line in told.splitlines() if f"(cede_test.{op}.default)" in line)
        assert f"in module {module} at custom_ops.py:" in line
        assert f"trap: unknown-op: no rule for cede_test.{op}.default" in line
        assert f"xnnpack: unknown-op: no rule for cede_test.{op}.default" in line
    assert "a partitioner that claims cede_test.wave.default" in told
    assert "an out variant (cede_test::wave.out)" in told


def test_the_two_line_way_says_the_same_and_a_plan_warns() -> None:
    program = torch.export.export(Nested().eval(), (X,))
    with pytest.raises(cede.LoweringError, match=r"cede_test\.wave\.default") as raised:
        to_edge_transform_and_lower(program, partitioner=[cede.partitioner("xnnpack")])
    plan = cede.plan(program, "xnnpack-fp32")
    assert list(plan.warnings) == [str(raised.value)]
    assert plan.delegations


def test_a_decomposition_that_fails_names_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(x: torch.Tensor) -> None:
        raise ValueError("no such thing")

    monkeypatch.setitem(torch._decomp.decomposition_table, forms.OPS.known.default, broken)
    with pytest.raises(cede.LoweringError, match=r"cede_test\.known\.default.*no such thing"):
        cede.export(forms.Known().eval(), (X,), config="xnnpack-fp32")
