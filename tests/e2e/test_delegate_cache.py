"""Delegates that were compiled before are not compiled again; nothing else is taken for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner

import cede
from cede.cli import main
from cede.config import Config, LoweringConfig

if TYPE_CHECKING:
    from pathlib import Path

X = (torch.randn(2, 8),)


class Layers(torch.nn.Module):
    """Two delegates with an op between them that XNNPACK leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.cumsum(self.first(x), 1))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first op of each delegate that XNNPACK's compiler is given."""
    from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend

    stock, found = XnnpackBackend.preprocess, list[str]()

    def preprocess(program: Any, specs: Any) -> Any:
        calls = (n.name for n in program.graph.nodes if n.op == "call_function")
        found.append(next(calls))
        return stock(program, specs)

    monkeypatch.setattr(XnnpackBackend, "preprocess", staticmethod(preprocess))
    return found


def _lower(model: torch.nn.Module, folder: Path, x: tuple[Any, ...] = X, **keys: Any) -> Any:
    config = LoweringConfig(cache_folder=str(folder), **keys)
    program = torch.export.export(model, x)
    lowered = cede.lower(program, config=Config(backends=["xnnpack"], lowering=config))
    out = cede.run(lowered.buffer, list(x)).outputs[0]
    torch.testing.assert_close(out, model(*x).detach(), rtol=1e-5, atol=1e-5)
    return lowered


def test_only_what_changed_is_compiled(tmp_path: Path, compiled: list[str]) -> None:
    model = Layers().eval()
    first = _lower(model, tmp_path).buffer
    both = ["aten_linear_default", "aten_linear_default_1"]
    assert compiled == both
    assert _lower(model, tmp_path).buffer == first
    assert compiled == both
    with torch.no_grad():
        model.second.weight[0, 0] += 1
    _lower(model, tmp_path)
    assert compiled == [*both, both[1]]
    _lower(model, tmp_path, (torch.randn(3, 8),))  # another shape
    assert compiled == [*both, both[1], *both]
    _lower(model, tmp_path, cache=False)
    assert compiled == [*both, both[1], *both, *both]


def test_a_damaged_entry_is_told_and_compiled(tmp_path: Path, compiled: list[str]) -> None:
    model = torch.nn.Linear(8, 8).eval()
    first = _lower(model, tmp_path).buffer
    entries = sorted(tmp_path.iterdir())
    assert [path.name.startswith("program-") for path in entries] == [False, True]
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-10])
    again = _lower(model, tmp_path)
    assert again.buffer == first
    assert len(compiled) == 2
    told = [text for text in again.warnings if "damaged" in text]
    assert [str(entry) in text for entry, text in zip(entries, reversed(told), strict=True)]
    assert _lower(model, tmp_path).warnings == ()
    assert len(compiled) == 2


def test_the_command_shows_and_clears(tmp_path: Path) -> None:
    _lower(torch.nn.Linear(8, 8).eval(), tmp_path)
    keys = [f"lowering.cache_folder={tmp_path}", "lowering.cache_bytes=1000000"]
    shown = CliRunner().invoke(main, ["cache", "info", *keys])
    assert shown.exit_code == 0
    assert f"folder: {tmp_path}\nprograms: 1\ndelegates: 1\n" in shown.output
    assert "of at most 1,000,000" in shown.output
    cleared = CliRunner().invoke(main, ["cache", "clear", *keys])
    assert "removed 2 entries" in cleared.output
    assert list(tmp_path.iterdir()) == []
