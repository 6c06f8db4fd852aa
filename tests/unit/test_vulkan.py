"""The Vulkan backend: the stock partitioner's claims, options, and what they lower to."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import pytest
import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from tests.unit.delegated import NETS, ask, edge, edge_of, exported, inside, lowered_by, tagged

import cede
from cede.backends.vulkan.options import Layout, Storage, VulkanOptions
from cede.backends.vulkan.patterns import keep_graphs, together
from cede.backends.vulkan.plugin import compile_specs
from cede.errors import LoweringError
from cede.quiet import logging_kept
from cede.running.pte import delegates_of

with logging_kept("executorch"):
    from executorch.backends.vulkan import patterns
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.backends.vulkan.vulkan_preprocess import parse_compile_spec


@pytest.fixture(scope="module", params=NETS)
def program(request: pytest.FixtureRequest) -> Any:
    return edge_of(request.param)


@pytest.mark.parametrize("backend", ["vulkan", "webgpu"])
def test_claims_are_the_stock_partitioners(program: Any, backend: str) -> None:
    claims, refusals = ask(backend, program)
    ours = {op for claim in claims for op in claim.ops}
    keep_graphs()
    assert ours
    assert ours == tagged(VulkanPartitioner(), program)
    assert all(refusal.reason.detail for refusal in refusals)
    assert {claim.backend for claim in claims} == {backend}
    assert sum(len(claim.ops) for claim in claims) == len(ours)


def test_what_the_compiler_fuses_is_one_claim(program: Any) -> None:
    claims, _ = ask("vulkan", program)
    groups = [set(group) for group in together(program.graph_module)]
    assert any(len(group) > 1 for group in groups)
    for group in groups:
        ops = group & {op for claim in claims for op in claim.ops}
        assert sum(bool(claim.ops & ops) for claim in claims) == 1
        assert not any(claim.divisible for claim in claims if claim.ops & ops)


def test_an_op_that_is_left_says_why() -> None:
    _, refusals = ask("vulkan", edge_of("net"))
    (left,) = [one for one in refusals if "cumsum" in one.op]
    assert str(left.reason) == "unknown-op: no operator implementation"


def test_pattern_graphs_are_built_once_and_stay_the_same() -> None:
    keep_graphs()
    makers = [entry.get_graphs_fn for entry in patterns.fusable_patterns.values()]
    makers = [make for make in makers if make is not None]
    assert makers
    before = [[graph.code for graph in make()] for make in makers]
    ask("vulkan", edge_of("attention"))
    assert all(make() is make() for make in makers)
    assert before == [[graph.code for graph in make()] for make in makers]
    assert before[0] == [graph.code for graph in makers[0].__wrapped__()]


OPTIONS = {
    "nothing": ({}, {}),
    "half": ({"force_fp16": True}, {"force_fp16": True}),
    "small": ({"small_textures": True}, {"small_texture_limits": True}),
    "64 bit": ({"downcast_64_bit": False}, {"downcast_64_bit": False}),
    "buffer": ({"storage": Storage.buffer}, {"storage_type_override": 0}),
    "2d": ({"storage": Storage.texture_2d}, {"storage_type_override": 2}),
    "layout": ({"layout": Layout.channels_packed}, {"memory_layout_override": 2}),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_reach_the_compiler(case: str) -> None:
    given, read = OPTIONS[case]
    specs = [CompileSpec(key, value) for key, value in compile_specs(VulkanOptions(**given))]
    assert parse_compile_spec(specs) == read
    claims, _ = ask("vulkan", edge_of("net"), **given)
    assert {claim.specs for claim in claims} == {tuple((s.key, s.value) for s in specs)}


def test_dynamic_shapes_leave_what_cannot_be_resized() -> None:
    class Shuffle(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x).flip(0)

    graph = edge(torch.export.export(Shuffle(), (torch.randn(2, 4),)))
    claimed = {op for claim in ask("vulkan", graph)[0] for op in claim.ops}
    claims, refusals = ask("vulkan", graph, dynamic_shapes=True)
    left = {one.op: one.reason for one in refusals}
    resized = {op for claim in claims for op in claim.ops}
    assert resized < claimed
    assert {str(left[op]) for op in claimed - resized} == {
        "dynamic-shape: no dynamic shape support"
    }


def test_lowering_gives_vulkan_delegates_and_leaves_logging_alone() -> None:
    model, args = NETS["net"]
    before = logging.root.level, logging.root.handlers[:]
    config = cede.load_config(None, ["backends=[vulkan]", "options.vulkan.force_fp16=true"])
    lowered = cede.export(model, args, config=config)
    assert (logging.root.level, logging.root.handlers) == before
    ((_, id, payload),) = delegates_of(lowered.buffer)
    assert id == "VulkanBackend"
    assert payload[4:8] == b"VH00"
    assert lowered.plan.delegations[0].specs == (("force_fp16", b"\1"),)
    with pytest.raises(LoweringError, match="VulkanBackend of backend vulkan can't run here"):
        cede.run(lowered.buffer, args)


@pytest.mark.slow
def test_delegates_hold_what_the_stock_partitioner_puts_there() -> None:
    for name, (model, args) in NETS.items():
        program = exported(name)
        lowered = cede.export(model, args, config=cede.load_config(None, ["backends=[vulkan]"]))
        stock = lowered_by([VulkanPartitioner()], program)
        assert inside(lowered.edge) == inside(stock)


def test_claims_stand_in_the_order_of_the_graph(program: Any) -> None:
    claims, _ = ask("vulkan", program)
    order = {node.name: i for i, node in enumerate(program.graph.nodes)}
    firsts = [min(order[op] for op in claim.ops) for claim in claims]
    assert all(one < next for one, next in pairwise(firsts))
