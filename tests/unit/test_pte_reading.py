"""Reading `.pte` files, and errors about files that are none."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from executorch.exir import schema, to_edge_transform_and_lower
from torch import nn

from cede.errors import LoweringError
from cede.running import load, run
from cede.running.pte import delegates_of, operators_of, read, read_file, write
from cede.running.signature import signature_of

if TYPE_CHECKING:
    from pathlib import Path


class Affine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.linear(x), x.sum()


@pytest.fixture(scope="module")
def program() -> bytes:
    exported = torch.export.export(Affine().eval(), (torch.ones(2, 4),))
    return to_edge_transform_and_lower(exported).to_executorch().buffer


def test_parsed_program_shows_what_the_model_has(program: bytes) -> None:
    pte = read(program)
    signature = signature_of(pte)
    assert pte.methods == ("forward",)
    assert [str(given) for given in signature.inputs] == ["float32[2, 4]"]
    assert [str(given) for given in signature.outputs] == ["float32[2, 3]", "float32[]"]
    assert operators_of(program) == [
        "aten::addmm.out",
        "aten::permute_copy.out",
        "aten::sum.IntList_out",
    ]
    assert delegates_of(program) == []


def test_upstream_serializer_still_has_the_shape_we_rely_on(program: bytes) -> None:
    """Fails when ExecuTorch changes the parsed program: pte.py must follow."""
    pte = read(program)
    again = read(write(pte.program))
    assert again.program == pte.program
    plan = pte.plan("forward")
    assert len(plan.chains) == 1
    assert {type(step.instr_args) for step in plan.chains[0].instructions} == {schema.KernelCall}
    weights = [buffer.storage for buffer in pte.program.constant_buffer]
    assert weights[0] == b""  # index 0 stands for "no data"
    assert any(len(data) >= 4 * 3 * 4 for data in weights[1:])


def test_named_data_survives_writing(program: bytes) -> None:
    pte = read(program)
    again = read(write(pte.program, {"first": b"abc", "second": b"de"}))
    assert {key: data[:3] for key, data in again.named.items()} == {
        "first": b"abc",
        "second": b"de",
    }


def test_unknown_method_names_those_there_are(program: bytes) -> None:
    with pytest.raises(LoweringError, match=r"no method 'encode'; it has forward"):
        run(program, [torch.ones(2, 4)], "encode", backends={})


def test_missing_file_and_folder_name_the_path(tmp_path: Path) -> None:
    with pytest.raises(LoweringError, match=r"gone\.pte: can't be read: No such file"):
        read_file(tmp_path / "gone.pte")
    with pytest.raises(LoweringError, match="can't be read: Is a directory"):
        read_file(tmp_path)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda data: b"", "0 bytes are no ExecuTorch program"),
        (lambda data: b"PK\x03\x04" + bytes(64), "no ExecuTorch program"),
        (lambda data: data[:4] + b"BP08" + data[8:], "a bundled program"),
        (lambda data: data[:-100], "truncated"),
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda data: data[:64] + bytes(len(data) - 64), "damaged"),
        (lambda data: struct.pack("<I", 1 << 30) + data[4:], "damaged"),
    ],
)
def test_bad_files_give_one_error_naming_the_path(
    program: bytes, tmp_path: Path, spoil: object, says: str
) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(spoil(program))  # type: ignore[operator]
    with pytest.raises(LoweringError, match=says) as caught:
        load(path, {})
    assert str(path) in str(caught.value)


def test_entries_out_of_range_are_damage(program: bytes) -> None:
    pte = read(program)
    pte.plan("forward").outputs[0] = 999
    with pytest.raises(LoweringError, match=r"outputs of forward refers to entry 999 of"):
        read(write(pte.program))


def test_half_written_files_never_kill_the_process(program: bytes, tmp_path: Path) -> None:
    """In a child process: the runtime is native code."""
    (tmp_path / "model.pte").write_bytes(program)
    done = subprocess.run(
        [sys.executable, "-c", _CUT, str(tmp_path / "model.pte")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["refused", "100"]


_CUT = """
import sys
import torch
from cede.errors import LoweringError
from cede.running import run
from cede.running.interpreter import Interpreter
from cede.running.pte import read
from cede.running.runtime import run_delegate
inputs = [torch.ones(2, 4)]
data = open(sys.argv[1], "rb").read()
refused = 0
body = int.from_bytes(data[16:24], "little")  # where the flatbuffer ends
for i in range(25):
    kept = i * body // 25
    for spoiled in (data[:kept], data[:kept] + bytes(len(data) - kept)):
        for call in (
            lambda: run(spoiled, inputs, backends={}),
            lambda: Interpreter(read(spoiled), run_delegate).run(inputs),
        ):
            try:
                call()
            except LoweringError:
                refused += 1
print("refused", refused)
"""
