"""A program that was lowered before is taken as it was; nothing else is taken for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

import cede
from cede.programs import entry
from cede.store import PROGRAM, Store

if TYPE_CHECKING:
    from pathlib import Path

X = (torch.randn(2, 8),)
BASE = ("backends=[xnnpack]",)

PLUGIN = """
import cede
from helper import TARGET


class Demo:
    name, backend = "mine", "xnnpack"

    def keeps(self, program):
        return cede.Keep()

    def claim(self, program):
        for op in program.graph.ops:
            reason = cede.Reason(code=cede.Code.UNKNOWN_OP, detail=f"not {TARGET}")
            yield cede.Refusal(partitioner="mine", op=op.id, reason=reason)


@cede.hookimpl
def cede_partitioners():
    yield Demo()
"""


class Net(torch.nn.Module):
    """A weight, a buffer that is written, and an op that is left."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(8))
        self.dim = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.sum(0))
        return torch.cumsum(self.linear(x), self.dim) + self.seen


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each program that was really lowered."""
    from cede import lowering

    stock, found = lowering.lower_program, list[int]()

    def lower_program(*args: Any, **kwargs: Any) -> Any:
        found.append(1)
        return stock(*args, **kwargs)

    monkeypatch.setattr(lowering, "lower_program", lower_program)
    return found


def _lower(model: torch.nn.Module, folder: Path, *keys: str, **more: Any) -> Any:
    config = cede.load_config(None, [*BASE, f"lowering.cache_folder={folder}", *keys])
    return cede.lower(torch.export.export(model, X), config=config, **more)


def test_an_unchanged_program_is_what_it_was(tmp_path: Path, lowerings: list[int]) -> None:
    torch.manual_seed(0)
    model = Net().eval()
    first, second = _lower(model, tmp_path, "settle=cost"), _lower(model, tmp_path, "settle=cost")
    assert len(lowerings) == 1
    assert second.buffer == first.buffer
    assert second.report().json() == first.report().json()
    assert (second.plan, second.graph, second.plan.costs) == (
        first.plan, first.graph, first.plan.costs
    )  # fmt: skip
    assert second.warnings == first.warnings
    assert cede.check(second, [X]).passed  # this lowers it anew, for its edge program
    assert len(lowerings) == 2


def test_what_changes_is_lowered_anew(tmp_path: Path, lowerings: list[int]) -> None:
    model = Net().eval()
    seen = {_lower(model, tmp_path).buffer}

    def anew(*keys: str, **more: Any) -> Any:
        before = len(lowerings)
        made = _lower(model, tmp_path, *keys, **more)
        assert len(lowerings) == before + 1
        assert _lower(model, tmp_path, *keys, **more).buffer == made.buffer
        assert len(lowerings) == before + 1
        return made

    with torch.no_grad():
        model.linear.weight[0, 0] += 1
    seen.add(anew().buffer)
    model.seen[3] = 2.0  # the buffer's first value
    seen.add(anew().buffer)
    model.dim = 0
    seen.add(anew().buffer)
    assert len(seen) == 4
    made = anew("policy.exclude=[op:aten.linear]")
    assert made.plan.delegations == () or made.plan != anew("policy.max_claims=0").plan
    assert anew(metadata={"get_bos_id": 1}).buffer not in seen
    assert anew(metadata={"get_bos_id": 2}).buffer not in seen
    anew(plan=made.plan)


def test_reasons_name_the_file_that_their_rule_is_from(tmp_path: Path) -> None:
    def reasons(name: str) -> str:
        file = tmp_path / name
        file.write_text("backends: [xnnpack]\npolicy: {exclude: ['op:aten.linear*']}\n")
        config = cede.load_config(file, [f"lowering.cache_folder={tmp_path / 'kept'}"])
        lowered = cede.lower(torch.export.export(Net().eval(), X), config=config)
        return " ".join(each.reason.detail for each in lowered.plan.refusals)

    torch.manual_seed(0)
    assert "one.yaml" in reasons("one.yaml")
    torch.manual_seed(0)
    told = reasons("two.yaml")
    assert "two.yaml" in told
    assert "one.yaml" not in told


def test_weights_that_came_to_share_memory_are_told(tmp_path: Path, lowerings: list[int]) -> None:
    """Equal bytes, another warning."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).eval()
    with torch.no_grad():
        model[1].weight.copy_(model[0].weight)
        both = torch.stack([model[0].weight, model[1].weight])
    x = (torch.randn(2, 64),)
    config = cede.load_config(None, [*BASE, f"lowering.cache_folder={tmp_path}"])
    cede.export(model, x, config=config)
    model[0].weight.data, model[1].weight.data = both[0], both[0]
    cede.export(model, x, config=config)
    assert len(lowerings) == 2


def test_another_source_line_is_lowered_anew(tmp_path: Path) -> None:
    """The table shows where an op comes from."""
    lines = []
    for gap in ("", "\n\n"):
        (tmp_path / "net.py").write_text(
            f"import torch\n{gap}class Net(torch.nn.Module):\n"
            "    def forward(self, x):\n        return torch.cumsum(x, 0)\n"
        )
        made: dict[str, Any] = {}
        code = compile((tmp_path / "net.py").read_text(), str(tmp_path / "net.py"), "exec")
        exec(code, made)
        (row,) = _lower(made["Net"](), tmp_path / "cache").report().rows
        lines.append(row.source)
    assert lines == ["net.py:4", "net.py:6"]


def test_a_plugin_that_changed_lowers_anew(tmp_path: Path, lowerings: list[int]) -> None:
    plugin, helper = tmp_path / "mine.py", tmp_path / "helper.py"
    plugin.write_text(PLUGIN)
    keys = (f"plugins.files=[{plugin}]", "partitioners=[mine]")
    model = Net().eval()
    reasons = []
    sys.path.append(str(tmp_path))
    try:
        for target in ("cat", "dog", "dog"):
            helper.write_text(f"TARGET = {target!r}\n")
            sys.modules.pop("helper", None)
            reasons.append(_lower(model, tmp_path / "cache", *keys).report().left[0].reason)
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("helper", None)
    assert ["cat" in text for text in reasons] == [True, False, False]
    assert len(lowerings) == 2


def test_the_version_of_a_plugin_counts(
    demo_plugin: Path, tmp_path: Path, lowerings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = shutil.copytree(demo_plugin, tmp_path / "site")
    monkeypatch.syspath_prepend(str(site))
    model, cache = Net().eval(), tmp_path / "cache"
    _lower(model, cache)
    _lower(model, cache)
    assert len(lowerings) == 1
    (info,) = site.glob("*.dist-info")
    text = (info / "METADATA").read_text()
    version = next(line for line in text.splitlines() if line.startswith("Version: "))
    (info / "METADATA").write_text(text.replace(version, "Version: 77.0"))
    _lower(model, cache)
    assert len(lowerings) == 2


@pytest.mark.parametrize("damage", ["cut", "another's"])
def test_a_damaged_program_is_told_and_made_anew(
    damage: str, tmp_path: Path, lowerings: list[int]
) -> None:
    model = Net().eval()
    first = _lower(model, tmp_path).buffer
    (path,) = tmp_path.glob(f"{PROGRAM}*")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-3])
    else:
        Store(tmp_path, 1 << 30).put(path.stem, b"\x08\0\0\0\0\0\0\0", b"cos\nsystem\n(")
    made = _lower(model, tmp_path)
    assert made.buffer == first
    assert len(lowerings) == 2
    assert [str(path) in text and "damaged" in text for text in made.warnings] == [True]
    assert _lower(model, tmp_path).warnings == ()
    assert len(lowerings) == 2


def test_an_entry_makes_no_code_run() -> None:
    import pickle

    head = pickle.dumps((os.system, "true"), protocol=4)
    with pytest.raises(pickle.UnpicklingError, match="no record of cede"):
        entry.read(memoryview(len(head).to_bytes(8, "little") + head))


def test_what_may_go_well_next_time_is_not_kept(tmp_path: Path, lowerings: list[int]) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN.replace("from helper import TARGET", "TARGET = 1 / 0 if 0 else 1"))
    broken = plugin.read_text().replace("for op in", "raise OSError('busy')\n        for op in")
    plugin.write_text(broken)
    keys = (f"plugins.files=[{plugin}]", "partitioners=[mine]")
    model = Net().eval()
    for _ in range(2):
        assert "busy" in _lower(model, tmp_path / "cache", *keys).report().left[0].reason
    assert len(lowerings) == 2


def test_an_operator_of_the_users_own_is_lowered_each_time(
    tmp_path: Path, lowerings: list[int]
) -> None:
    from torch._decomp import register_decomposition

    library = torch.library.Library("cachetest", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    torch.library.register_fake("cachetest::twice", torch.empty_like, lib=library)
    table: dict[Any, Any] = {}
    register_decomposition(torch.ops.cachetest.twice.default, registry=table)(lambda x: x * 2)

    class Own(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.cachetest.twice(x)

    program = torch.export.export(Own(), X)
    from cede.host import Host
    from cede.programs.key import key_of

    config = cede.load_config(None, [*BASE])
    assert key_of(program, Host.load(config), config, None, None) is None
    assert lowerings == []


def test_who_observes_sees_each_program(tmp_path: Path, lowerings: list[int]) -> None:
    plugin = tmp_path / "seen.py"
    plugin.write_text(
        "import cede\n\n\n@cede.hookimpl\ndef cede_lowered(plan, program):\n    print('seen')\n"
    )
    for _ in range(2):
        _lower(Net().eval(), tmp_path / "cache", f"plugins.files=[{plugin}]")
    assert len(lowerings) == 2


def test_a_new_process_takes_it_and_imports_nothing_of_executorch(tmp_path: Path) -> None:
    script = (
        "import sys, torch, cede\n"
        "torch.manual_seed(0)\n"
        "config = cede.load_config(None, ['backends=[xnnpack]',"
        f" 'lowering.cache_folder={tmp_path}'])\n"
        "made = cede.export(torch.nn.Linear(8, 8).eval(), (torch.ones(2, 8),), config=config)\n"
        "print(made.buffer.hex(), 'executorch.exir' in sys.modules)\n"
    )
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8).eval()
    config = cede.load_config(None, [*BASE, f"lowering.cache_folder={tmp_path}"])
    made = cede.export(model, (torch.ones(2, 8),), config=config)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [made.buffer.hex(), "False"], done.stderr
