"""The example of a custom operator with its own kernel: built, installed, claimed and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import cede

if TYPE_CHECKING:
    from cede.lowering import Lowered

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/plugin_cumulative"


@pytest.fixture(scope="module")
def cumulative(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where pip has built and installed the example."""
    root = tmp_path_factory.mktemp("cumulative")
    source, site = root / "source", root / "site"
    shutil.copytree(EXAMPLE, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return site


def python(site: Path, *words: str, cwd: Path) -> str:
    paths = os.pathsep.join([str(ROOT / "src"), str(site)])
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


EXPORT = """
import cede, torch
from bench import Layer
from torch.export import Dim

torch.manual_seed(0)
model, x = Layer(8).eval(), torch.randn(2, 6, 8)
config = cede.load_config("two-backends", ["partitioners=[cumulative,xnnpack]"])
batch = Dim("batch", min=1, max=4)
lowered = cede.export(model, (x,), config=config, dynamic_shapes=({0: batch},))
calls = [(torch.randn(n, 6, 8),) for n in (2, 1, 4)]
outcome = cede.check(lowered, calls, config)
assert outcome.passed, outcome.message
lowered.save("layer.pte")
with torch.no_grad():
    torch.save((x, model(x)), "wanted.pt")
for given in lowered.plan.delegations:
    print(given.backend, *(lowered.graph.op(op).target for op in given.ops))
"""
RUN = """
import sys, torch, cede

x, wanted = torch.load("wanted.pt")
got = cede.run("layer.pte", [x]).outputs[0]
torch.testing.assert_close(got, wanted)
"""
OPERATOR = """
import torch
from cede_cumulative.operator import gated_scan, step_by_step

torch.manual_seed(0)
gate, value = torch.rand(3, 7, 5), torch.randn(3, 7, 5)
for start in (None, torch.randn(3, 5)):
    torch.testing.assert_close(gated_scan(gate, value, start), step_by_step(gate, value, start))
torch.library.opcheck(torch.ops.cumulative.gated_scan.default, (gate.mT, value.mT))
"""


def test_the_example_runs_its_kernel_among_built_in_ops(cumulative: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "bench.py", tmp_path)
    delegates = python(cumulative, "-c", EXPORT, cwd=tmp_path).splitlines()
    assert [line.split()[0] for line in delegates] == ["xnnpack", "reference"]
    assert {"cumulative.gated_scan.default", "aten.sigmoid.default", "aten.mul.Tensor"} <= set(
        delegates[1].split()
    )
    python(cumulative, "-c", RUN, cwd=tmp_path)  # a process that never imported the operator


@pytest.mark.slow
def test_the_examples_operator_is_a_good_one(cumulative: Path, tmp_path: Path) -> None:
    python(cumulative, "-c", OPERATOR, cwd=tmp_path)


@pytest.mark.slow
def test_the_examples_benchmark_compares_equal_programs(cumulative: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "bench.py", tmp_path)
    told = python(cumulative, "-W", "ignore", "bench.py", "4", cwd=tmp_path)
    assert re.search(r"kernel: \d+ ops.*\ndecomposed: \d+ ops.*\nratio: [\d.]+\n", told)


def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/custom-ops.md").read_text()
    model, kernel, compiler, apart = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for name, text in {"kernel": kernel, "apart_compiler": compiler, "apart": apart}.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    space: dict[str, Any] = {}
    exec(compile(model, "custom-ops.md", "exec"), space)
    net, x = space["Net"]().eval(), torch.randn(2, 4)

    def lowered(plugin: str, *more: str) -> Lowered:
        config = cede.load_config(None, [f"plugins.files=[{tmp_path / plugin}.py]", *more])
        result = cede.export(net, (x,), config=config)
        assert cede.check(result, [(x,), (x + 1,)], config).passed
        return result

    def taken(result: Lowered, backend: str) -> list[list[str]]:
        given = [given for given in result.plan.delegations if given.backend == backend]
        return [[result.graph.op(op).target for op in each.ops] for each in given]

    own = lowered("kernel", "backends=[xnnpack,reference]", "partitioners=[xnnpack,swings]")
    assert taken(own, "reference") == [["mine.swing.default", "getitem", "getitem"]]
    other = lowered("apart", "backends=[apart]")
    assert {"mine.swing.default", "aten.mul.Tensor"} < set(taken(other, "apart")[0])
    other.save(tmp_path / "apart.pte")
    with torch.no_grad():
        torch.save((x, net(x)), tmp_path / "wanted.pt")
    assert python(tmp_path, "-c", ALONE, cwd=tmp_path).strip() == "no operator"


ALONE = """
import cede, torch

x, wanted = torch.load("wanted.pt")
config = cede.load_config(None, ["plugins.files=[apart.py]"])
torch.testing.assert_close(cede.run("apart.pte", [x], config=config).outputs[0], wanted)
print("an operator" if hasattr(torch.ops.mine, "swing") else "no operator")
"""
