"""Compilers that hang, crash or take too much memory, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from tests.e2e.test_interrupt import heed_interrupts

import cede
from cede.cli import main
from cede.host import Host
from cede.lowering.quick import quickly

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a fork that lasts")

PLUGIN = """
import ctypes, os, subprocess, sys, tempfile, time, warnings
import cede
from cede.partitioners.rules import Rule, Ruled
from cede.types import Backend
from executorch.exir.backend.backend_details import BackendDetails
from cede.backends.reference.compiler import CedeReferenceBackend


class {name}(BackendDetails):
    @staticmethod
    def preprocess(program, specs):
        with open({log!r}, "a") as log:
            log.write(str(os.getpid()) + "\\n")
        tempfile.mkstemp(prefix="cede-left-by-the-compiler-")
        if any("aten.tanh" in str(node.target) for node in program.graph.nodes):
            {fault}
        return CedeReferenceBackend.preprocess(program, specs)


@cede.hookimpl
def cede_backends():
    yield Backend(name="brittle", delegate_id="{name}", register=lambda: None)


@cede.hookimpl
def cede_partitioners():
    yield Ruled(name="brittle", backend="brittle", rules=(Rule(("aten.*",)),))
"""

FAULTS = {
    "hangs": ("time.sleep(600)", "compiling took longer than 2 s (lowering.compile_seconds)"),
    "hangs in native code": (
        "ctypes.CDLL(None).sleep(600)",
        "compiling took longer than 2 s (lowering.compile_seconds)",
    ),
    "eats memory": (
        "held = [bytes(1 << 22) + b'x' for _ in range(1000) if not time.sleep(0.001)]",
        "compiling took more than 100 MB of memory (lowering.compile_bytes)",
    ),
    "segfaults": ("ctypes.string_at(0)", "the process that compiled it died: SIGSEGV"),
    "exits": ("os._exit(3)", "the process that compiled it died: exit code 3"),
    "leaves": ("sys.exit('no licence')", "SystemExit: no licence"),
    "raises": (
        "raise RuntimeError('While executing %aten_tanh_default : no kernel')",
        "RuntimeError: While executing %aten_tanh_default : no kernel",
    ),
}
LIMITS = ("lowering.compile_seconds=2", "lowering.compile_bytes=100000000")
NUMBERS = count()
X = (torch.rand(4),)


class Chain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(torch.tanh(torch.exp(torch.sin(x))))


def _plugin(folder: Path, fault: str) -> str:
    path = folder / "brittle_plugin.py"
    name = f"Apart{next(NUMBERS)}"  # ExecuTorch finds a compiler by the name of its class
    path.write_text(PLUGIN.format(name=name, fault=fault, log=str(folder / "log")))
    return f"plugins.files=[{path}]"


def _config(folder: Path, fault: str, *keys: str) -> cede.Config:
    return cede.load_config(None, [_plugin(folder, fault), "backends=[brittle]", *LIMITS, *keys])


def _compilers(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "log").read_text().split()]


def _no_child_is_left(folder: Path) -> None:
    assert _compilers(folder)
    assert os.getpid() not in _compilers(folder)
    for pid in _compilers(folder):  # a zombie would still be there
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("case", FAULTS)
def test_the_op_at_fault_is_left_and_the_rest_stays_delegated(
    case: str, tmp_path: Path, temporary: Path
) -> None:
    fault, said = FAULTS[case]
    lowered = cede.export(Chain(), X, config=_config(tmp_path, fault))
    report = lowered.report()
    [left] = report.left
    assert left.target == "aten.tanh.default"
    assert f"compile-failed: {said}" in left.reason
    assert len(report.by_delegate) == 2
    [warning] = [text for text in lowered.plan.warnings if "could not compile" in text]
    assert said in warning
    _no_child_is_left(tmp_path)
    assert list(temporary.glob("cede-*")) == []


def test_error_stops(tmp_path: Path) -> None:
    with pytest.raises(cede.LoweringError, match=r"brittle could not compile delegate d0.*SIGSEGV"):
        cede.export(
            Chain(), X, config=_config(tmp_path, "ctypes.string_at(0)", "lowering.failed=error")
        )


def test_a_full_disk_is_no_fault_of_an_op(tmp_path: Path) -> None:
    full = "open('/dev/full', 'w', buffering=1).write('x\\n')"
    with pytest.raises(cede.LoweringError, match="No space left on device"):
        cede.export(Chain(), X, config=_config(tmp_path, full))


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.tanh(x) + x.exp()\n"
        "def make():\n"
        "    return Net(), (torch.rand(4),)\n"
    )
    words = ["export", "net.py:make", "-b", "brittle", _plugin(tmp_path, "os._exit(3)"), *LIMITS]
    done = CliRunner().invoke(main, [*words, "-o", "net.pte"])
    assert done.exit_code == 0, done.output
    assert "could not compile aten_tanh_default" in done.stdout
    assert "the process that compiled it died: exit code 3" in done.stdout
    strict = CliRunner().invoke(main, [*words, "-o", "strict.pte", "--strict"])
    assert strict.exit_code == 4
    stop = CliRunner().invoke(main, [*words, "-o", "stop.pte", "lowering.failed=error"])
    assert stop.exit_code == 5
    assert not list(tmp_path.glob("st*.pte"))


def test_the_same_program_with_and_without(tmp_path: Path) -> None:
    """XNNPACK's compiler, with named data beside the delegate."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x = (torch.rand(2, 8),)

    def lowered(*keys: str) -> Any:
        config = cede.load_config(None, ["backends=[xnnpack]", "lowering.cache=false", *keys])
        return cede.export(model.eval(), x, config=config)

    apart = lowered("lowering.compile_seconds=600")
    assert apart.buffer == lowered().buffer
    assert apart.warnings == ()


def test_it_is_told_where_the_limits_do_not_hold() -> None:
    keys = ["backends=[xnnpack]", "lowering.compile_seconds=600", "lowering.stock=true"]
    config = cede.load_config(None, keys)
    with quickly(Host.load(config), config) as said:
        [text] = said
    assert "don't hold for ExecuTorch's own steps" in text


def test_ctrl_c_ends_the_compiler_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "net.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Tanh(), (torch.rand(4),)\n"
    )
    # the compiler's own child must go, too
    plugin = _plugin(tmp_path, "subprocess.run(['sleep', '600'])")
    out = tmp_path / "net.pte"
    command = [
        sys.executable, "-W", "ignore", "-m", "cede", "export", f"{tmp_path}/net.py:make", "-q",
        "-b", "brittle", plugin, "lowering.compile_seconds=600", "-o", str(out),
    ]  # fmt: skip
    env = {
        **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(tmp_path / "temporary"), "CEDE_CACHE": str(tmp_path / "temporary" / "cache"),
    }  # fmt: skip
    running = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=heed_interrupts,
    )  # fmt: skip
    log = tmp_path / "log"
    while not (log.exists() and log.read_text().endswith("\n")):
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    time.sleep(0.3)  # it is over its log by now, and asleep
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    _, error = running.communicate(timeout=60)
    assert (running.returncode, error) == (130, "interrupted\n")
    [compiler] = _compilers(tmp_path)
    assert not _group(compiler)
    assert not out.exists()
    assert list((tmp_path / "temporary").iterdir()) == []


def _group(number: int) -> list[str]:
    """Processes of a group that run."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[2]) == number and words[0] != "Z":
            found.append(each.parent.name)
    return found
