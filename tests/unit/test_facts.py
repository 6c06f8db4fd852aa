"""Facts of real exported programs: kinds, places, shapes, arguments, control flow."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from torch import nn
from torch.export import Dim, export

from cede.facts import read_graph
from cede.types import InputKind, Op, OpGraph, Ref, SymbolBounds


def facts(model: nn.Module, args: tuple[Any, ...], **how: Any) -> OpGraph:
    return read_graph(to_edge(export(model.eval(), args, **how)).exported_program())


def only(graph: OpGraph, target: str, scope: str = "") -> Op:
    (found,) = [op for op in graph.scope(scope) if op.target == target]
    return found


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.q(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.attn(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.register_buffer("seen", torch.zeros(8))
        self.register_buffer("offset", torch.ones(8))

    def forward(self, x: torch.Tensor, times: int) -> tuple[torch.Tensor, ...]:
        for layer in self.layers:
            x = layer(x)
        self.seen.add_(x.sum((0, 1)))
        low, high = torch.split(x + self.offset, 4, -1)
        return torch.add(high, low, alpha=3), x * torch.tensor([2.0]) * times


@pytest.fixture(scope="module", params=[False, True], ids=["non-strict", "strict"])
def net(request: pytest.FixtureRequest) -> OpGraph:
    shapes = {"x": {1: Dim("t", min=2, max=16)}, "times": None}
    example = (torch.randn(2, 3, 8), 2)
    return facts(Net(), example, strict=request.param, dynamic_shapes=shapes)


def test_module_paths(net: OpGraph) -> None:
    relus = [op for op in net.ops if op.target == "aten.relu.default"]
    assert [op.module for op in relus] == ["layers.0.attn", "layers.1.attn"]
    products = [op for op in net.ops if op.target == "aten.addmm.default"]
    assert [op.module for op in products] == ["layers.0.attn.q", "layers.1.attn.q"]
    assert only(net, "aten.sum.dim_IntList").module == ""


def test_source_is_the_models_line_and_not_torchs(net: OpGraph) -> None:
    def line(part: str, owner: Any) -> str:
        lines, first = inspect.getsourcelines(owner)
        (at,) = [i for i, text in enumerate(lines) if part in text]
        return f"test_facts.py:{first + at}"

    for op in net.ops:
        if op.target == "aten.addmm.default":  # made by torch.nn.functional.linear
            assert op.source == line("torch.relu(self.q(x))", Attention)
        if op.target == "aten.tanh.default":
            assert op.source == line("torch.tanh", Block)
    assert only(net, "aten.sum.dim_IntList").source == line("self.seen.add_", Net)
    assert {op.source.partition(":")[0] for op in net.ops} <= {"test_facts.py", ""}


def test_kinds_of_inputs(net: OpGraph) -> None:
    given = {i.target or i.id: i for i in net.inputs}
    assert given["layers.1.attn.q.weight"].kind is InputKind.PARAMETER
    assert given["seen"].kind is InputKind.BUFFER
    assert given["offset"].kind is InputKind.BUFFER
    assert given["lifted_tensor_0"].kind is InputKind.CONSTANT
    assert given["x"].kind is InputKind.USER
    assert [i.target for i in net.inputs if i.mutated] == ["seen"]
    constant = {name for name, i in given.items() if i.constant}
    assert {"offset", "lifted_tensor_0", "layers.0.attn.q.bias"} <= constant
    assert not {"seen", "x"} & constant
    written = dict(net.mutations)
    assert set(written) == {"seen"}
    assert net.op(written["seen"]).target == "aten.add.Tensor"


def test_symbolic_sizes_and_bytes_at_the_upper_bound(net: OpGraph) -> None:
    symbol = net.symbols[0]
    assert symbol == SymbolBounds(name=symbol.name, low=2, high=16)
    x = net.fact("x")
    assert x is not None
    assert x.shape == (2, symbol.name, 8)
    assert x.dynamic
    assert x.dtype == "float32"
    assert x.nbytes == 2 * 16 * 8 * 4
    product = next(op for op in net.ops if op.target == "aten.addmm.default")
    assert product.outputs[0].shape == (f"2*{symbol.name}", 8)
    assert product.outputs[0].nbytes == 2 * 16 * 8 * 4
    assert product.flops == 2 * (2 * 16) * 8 * 8
    size = next(op for op in net.ops if op.target.startswith("aten.sym_size"))
    assert size.outputs[0].dtype == "SymInt"
    assert size.outputs[0].shape == ()


def test_arguments_by_name_with_defaults(net: OpGraph) -> None:
    add = next(op for op in net.ops if ("alpha", 3) in op.args)
    assert [name for name, _ in add.args] == ["self", "other", "alpha"]
    assert isinstance(add.arg("self"), Ref)
    default = next(op for op in net.ops if op.id == dict(net.mutations)["seen"])
    assert default.arg("alpha") == 1
    total = only(net, "aten.sum.dim_IntList")
    assert total.args[1:] == (("dim", (0, 1)), ("keepdim", False), ("dtype", None))
    with pytest.raises(KeyError):
        add.arg("beta")


def test_several_outputs_and_getitem(net: OpGraph) -> None:
    split = only(net, "aten.split_with_sizes_copy.default")
    assert [fact.shape[-1] for fact in split.outputs] == [4, 4]
    items = [net.op(user) for user in net.users(split.id)]
    assert [op.target for op in items] == ["getitem", "getitem"]
    assert [op.args for op in items] == [(("input", Ref(split.id)), ("index", i)) for i in range(2)]


def test_one_answerable_order(net: OpGraph) -> None:
    known = {i.id for i in net.inputs}
    for op in net.ops:
        assert set(op.inputs) <= known, op
        known.add(op.id)
    assert set(net.outputs) <= known


def test_an_input_that_is_written_and_one_without_a_tensor() -> None:
    class Writes(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            x.add_(1.0)
            return x * n

    graph = read_graph(export(Writes(), (torch.zeros(3), 4)).run_decompositions({}))
    x = graph.input("x")
    assert x is not None
    assert x.mutated
    assert x.kind is InputKind.USER
    assert dict(graph.mutations) == {"x": graph.ops[0].id}
    n = graph.input("n")
    assert n is not None
    assert n.kind is InputKind.USER


def test_channels_last_and_other_dim_orders() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return torch.relu(x), torch.relu(y)

    last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    graph = facts(Net(), (last, torch.randn(2, 3, 4, 5)))
    orders = [op.outputs[0].dim_order for op in graph.ops if op.kind == "aten.relu"]
    assert orders == [(0, 2, 3, 1), (0, 1, 2, 3)]
    assert [i.tensor.dim_order for i in graph.inputs if i.tensor] == orders


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "bool", "uint8"])
def test_dtypes_and_bytes(dtype: str) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(6)

    given = torch.ones(2, 3, dtype=getattr(torch, dtype))
    graph = facts(Net(), (given,))
    assert graph.fact("x") == graph.input("x").tensor  # type: ignore[union-attr]
    out = graph.op(graph.outputs[0]).outputs[0]
    assert (out.dtype, out.shape, out.nbytes) == (dtype, (6,), given.nbytes)
    assert str(out) == f"{dtype}[6]"


def test_an_unbounded_size_counts_as_its_example() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    program = export(Net(), (torch.randn(5, 4),), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    graph = read_graph(program)
    (symbol,) = graph.symbols
    assert symbol.high is None
    assert graph.ops[0].outputs[0].shape == (symbol.name, 4)
    assert graph.ops[0].outputs[0].nbytes == 5 * 4 * 4


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda z: self.b(z), lambda z: z - 1.0, (x,))

        return self.a(torch.cond(flag, lambda x: torch.relu(self.a(x)), inner, (x,)))


@pytest.fixture(scope="module")
def branches() -> OpGraph:
    return facts(Branches(), (torch.tensor(True), torch.randn(2, 4)))


def test_branches_have_scopes_and_prefixed_ids(branches: OpGraph) -> None:
    cond = only(branches, "cond")
    first, second = cond.branches
    assert [first, second] == [f"{cond.id}/submodule_0", f"{cond.id}/submodule_1"]
    assert [op.target for op in branches.scope(first)][-1] == "aten.relu.default"
    nested = only(branches, "cond", second)
    assert nested.id == f"{second}/cond"
    assert nested.branches == (f"{second}/cond/submodule_0", f"{second}/cond/submodule_1")
    assert [op.kind for op in branches.scope(nested.branches[1])] == ["aten.sub"]
    for op in branches.ops:
        assert op.id.startswith(f"{op.scope}/") == bool(op.scope)
        assert all(branches.input(i) or i in branches for i in op.inputs), op
    assert len({op.id for op in branches.ops}) == len(branches.ops)


def test_branch_ops_stand_directly_before_their_op(branches: OpGraph) -> None:
    for op in branches.ops:
        inside = [o.id for o in branches.ops if o.id.startswith(f"{op.id}/")]
        at = branches.position(op.id)
        assert [branches.position(i) for i in inside] == list(range(at - len(inside), at))
        assert bool(inside) == bool(op.branches)


def test_what_branches_return_and_are_given(branches: OpGraph) -> None:
    cond = only(branches, "cond")
    returns = dict(branches.returns)
    assert set(returns) == {op.scope for op in branches.ops if op.scope}
    assert [branches.op(i).kind for i in returns[cond.branches[0]]] == ["aten.relu"]
    inner = [i for i in branches.inputs if i.scope == cond.branches[0]]
    assert {i.id for i in inner} >= {f"{cond.branches[0]}/x"}
    # A branch has no value: its scope stands in the arguments.
    assert cond.args[1:3] == (("arg1", cond.branches[0]), ("arg2", cond.branches[1]))
    assert not {i for i in cond.inputs if "submodule" in i}
    assert branches.outputs == (branches.ops[-1].id,)


def test_one_function_for_both_branches() -> None:
    class Net(nn.Module):
        def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            def both(x: torch.Tensor) -> torch.Tensor:
                return torch.relu(x)

            return torch.cond(flag, both, both, (x,))

    graph = facts(Net(), (torch.tensor(True), torch.randn(2)))
    assert len({op.id for op in graph.ops}) == len(graph.ops)
    assert {op.scope for op in graph.ops if op.scope} == set(only(graph, "cond").branches)


def test_while_loop_branches() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    class Net(nn.Module):
        def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, torch.tanh(x)), (n, x))[1]

    graph = facts(Net(), (torch.tensor(3), torch.randn(2)))
    loop = only(graph, "while_loop")
    assert len(loop.branches) == 2
    kinds = [{op.kind for op in graph.scope(scope)} for scope in loop.branches]
    assert "aten.gt" in kinds[0]
    assert {"aten.tanh", "aten.sub"} <= kinds[1]
    returns = dict(graph.returns)
    assert [len(returns[scope]) for scope in loop.branches] == [1, 2]
    assert [fact.dtype for fact in loop.outputs] == ["int64", "float32"]
