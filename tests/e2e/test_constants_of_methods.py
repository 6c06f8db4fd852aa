"""Constants of the methods of an existing export script: how often the file has them is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

import cede
from cede.errors import PolicyError
from cede.reporting import require_whole

if TYPE_CHECKING:
    from executorch.exir import ExecutorchProgramManager

X = torch.linspace(-1, 1, 128).reshape(2, 64)


class Product(nn.Module):
    """A layer in a delegate."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


class Doubled(Product):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x)) * 2.0


class Summed(Product):
    """Its weight is read by an op that XNNPACK leaves."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.cumsum(self.layer.weight, 0)[:1]


def scripted(
    forms: dict[str, type[Product]], config: cede.Config
) -> tuple[nn.Linear, cede.lowering.PlanPartitioner, ExecutorchProgramManager]:
    torch.manual_seed(0)
    layer = nn.Linear(64, 32, bias=False)
    models = {name: form(layer).eval() for name, form in forms.items()}
    programs = {name: torch.export.export(model, (X,)) for name, model in models.items()}
    ours = cede.partitioner(config=config)
    edge = to_edge_transform_and_lower(programs, partitioner=[ours])
    made = edge.to_executorch()
    return layer, ours, made


def times(made: ExecutorchProgramManager, layer: nn.Linear) -> int:
    return bytes(made.buffer).count(layer.weight.detach().numpy().tobytes())


def test_named_data_of_two_methods_is_stored_once() -> None:
    config = cede.load_config(None, ["backends=[xnnpack]"])
    layer, ours, made = scripted({"a": Product, "b": Doubled}, config)
    assert times(made, layer) == 1
    [row] = ours.report().shared_constants
    assert (row.name, row.copies) == ("layer.weight", 1)
    assert row.holders == ("method 1 d0", "method 2 d0")
    assert not ours.plans[-1].warnings


def test_copies_of_two_methods_are_told() -> None:
    config = cede.load_config(None, ["backends=[reference]"])
    layer, ours, made = scripted({"a": Product, "b": Doubled}, config)
    assert times(made, layer) == 2
    [row] = ours.report().shared_constants
    assert (row.copies, row.extra_bytes) == (2, layer.weight.nbytes)
    [warning] = ours.plans[-1].warnings
    assert "layer.weight 2 times (method 1 d0; method 2 d0)" in warning
    with pytest.raises(PolicyError, match="stored more than once"):
        require_whole(ours.report())
    strict = cede.load_config(None, ["backends=[reference]", "strict=true"])
    with pytest.raises(PolicyError, match=r"(?s)strict: warning: .*stored more than once"):
        scripted({"a": Product, "b": Doubled}, strict)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_delegate_and_an_op_of_another_method(order: tuple[str, str]) -> None:
    config = cede.load_config(None, ["backends=[xnnpack]"])
    forms = {"a": Product, "b": Summed}
    layer, ours, made = scripted({name: forms[name] for name in order}, config)
    gone = cede.store_once(made)
    assert abs(gone - layer.weight.nbytes) < 256  # segments are aligned
    assert times(made, layer) == 1
    [warning] = ours.plans[-1].warnings
    assert "layer.weight 2 times" in warning
    assert "cede.store_once" in warning
    for name in order:
        with torch.no_grad():
            wanted = forms[name](layer)(X)
        got = cede.run(bytes(made.buffer), [X], name).outputs[0]
        torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)


def test_a_partitioner_used_again_tells_of_the_new_program() -> None:
    config = cede.load_config(None, ["backends=[reference]"])
    ours = cede.partitioner(config=config)
    layer = nn.Linear(64, 32, bias=False)
    programs = [torch.export.export(form(layer).eval(), (X,)) for form in (Product, Doubled)]
    to_edge_transform_and_lower(dict(zip("ab", programs, strict=True)), partitioner=[ours])
    assert ours.constants
    to_edge_transform_and_lower(programs[0], partitioner=[ours])
    assert ours.constants == ()
    assert not ours.report().shared_constants
