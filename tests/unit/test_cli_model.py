"""What may stand for a model on the command line, and what each mistake is told."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
import torch
from click.testing import CliRunner

from cede.cli import main
from cede.cli.running import _from_file
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

def odd_kwargs():
    return nn.ReLU(), (), {"kwargs": 3}

class Stubborn(nn.ReLU):
    def eval(self):
        raise RuntimeError("never")

def stubborn():
    return Stubborn(), (torch.ones(2),)

class Silent(nn.ReLU):
    def eval(self):
        super().eval()

def silent():
    return Silent(), (torch.ones(2),)

def narrow():
    return nn.Linear(4, 2), (torch.ones(1, 3),)

def wide():
    return nn.Linear(4, 2), (torch.ones(1, 4),)

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
        ("odd_kwargs", "returned int as kwargs; return a dict of inputs"),
        ("stubborn", "stubborn: eval(): raised RuntimeError: never at "),
        ("raises", "raised ValueError: no weights at "),
        ("exits", "raised SystemExit: 3 at "),
    ],
)
def test_mistakes_in_a_model_file(file: str, name: str, expected: str) -> None:
    assert expected in message(f"{file}:{name}")


def test_what_user_code_raises_is_told_with_its_line(file: str) -> None:
    assert re.search(r"my_models\.py:\d+$", message(f"{file}:raises"))


def test_an_eval_that_returns_nothing(file: str) -> None:
    module = load_model(f"{file}:silent").module
    assert module is not None
    assert not module.training


def cede_(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cede", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True)


def test_torch_tells_no_traceback_beside_the_error(file: str, tmp_path: Path) -> None:
    done = cede_("plan", f"{file}:narrow", "-b", "reference")
    assert done.returncode == 5
    assert re.fullmatch(r"error: .*:narrow: torch\.export can't export it: .*\n", done.stderr)
    (tmp_path / "x.pt2").write_bytes(b"nonsense")
    done = cede_("plan", tmp_path / "x.pt2", "-b", "reference")
    assert done.returncode == 2
    assert re.fullmatch(r"error: .*x\.pt2: no program that this torch .*\n", done.stderr)


def test_explain_tells_what_is_no_regular_expression(file: str) -> None:
    result = CliRunner().invoke(main, ["explain", f"{file}:wide", "(", "-b", "reference"])
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "error: '(' is no regular expression (missing ), unterminated subpattern at position 0),"
        " and no op matches '('"
    )
    result = CliRunner().invoke(main, ["explain", f"{file}:wide", "zzz", "-b", "reference"])
    assert result.stderr.startswith("error: no op matches 'zzz'")


@pytest.mark.parametrize(
    "data", [b"hello there\n", b"", bytes(range(8)) * 4, pickle.dumps({"a": 1}), b"PK\x03\x04"]
)
def test_inputs_of_another_format(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    result = CliRunner().invoke(main, ["run", "a.pte", "--inputs", str(tmp_path / "x")])
    assert result.exit_code == 2
    assert result.stderr == (
        f"error: {tmp_path / 'x'}: no tensors of torch.save; write it with"
        " torch.save((input, ...), file)\n"
    )


def test_inputs_with_other_objects_name_them(tmp_path: Path) -> None:
    torch.save(tmp_path, tmp_path / "x.pt")
    result = CliRunner().invoke(main, ["run", "a.pte", "--inputs", str(tmp_path / "x.pt")])
    assert re.search(
        r"no tensors of torch\.save \(it holds pathlib\.\S*PosixPath\);", result.stderr
    )


def test_inputs_in_a_dict_go_by_position_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({1: torch.ones(2), 0: torch.zeros(3)}, path)
    assert [tuple(given.shape) for given in _from_file(path)] == [(3,), (2,)]
    torch.save({"b": torch.ones(2), "a": torch.zeros(3)}, path)
    with pytest.raises(ConfigError, match=r"x\.pt: a dict with keys b, a, but inputs of a \.pte"):
        _from_file(path)


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


def test_an_archive_of_something_else_is_told_with_torch_s_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt2", "w") as archive:
        archive.writestr("a", "b")
    text = message(str(tmp_path / "x.pt2"))
    assert "not in a subdirectory" in text
    assert "\n" not in text
    assert not caplog.records


def test_a_model_that_torch_can_not_export(file: str) -> None:
    with pytest.raises(LoweringError, match=r"branchy: torch\.export can't export it: "):
        load_model(f"{file}:branchy").export()
