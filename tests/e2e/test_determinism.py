"""One program, one plan: whatever the hash seed, whatever the modules are called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

import cede

SOURCE = Path(__file__).parents[2] / "src"


class Block(torch.nn.Module):
    """Attention and an MLP, with ops that a backend leaves between those that it takes."""

    def __init__(self, *called: str) -> None:
        super().__init__()
        self.called = called or ("query", "key", "value", "norm", "up", "down")
        query, key, value, norm, up, down = self.called
        for name in (query, key, value):
            self.add_module(name, torch.nn.Linear(16, 16))
        self.add_module(norm, torch.nn.LayerNorm(16))
        self.add_module(up, torch.nn.Linear(16, 32))
        self.add_module(down, torch.nn.Linear(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value, norm, up, down = (self.get_submodule(name) for name in self.called)
        scores = query(x) @ key(x).transpose(-2, -1) / 4
        x = norm(x + scores.softmax(-1) @ value(x))
        return x + down(up(x).relu().cumsum(-1))


def program(*called: str) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return torch.export.export(Block(*called).eval(), (torch.randn(1, 4, 16),))


SCRIPT = """
import sys, pathlib, importlib.util
spec = importlib.util.spec_from_file_location("model", sys.argv[1])
model = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model)
made = model.cede.plan(model.program(), "two-backends")
pathlib.Path(sys.argv[2]).write_bytes(made.to_json().encode())
"""


def test_the_hash_seed_does_not_show(tmp_path: Path) -> None:
    texts = []
    for seed in ("1", "2"):
        written = tmp_path / f"{seed}.json"
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, __file__, str(written)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        texts.append(written.read_bytes())
    assert texts[0] == texts[1]
    plan = cede.Plan.from_json(texts[0].decode())
    assert {each.backend for each in plan.delegations} == {"xnnpack", "reference"}
    assert len(plan.delegations) > 2


Structure = tuple[list[tuple[str, list[int]]], list[tuple[str, int, str]]]


def structure(plan: cede.Plan) -> Structure:
    """Who has which op and who left which for what, by position instead of by name."""
    graph = plan.graph
    assert graph is not None
    taken = [(each.backend, sorted(map(graph.position, each.ops))) for each in plan.delegations]
    rows = [
        (row.partitioner, graph.position(row.op), row.reason.code.value)
        for row in (*plan.refusals, *plan.losses)
    ]
    return taken, sorted(rows)


def test_the_names_of_modules_do_not_show() -> None:
    plans = [
        cede.plan(program(*called), "two-backends")
        for called in ((), ("z9", "y_8", "a", "weight_", "getitem", "aten_linear_default"))
    ]
    modules = [{op.module for op in plan.graph.ops if op.module} for plan in plans if plan.graph]
    assert not modules[0] & modules[1], "the names must differ"
    assert structure(plans[0]) == structure(plans[1])
    assert len(structure(plans[0])[0]) > 2
