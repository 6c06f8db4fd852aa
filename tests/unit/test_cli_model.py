"""What may stand for a model on the command line, and what each mistake is told."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest
import torch

from cede.errors import ConfigError, LoweringError
from cede.model import load_model

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
import torch
from torch import nn

def pair():
    return nn.Dropout(), (torch.ones(2),)

def triple():
    shapes = {"a": {0: torch.export.Dim("n")}, "b": None}
    return Add(), [torch.ones(3, 2)], {"kwargs": {"b": torch.ones(2)}, "dynamic_shapes": shapes}

def program():
    return torch.export.export(nn.ReLU(), (torch.ones(2),))

class Add(nn.Module):
    def forward(self, a, b):
        return a + b

class Branchy(nn.Module):
    def forward(self, a):
        return a if a.sum() > 0 else -a

def branchy():
    return Branchy(), (torch.ones(2),)

def module_alone():
    return nn.ReLU()

def tensor_args():
    return nn.ReLU(), torch.ones(2)

def no_module():
    return 3, ()

def odd_options():
    return nn.ReLU(), (), {"kwarg": {}}

def raises():
    raise ValueError("no weights")

def exits():
    raise SystemExit(3)

number = 3
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "my_models.py"
    path.write_text(SOURCE)
    return str(path)


def message(spec: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_model(spec)
    return str(caught.value)


def test_module_and_args_in_eval_mode(file: str) -> None:
    model = load_model(f"{file}:pair")
    assert model.module is not None
    assert not model.module.training
    assert len(model.inputs) == 1
    exported = model.export()
    assert torch.equal(exported.module()(torch.ones(2)), torch.ones(2))


def test_options_are_passed_to_export(file: str) -> None:
    model = load_model(f"{file}:triple")
    assert [tuple(value.shape) for value in model.inputs] == [(3, 2), (2,)]
    program = model.export()
    assert len(program.range_constraints) == 1
    out = program.module()(torch.ones(5, 2), b=torch.ones(2))
    assert torch.equal(out, torch.full((5, 2), 2.0))


def test_an_exported_program(file: str) -> None:
    model = load_model(f"{file}:program")
    assert model.export() is model.exported
    assert torch.equal(model.inputs[0], torch.ones(2))


def test_a_pt2_file(file: str, tmp_path: Path) -> None:
    saved = tmp_path / "model.pt2"
    torch.export.save(load_model(f"{file}:pair").export(), saved)
    model = load_model(str(saved))
    assert torch.equal(model.export().module()(*model.args), torch.ones(2))


def test_a_module_of_the_current_folder(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "nets.py").write_text("from my_models import pair\n")
    assert load_model("inner.nets:pair").module is not None


def test_a_file_may_import_its_neighbours(file: str, tmp_path: Path) -> None:
    (tmp_path / "uses.py").write_text("import my_models\nmake = my_models.pair\n")
    assert load_model(f"{tmp_path / 'uses.py'}:make").module is not None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("par", "has no function par; did you mean pair?"),
        ("number", "is no function but int"),
        ("module_alone", "returned ReLU; return (module, args), (module, args, options) or"),
        ("tensor_args", "returned Tensor as args; return a tuple of inputs"),
        ("no_module", "returned int as the module; return (module, args)"),
        ("odd_options", "unknown option kwarg; did you mean kwargs?"),
        ("raises", "raised ValueError: no weights at "),
        ("exits", "raised SystemExit: 3 at "),
    ],
)
def test_mistakes_in_a_model_file(file: str, name: str, expected: str) -> None:
    assert expected in message(f"{file}:{name}")


def test_what_user_code_raises_is_told_with_its_line(file: str) -> None:
    assert re.search(r"my_models\.py:\d+$", message(f"{file}:raises"))


def test_missing_files_and_modules(tmp_path: Path) -> None:
    assert message(f"{tmp_path}/no.py:make") == f"{tmp_path}/no.py: no such file"
    assert message(f"{tmp_path}/no.pt2") == f"{tmp_path}/no.pt2: no such file"
    assert message("no_such_package.nets:make").startswith(
        "no_such_package.nets: no module of that name can be imported"
    )


def test_a_file_that_can_not_be_imported(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import no_such_thing_at_all\n")
    text = message(f"{tmp_path / 'bad.py'}:make")
    assert text.startswith(f"{tmp_path / 'bad.py'}: raised ModuleNotFoundError: ")
    (tmp_path / "worse.py").write_text("def make(:\n")
    assert "raised SyntaxError" in message(f"{tmp_path / 'worse.py'}:make")


def test_a_pt2_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.pt2").write_bytes(b"nonsense")
    text = message(str(tmp_path / "x.pt2"))
    assert text.startswith(
        f"{tmp_path / 'x.pt2'}: no program that this torch ({torch.__version__})"
    )


def test_a_model_that_torch_can_not_export(file: str) -> None:
    with pytest.raises(LoweringError, match=r"branchy: torch\.export can't export it: "):
        load_model(f"{file}:branchy").export()
