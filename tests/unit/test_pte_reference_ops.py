"""Operators from outside ATen in reference delegates: quantized ones and a user's own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch import nn

from cede.backends.reference.plugin import cede_backends
from cede.running import run
from cede.running.pte import delegates_of

if TYPE_CHECKING:
    from pathlib import Path

REFERENCE = "CedeReferenceBackend"
BACKENDS = {backend.name: backend for backend in cede_backends()}


class Everything(Partitioner):  # type: ignore[misc]
    def partition(self, program: Any) -> PartitionResult:
        for node in program.graph.nodes:
            if node.op == "call_function":
                node.meta["delegation_tag"] = "all"
        tag_constant_data(program)
        tags = {"all": DelegationSpec(REFERENCE, [])}
        return PartitionResult(tagged_exported_program=program, partition_tags=tags)


def edge(model: nn.Module, args: tuple[Any, ...], *partitioners: Any) -> EdgeProgramManager:
    BACKENDS["reference"].register()
    program = torch.export.export(model.eval(), args)
    return to_edge_transform_and_lower(program, partitioner=list(partitioners))


def lower(model: nn.Module, args: tuple[Any, ...]) -> bytes:
    program = bytes(edge(model, args, Everything()).to_executorch().buffer)
    assert [id for _, id, _ in delegates_of(program)] == [REFERENCE]
    return program


LIBRARY = torch.library.Library("cede_runner_test", "DEF")
LIBRARY.define("triple(Tensor x) -> Tensor")
LIBRARY.impl("triple", lambda x: x * 3, "CompositeExplicitAutograd")


class Custom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.cede_runner_test.triple(x)


FRESH = """
import sys
import torch
from cede.backends.reference.plugin import cede_backends
from cede.running import load

loaded = load(sys.argv[1], {given.name: given for given in cede_backends()})
torch.save(loaded.run(torch.load(sys.argv[2])), sys.argv[3])
"""
"""Runs argv[1] on the inputs in argv[2] and saves the outputs as argv[3]."""


def test_dynamically_quantized_linear() -> None:
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_

    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
    quantize_(model, Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8))
    args = (torch.randn(3, 64),)
    program = lower(model, args)
    (got,) = run(program, args, backends=BACKENDS).outputs
    assert torch.equal(got, edge(model, args).exported_program().module()(*args))


def test_custom_operator_runs_where_it_is_registered_and_is_named_elsewhere(
    tmp_path: Path,
) -> None:
    program = lower(Custom(), (torch.ones(2),))
    outputs = run(program, [torch.ones(2)], backends=BACKENDS).outputs
    assert outputs[0].tolist() == [3.0, 3.0]
    path = tmp_path / "custom.pte"
    path.write_bytes(program)
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "no kernel for operator cede_runner_test::triple" in done.stderr.splitlines()[-1]
