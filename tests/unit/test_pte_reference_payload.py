"""The payload of a reference delegate: written, read back, refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from executorch.exir.backend.backend_details import BackendDetails
from torch import nn
from torch.export import Dim, ExportedProgram

from cede.backends.reference.payload import dump, restore
from cede.backends.reference.plugin import cede_backends
from cede.errors import LoweringError


class Weights(nn.Module):
    """A tied weight, a view, a channels-last weight and a mutated buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, 3, 3).to(memory_format=torch.channels_last))
        self.again = self.weight
        self.register_buffer("shift", torch.randn(20)[3:7])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.conv2d(x, self.weight, self.shift)
        return y + nn.functional.conv2d(x, self.again)


def edge(model: nn.Module, *args: Any, dynamic: Any = None) -> ExportedProgram:
    program = torch.export.export(model.eval(), args, dynamic_shapes=dynamic)
    return to_edge(program).exported_program()


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    sizes = {"x": {0: Dim("n", min=2, max=8)}}
    return edge(Weights(), torch.randn(2, 3, 5, 5), dynamic=sizes)


def test_weights_come_back_with_values_and_layout(program: ExportedProgram) -> None:
    again = restore(dump(program))
    assert again.state_dict.keys() == program.state_dict.keys()
    for name, value in program.state_dict.items():
        assert torch.equal(again.state_dict[name], value)
        assert again.state_dict[name].stride() == value.stride()


def test_weight_used_twice_is_stored_once(program: ExportedProgram) -> None:
    class Pair(nn.Module):
        def __init__(self, tied: bool) -> None:
            super().__init__()
            self.one = nn.Linear(64, 64, bias=False)
            self.two = nn.Linear(64, 64, bias=False)
            if tied:
                self.two.weight = self.one.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(self.one(x))

    tied, apart = (len(dump(edge(Pair(given), torch.randn(1, 64)))) for given in (True, False))
    assert apart - tied >= 64 * 64 * 4


def test_source_program_is_untouched_and_bytes_are_stable(program: ExportedProgram) -> None:
    before = program.graph_module.code
    first = dump(program)
    assert program.graph_module.code == before
    assert all("val" in node.meta for node in program.graph.nodes if node.op != "output")
    assert dump(program) == first
    assert b"test_pte_reference_payload" not in first  # no path of the exporting machine


def test_foreign_damaged_and_later_payloads_are_refused(program: ExportedProgram) -> None:
    data = dump(program)
    with pytest.raises(LoweringError, match="not a reference payload"):
        restore(b"XH00" + bytes(64))
    with pytest.raises(LoweringError, match="version 7, this cede reads 1"):
        restore(data[:8] + b"\7" + data[9:])
    with pytest.raises(LoweringError, match="header is damaged"):
        restore(data[:16] + b"!" + data[17:])
    with pytest.raises(LoweringError, match="data is damaged"):
        restore(data[:-200])


class Nested(nn.Module):
    """Numbers and a table that export leaves inside the branches as tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.table = torch.arange(4.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.min() > 0, self.shifted, lambda x: x - 2.0, (x,))

        return self.linear(torch.cond(x.sum() > 0, inner, lambda x: x * self.table, (x,)))

    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) - 1.0


def test_constants_in_nested_branches_are_saved() -> None:
    from cede.backends.reference.runner import Subprogram

    model = Nested()
    given = edge(model, torch.randn(2, 4))
    held = [
        node.name
        for module in given.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule) and module is not given.graph_module
        for node in module.graph.nodes
        if node.op == "get_attr" and isinstance(getattr(module, str(node.target)), torch.Tensor)
    ]
    assert held  # else this proves nothing
    loaded = Subprogram(dump(given))
    high, mixed, low = (
        torch.ones(2, 4),
        torch.tensor([[9.0, -1.0, 1.0, 1.0]] * 2),
        -torch.ones(2, 4),
    )
    for x in (high, mixed, low):
        (got,) = loaded([x])
        torch.testing.assert_close(got, model(x))


def test_what_cannot_be_saved_is_named(program: ExportedProgram) -> None:
    def homemade(x: torch.Tensor) -> torch.Tensor:
        return x

    changed = edge(Weights(), torch.randn(2, 3, 5, 5))
    node = next(node for node in changed.graph.nodes if node.op == "call_function")
    node.target = homemade
    with pytest.raises(LoweringError, match=f"{node.name} calls homemade"):
        dump(changed)


def test_compiler_is_found_by_its_id() -> None:
    (backend,) = cede_backends()
    backend.register()
    names = [given.__name__ for given in BackendDetails.__subclasses__()]
    assert names.count(backend.delegate_id) == 1
