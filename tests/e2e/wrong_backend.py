"""A plugin whose backend computes in eager torch, with constants that its compiler may spoil."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from cede import api

if TYPE_CHECKING:
    from pathlib import Path

    from cede.config import Config

# A backend whose compiler adds `wrong` to every float constant of the delegates it is told.
PLUGIN = """
import cede

class Mine:
    name, backend = "mine", "wrong"

    def keeps(self, program):
        return cede.Keep()

    def claim(self, program):
        reason = cede.Reason(code=cede.Code.DECLINED, detail="not that one")
        for op in program.graph.ops:
            if op.kind in ("aten.cumsum", "dim_order_ops._to_dim_order_copy"):
                yield cede.Refusal(partitioner=self.name, op=op.id, reason=reason)
            else:
                ops = frozenset({op.id})
                yield cede.Claim(partitioner=self.name, backend=self.backend, ops=ops)

def register():
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
    from cede.backends.reference.payload import dump

    class WrongBackend(BackendDetails):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            import torch
            SPOIL
            return PreprocessResult(processed_bytes=dump(edge_program))

    globals()["WrongBackend"] = WrongBackend

def load(data):
    from cede.backends.reference import runner
    from cede.running.interpreter import Interpreter
    from cede.running.pte import read

    return Interpreter(read(data), lambda delegate, arguments: runner.Subprogram(delegate.data))

@cede.hookimpl
def cede_partitioners():
    yield Mine()

@cede.hookimpl
def cede_backends():
    yield cede.Backend(name="wrong", delegate_id="WrongBackend", register=register, load=load)
"""

SPOIL = """for name, value in edge_program.state_dict.items():
                if name == "b.bias":
                    edge_program.state_dict[name] = torch.nn.Parameter(value + AMOUNT, False)"""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.cumsum(self.a(x), 0)
        return self.c(torch.cumsum(self.b(h), 0))


def spoiled(tmp_path: Path, spoil: str = "pass") -> Config:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN.replace("SPOIL", spoil))
    return api.load_config(None, [f"plugins.files=[{plugin}]", "backends=[wrong]"])
