"""A backend whose compiler fails: the op at fault goes elsewhere, and everybody is told."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import cede
from cede.cli import main
from cede.lowering.failing import shortest

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN = """
import cede
from cede.partitioners.rules import Rule, Ruled
from cede.types import Backend
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from cede.backends.reference.compiler import CedeReferenceBackend


class {name}(BackendDetails):
    @staticmethod
    def preprocess(program, specs):
        nodes = program.graph.nodes
        targets = [str(node.target) for node in nodes if node.op == "call_function"]
        for op in ({ops}):
            if any(op in target for target in targets):
                raise RuntimeError({message})
        return CedeReferenceBackend.preprocess(program, specs)


@cede.hookimpl
def cede_backends():
    yield Backend(name="brittle", delegate_id="{name}", register=lambda: None)


@cede.hookimpl
def cede_partitioners():
    yield Ruled(name="brittle", backend="brittle", rules=(Rule(("aten.*",)),))
"""


NUMBERS = count()


class Chain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cos(torch.sin(x) * x)
        z = torch.tanh(torch.exp(-y))
        return torch.sqrt(z * z + x)


def config(folder: Path, ops: str, *more: str, message: str = "'it does not fit'") -> cede.Config:
    path = folder / "brittle_plugin.py"
    # ExecuTorch finds a compiler by the name of its class, among all that there ever were
    text = PLUGIN.replace("{name}", f"Brittle{next(NUMBERS)}")
    path.write_text(text.replace("{ops}", ops).replace("{message}", message))
    return cede.load_config(None, [f"plugins.files=[{path}]", *more])


CASES = {"the first": "'sin',", "the last": "'sqrt',", "in the middle": "'tanh',"}


@pytest.mark.parametrize("case", CASES)
def test_the_op_at_fault_is_left_and_the_rest_stays_delegated(case: str, tmp_path: Path) -> None:
    loaded = config(tmp_path, CASES[case], "backends=[brittle]")
    x = torch.rand(4)
    lowered = cede.export(Chain(), (x,), config=loaded)
    report = lowered.report()
    [left] = report.left
    assert CASES[case].strip("',") in left.target
    assert "compile-failed: RuntimeError: it does not fit" in left.reason
    assert len(report.by_delegate) == (2 if case == "in the middle" else 1)
    [warning] = [text for text in lowered.plan.warnings if "could not compile" in text]
    assert left.op in warning


def test_the_next_backend_gets_it(tmp_path: Path) -> None:
    loaded = config(tmp_path, "'tanh', 'exp'", "backends=[brittle, reference]")
    x = torch.rand(4)
    lowered = cede.export(Chain(), (x,), config=loaded)
    report = lowered.report()
    taken = {row.target: row.backend for row in report.rows}
    assert {taken["aten.tanh.default"], taken["aten.exp.default"]} == {"reference"}
    assert set(taken.values()) == {"brittle", "reference"}
    assert len([text for text in lowered.plan.warnings if "could not compile" in text]) == 2


def test_an_op_that_the_compiler_names_is_believed(tmp_path: Path) -> None:
    message = "'While executing %aten_cos_default : no kernel'"
    loaded = config(tmp_path, "'cos',", "backends=[brittle]", message=message)
    [left] = cede.export(Chain(), (torch.rand(4),), config=loaded).report().left
    assert left.target == "aten.cos.default"


def test_error_stops(tmp_path: Path) -> None:
    loaded = config(tmp_path, "'cos',", "backends=[brittle]", "lowering.failed=error")
    with pytest.raises(cede.LoweringError, match="brittle could not compile delegate d0"):
        cede.export(Chain(), (torch.rand(4),), config=loaded)


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config(tmp_path, "'cos',")
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.cos(x) + x.exp()\n"
        "def make():\n"
        "    return Net(), (torch.rand(4),)\n"
    )
    words = ["export", "net.py:make", "-b", "brittle", "plugins.files=[brittle_plugin.py]"]
    done = CliRunner().invoke(main, [*words, "-o", "net.pte"])
    assert done.exit_code == 0, done.output
    assert "- brittle could not compile aten_cos_default" in done.stdout
    strict = CliRunner().invoke(main, [*words, "-o", "strict.pte", "--strict"])
    assert strict.exit_code == 4
    assert not (tmp_path / "strict.pte").exists()


@pytest.mark.parametrize("most", [1, 2, 7, 16])
def test_bisection_finds_each_size_past_what_tells_nothing(most: int) -> None:
    for wrong in range(1, most + 1):

        def shows(size: int, wrong: int = wrong) -> bool | None:
            return None if size % 3 == 0 and size != wrong else size >= wrong

        assert shortest(most, lambda size, wrong=wrong: size >= wrong) == wrong
        assert shortest(most, shows) == wrong
