"""What each built-in backend says it can do here: in words, quickly, and without a trace."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from executorch.runtime import Runtime

from cede.config import Config
from cede.errors import PluginError
from cede.host import Host
from cede.host.ability import ability
from cede.quiet import logging_kept
from cede.running.linked import is_linked, shipped
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = Path(__file__).parents[2] / "src"
ADVICE = (
    "ask ", "build ", "there", "install ", "lower the program", "on macOS", "pip install",
    "run the program", "set ",
)  # fmt: skip

# Asks every backend in a fresh process and tells what that left behind.
ASK = """
import json, logging, os, sys
from cede.host import Host

def loggers():
    named = [each for each in logging.root.manager.loggerDict.values() if hasattr(each, "level")]
    return {e.name: [e.level, len(e.handlers), e.propagate] for e in [logging.root, *named]}

host = Host.load()
found, state = {}, lambda: (dict(os.environ), loggers(), os.getcwd(), list(sys.path))
for name in host.backends:
    before, modules = state(), set(sys.modules)
    given = host.availability(name)
    new = sorted({one.partition(".")[0] for one in set(sys.modules) - modules})
    found[name] = [given.claim, given.lower, given.run, new, state() == before]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def asked() -> dict[str, Any]:
    script = f"{ASK}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_asking_imports_nothing_heavy(asked: dict[str, Any]) -> None:
    heavy = {"coremltools", "executorch", "numpy", "openvino", "torch", "torchao", "triton"}
    assert {name: new for name, (*_, new, _same) in asked.items() if heavy & set(new)} == {}


def test_asking_changes_neither_environment_nor_logging(asked: dict[str, Any]) -> None:
    assert {name for name, given in asked.items() if not given[4]} == set()


def test_what_is_missing_is_told_with_what_to_do(asked: dict[str, Any]) -> None:
    silent = {
        (name, why)
        for name, given in asked.items()
        for why in given[:3]
        if why is not None and (len(why) < 30 or not any(word in why for word in ADVICE))
    }
    assert silent == set()


def test_who_can_lower_can_claim(asked: dict[str, Any]) -> None:
    assert {n for n, (claim, lower, *_) in asked.items() if claim and not lower} == set()


def test_every_backend_has_a_partitioner_and_a_description(asked: dict[str, Any]) -> None:
    host = Host.load()
    assert set(asked) == set(host.backends)
    assert {one.backend for one in host.partitioners.values()} >= set(asked)


def test_linked_delegates_are_those_that_the_runtime_knows() -> None:
    known = set(Runtime.get().backend_registry.registered_backend_names)
    ids = {backend.delegate_id for backend in Host.load().backends.values()}
    assert {id for id in ids if is_linked(id)} == ids & known
    assert "XnnpackBackend" in known
    assert not is_linked("Xnnpack")  # not a part of an id


def test_shipped_files_are_found_without_an_import() -> None:
    assert shipped("backends/xnnpack/partition/xnnpack_partitioner.py")
    assert shipped("extension/pybindings/_C*")
    assert not shipped("backends/nothing")


def raises() -> Availability:
    raise OSError("no such bus")


def exits() -> Availability:
    sys.exit(3)


def hangs() -> Availability:
    while True:
        pass


BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "raises": (raises, "OSError: no such bus"),
    "exits": (exits, "called sys.exit(3)"),
    "hangs": (hangs, "took longer than 0.2 s (plugins.seconds)"),
    "None": (lambda: None, "it answered NoneType, not an Availability"),
    "a bool": (lambda: Availability(claim=False), "its claim is False, neither None nor a reason"),  # type: ignore[arg-type]
    "blank": (lambda: Availability(run=" "), "its run is ' ', neither None nor a reason"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_backend_that_cannot_tell_can_do_nothing(case: str) -> None:
    available, reason = BROKEN[case]
    backend = Backend(name="npu", delegate_id="NpuBackend", available=available)
    why = f"backend 'npu' can't tell: {reason}"
    assert ability(backend, 0.2) == Availability(claim=why, lower=why, run=why)


PLUGIN = """
import cede
from cede.partitioners.rules import Ruled

@cede.hookimpl
def cede_backends():
    yield cede.Backend(
        name="npu",
        delegate_id="NpuBackend",
        available=lambda: cede.Availability(claim="no NPU SDK: install npu-sdk"),
    )

@cede.hookimpl
def cede_partitioners():
    yield Ruled(name="npu", backend="npu", rules=())
"""


@pytest.fixture
def npu(tmp_path: Path) -> Config:
    tmp_path.joinpath("npu.py").write_text(PLUGIN)
    config = Config(backends=["xnnpack"])
    return replace(config, plugins=replace(config.plugins, files=[str(tmp_path / "npu.py")]))


def test_naming_a_backend_that_cannot_claim_is_an_error(npu: Config) -> None:
    host = Host.load(npu)
    with pytest.raises(PluginError, match="backends: 'npu' can't be used here: no NPU SDK"):
        host.partitioners_for(replace(npu, backends=["xnnpack", "npu"]))
    with pytest.raises(PluginError, match="partitioners: 'npu' can't be used here"):
        host.partitioners_for(replace(npu, backends=[], partitioners=["npu"]))


def test_a_backend_that_cannot_claim_disturbs_no_other(npu: Config) -> None:
    host = Host.load(npu)
    assert [one.name for one in host.partitioners_for(npu)] == ["xnnpack"]


def test_logging_is_put_back() -> None:
    own, other = logging.getLogger("cede_test.own"), logging.getLogger("cede_test.other")
    other.setLevel(logging.ERROR)
    handler, before = logging.NullHandler(), list(logging.root.handlers)
    level, quiet = logging.root.level, own.isEnabledFor(logging.DEBUG)
    with logging_kept("cede_foreign"):
        logging.root.setLevel(1)
        logging.root.addHandler(handler)
        logging.getLogger("cede_foreign.module").setLevel(1)
        logging.getLogger("cede_test.new").setLevel(1)
        other.setLevel(1)
        other.propagate = False
        logging.disable(logging.CRITICAL)
    assert (logging.root.level, logging.root.handlers) == (level, before)
    assert (other.level, other.propagate) == (logging.ERROR, True)
    assert logging.getLogger("cede_foreign.module").level == logging.NOTSET
    assert logging.getLogger("cede_test.new").level == 1  # of no package that was named
    assert own.isEnabledFor(logging.DEBUG) is quiet
