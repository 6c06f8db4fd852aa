"""Ops kept whole: node by node, and decomposed after all where nobody takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from cede import api
from cede.lowering.keep import Keeping
from cede.types import Keep, Program

if TYPE_CHECKING:
    from pathlib import Path

    from cede.config import Config

KEEPER = """
import cede

class Keeper:
    name, backend = "keeper", "reference"

    def keeps(self, program):
        import torch
        aten = torch.ops.aten
        return cede.Keep(ops=(aten.linear.default, aten.hardswish.default))

    def claim(self, program):
        reason = cede.Reason(code=cede.Code.DECLINED, detail="not that one")
        for op in program.graph.ops:
            if WANTED:
                ops = frozenset({op.id})
                yield cede.Claim(partitioner=self.name, backend=self.backend, ops=ops)
            else:
                yield cede.Refusal(partitioner=self.name, op=op.id, reason=reason)

@cede.hookimpl
def cede_partitioners():
    yield Keeper()
"""


def keeper(tmp_path: Path, wanted: str) -> Config:
    plugin = tmp_path / "keeper.py"
    plugin.write_text(KEEPER.replace("WANTED", wanted))
    return api.load_config(
        None, [f"plugins.files=[{plugin}]", "backends=[reference]", "partitioners=[keeper]"]
    )


def net() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    layers = (nn.Linear(6, 4), nn.Hardswish(), nn.Linear(4, 5), nn.Hardswish(), nn.Linear(5, 2))
    return nn.Sequential(*layers).eval(), torch.randn(3, 6)


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ("op.target == 'aten.linear.default'", ["linear", "linear_1", "linear_2"]),
        (
            "op.target == 'aten.linear.default' and op.module == '2'",
            ["linear_1"],
        ),
        (
            "op.target == 'aten.hardswish.default' and op.module == '3'",
            ["hardswish_1"],
        ),
        ("'linear' in op.target or op.module == '1'", None),
    ],
)
def test_what_is_left_is_decomposed_node_by_node(
    tmp_path: Path, wanted: str, kept: list[str] | None
) -> None:
    config = keeper(tmp_path, wanted)
    model, x = net()
    lowered = api.lower(torch.export.export(model, (x,)), config=config)
    taken = set(lowered.plan.delegation_of())
    whole = {"aten.linear.default", "aten.hardswish.default"}
    assert taken
    assert {op.id for op in lowered.graph.ops if op.target in whole} <= taken
    if kept is not None:
        assert sorted(lowered.plan.kept) == kept
    got = api.run(lowered.buffer, [x], config=config).outputs[0]
    torch.testing.assert_close(got, model(x).detach())


def test_a_plain_partitioner_in_an_export_script_decomposes_too(tmp_path: Path) -> None:
    from executorch.exir import to_edge_transform_and_lower

    config = keeper(tmp_path, "op.target == 'aten.linear.default' and op.module == '2'")
    model, x = net()
    partitioner = api.partitioner(config=api.load_config(config, ["limits.reference.min_ops=1"]))
    edge = to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[partitioner])
    assert partitioner.plan is not None
    assert partitioner.plan.kept == ("linear_1",)
    got = api.run(bytes(edge.to_executorch().buffer), [x], config=config).outputs[0]
    torch.testing.assert_close(got, model(x).detach())


def test_a_plain_partitioner_that_breaks_its_word_warns(tmp_path: Path) -> None:
    from executorch.exir import to_edge_transform_and_lower

    config = keeper(tmp_path, "op.target == 'aten.linear.default'")
    plugin = tmp_path / "keeper.py"
    plugin.write_text(plugin.read_text().replace("cede.Keep(", "cede.Keep(certain=True, "))
    model, x = net()
    partitioner = api.partitioner(config=config)
    to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[partitioner])
    assert partitioner.plan is not None
    (warning,) = partitioner.plan.warnings
    assert warning.startswith("kept whole and then left, so the program may need a kernel")
    assert warning.endswith(": hardswish, hardswish_1")


class Wishes:
    name, backend = "mine", "metal"

    def __init__(self, keep: Any) -> None:
        self.keep = keep

    def keeps(self, program: Program) -> Keep:
        if isinstance(self.keep, Exception):
            raise self.keep
        return self.keep  # type: ignore[no-any-return]

    def claim(self, program: Program) -> Any:
        return []


def exported() -> Any:
    model, x = net()
    return torch.export.export(model, (x,))


aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (aten.view.default, "its result aliases an argument (aten::view("),
        (aten.add_.Tensor, "it mutates an argument (aten::add_.Tensor("),
        (aten.add, "that is no operator overload"),
        ("linear", "that is no operator overload"),
    ],
)
def test_wishes_that_can_not_be_met(op: Any, why: str) -> None:
    keeping = Keeping([Wishes(Keep(ops=(op, aten.linear.default)))], {})
    ops, _ = keeping.request(exported())
    assert ops == [aten.linear.default], "the others stand"
    (warning,) = keeping.warnings
    assert warning.startswith(f"partitioner mine wants {op} kept whole, but {why}")
    keeping.request(exported())
    assert keeping.warnings == [warning], "told once"


@pytest.mark.parametrize("keep", [ValueError("no SDK"), None, Keep(ops=None), 3])
def test_keeps_that_fails_is_a_warning(keep: Any) -> None:
    good = Keep(ops=(aten.linear.default,))
    keeping = Keeping([Wishes(keep), Wishes(good)], {})
    ops, _ = keeping.request(exported())
    assert ops == [aten.linear.default]
    (warning,) = keeping.warnings
    assert warning.startswith("partitioner mine: keeps() failed: ")


def test_filters_of_several_partitioners_are_joined() -> None:
    first = Wishes(Keep(ops=(aten.linear.default,), accepts=lambda node: node.name == "linear"))
    second = Wishes(Keep(ops=(aten.linear.default, aten.hardswish.default),
                         accepts=lambda node: node.name.endswith("_1")))  # fmt: skip
    keeping = Keeping([first, second], {}, dropped={"hardswish_1"})
    program = exported()
    ops, keeps = keeping.request(program)
    assert set(ops) == {aten.linear.default, aten.hardswish.default}
    assert keeps is not None
    assert [n.name for n in program.graph.nodes if keeps(n)] == ["linear", "linear_1"]
    assert list(keeping.kept) == ["linear", "linear_1"]


def test_nothing_to_keep() -> None:
    assert Keeping([Wishes(Keep())], {}).request(exported()) == ([], None)


def test_a_filter_that_raises_is_a_warning() -> None:
    def fails(node: Any) -> bool:
        raise ValueError("what is this")

    keeping = Keeping([Wishes(Keep(ops=(aten.linear.default,), accepts=fails))], {})
    program = exported()
    _, keeps = keeping.request(program)
    assert keeps is not None
    assert not any(keeps(node) for node in program.graph.nodes)
    assert keeping.warnings == [
        "partitioner mine: the filter of keeps() failed on linear: ValueError('what is this')",
        "partitioner mine: the filter of keeps() failed on linear_1: ValueError('what is this')",
        "partitioner mine: the filter of keeps() failed on linear_2: ValueError('what is this')",
    ]
