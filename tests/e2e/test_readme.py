"""What the README and the examples say is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import torch

import cede

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_ci_runs_exactly_the_test_command() -> None:
    tests = next(block for block in blocks("sh") if "pytest" in block).strip()
    script = (ROOT / ".ci/run").read_text().splitlines()
    commands = [line for line in script if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == tests.splitlines()


def test_the_plugin_block_is_a_plugin(tmp_path: Path) -> None:
    block = next(block for block in blocks("python") if "hookimpl" in block)
    (tmp_path / "sums.py").write_text(block)

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cumsum(x.exp(), 0)

    config = cede.load_config(
        "reference", [f"plugins.files=[{tmp_path / 'sums.py'}]", "partitioners=[sums]"]
    )
    plan = cede.plan(torch.export.export(Net(), (torch.randn(4),)), config)
    assert [part.partitioner for given in plan.delegations for part in given.parts] == ["sums"]
    assert set(plan.delegation_of()) == {"aten_cumsum_default"}


def test_every_command_of_the_readme_exists() -> None:
    from cede.cli import main

    words = set(re.findall(r"^(?:\.venv/bin/)?cede ([a-z-]+)", "\n".join(blocks("sh")), re.M))
    assert words
    assert words <= set(main.commands)


def test_two_lines_change_in_an_export_script(tmp_path: Path) -> None:
    scripts = [ROOT / "examples" / f"export_{when}.py" for when in ("before", "after")]
    before, after = (set(_code(script)) for script in scripts)
    assert len(before - after) == 2
    call = "to_edge_transform_and_lower(program, partitioner="
    assert after - before == {
        "import cede",
        f"edge = {call}[ours := cede.partitioner({chr(34)}xnnpack{chr(34)})])",
        "print(ours.report().text())",
    }
    outputs = []
    for script in scripts:
        program = tmp_path / f"{script.stem}.pte"
        done = subprocess.run(
            [sys.executable, str(script), str(program)],
            env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        x = torch.linspace(0, 1, 192).reshape(1, 3, 8, 8)
        outputs.append(cede.run(program, [x]).outputs[0])
    assert torch.equal(*outputs)
    assert "aten_linear_default" in done.stdout
    assert "xnnpack" in done.stdout


def _code(script: Path) -> list[str]:
    return [line for line in script.read_text().splitlines()[1:] if line]
