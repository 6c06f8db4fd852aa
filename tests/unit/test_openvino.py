"""The OpenVINO backend: precision that is followed, refusals where it is wrong, scalars inside."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.openvino.partitioner import OpenvinoPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch import nn

import cede
from cede.backends.openvino import compiler, installed
from cede.backends.openvino.bonds import Bonded
from cede.errors import ConfigError, LoweringError
from cede.types import Claim, Code, Op, OpGraph, Program, Reason, Refusal, TensorFact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if sys.platform != "linux":
    pytest.skip("ExecuTorch has the OpenVINO delegate on Linux only", allow_module_level=True)


class Of(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def config(*overrides: str) -> Any:
    return cede.load_config(None, ["backends=[openvino]", *overrides])


def lowered(module: nn.Module, args: tuple[Any, ...], *overrides: str) -> Any:
    return cede.export(module.eval(), args, config=config(*overrides))


def error(result: Any, args: tuple[Any, ...], wanted: torch.Tensor) -> float:
    got = cede.run(result.buffer, args)
    assert got.runtime == "executorch"
    return float((got.outputs[0] - wanted.detach()).abs().max())


def test_float32_by_default_bfloat16_only_when_asked_for() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(256, 256), torch.randn(8, 256)
    exact = lowered(model, (x,))
    assert len(exact.plan.delegations) == 1
    assert error(exact, (x,), model(x)) < 5e-6
    # Where the CPU has no bfloat16 the hint changes nothing, so this one stays away from numbers.
    specs = dict(compiler.specs("CPU", "bf16"))
    assert specs == {"device": b"HETERO:CPU", compiler.HINT: b"bf16"}


@pytest.mark.skipif(not torch.cpu._is_avx512_bf16_supported(), reason="no bfloat16 in this CPU")
def test_the_hint_stands_in_the_blob() -> None:
    """A failure of the second line means that the delegate now computes in float32 unasked."""
    torch.manual_seed(0)
    model, x = nn.Linear(256, 256), torch.randn(8, 256)
    unasked = lowered(model, (x,), "options.openvino.precision=device")
    assert error(unasked, (x,), model(x)) > 1e-4


def test_stock_delegates_are_compiled_as_ever() -> None:
    compiler.register()
    compiler.register()
    torch.manual_seed(0)
    program = torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),))
    stock = OpenvinoPartitioner([CompileSpec("device", b"CPU")])
    edge = to_edge_transform_and_lower(program, partitioner=[stock])
    modules = [m for m in edge.exported_program().graph_module.children()]
    assert any(b"hetero" not in m.processed_bytes[:200] for m in modules)
    original = compiler.preprocess.openvino_compile.stock
    assert original.__module__ == "openvino.frontend.pytorch.torchdynamo.compile"


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"options.openvino.precision: is 'f8', must be one of"):
        lowered(nn.ReLU(), (torch.randn(2),), "options.openvino.precision=f8")
    with pytest.raises(LoweringError, match=r"no device ABACUS here, only .*CPU"):
        lowered(nn.ReLU(), (torch.randn(2),), "options.openvino.device=ABACUS")


def test_available_imports_nothing() -> None:
    code = (
        "import sys; from cede.backends.openvino.installed import available; print(available());"
        "assert not {'torch', 'openvino', 'nncf', 'executorch'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "Availability(claim=None, lower=None, run=None)"


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "nncf":
            raise PackageNotFoundError(name)
        return "2024.6.0"

    monkeypatch.setattr(installed, "version", version)
    found = installed.available()
    wanted = "openvino 2024.6.0 is older than 2025.1; nncf is not installed"
    assert found.claim == found.lower == f"{wanted}: pip install 'cede[openvino]'"
    assert found.run is None
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    assert "pip install 'cede[openvino]'" in str(installed.available().run)


class Many(nn.Module):
    """What an op-by-op sweep found right, at once: kinds of outputs, dtypes, constants, scalars."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("order", torch.tensor([2, 0, 1]))

    def forward(self, x: torch.Tensor, ids: torch.Tensor, half: torch.Tensor) -> Any:
        top, places = x.topk(2)
        largest, at = x.max(1)
        first, second = x.split([1, 3], 1)
        changed = x.clone()
        changed[:, 0] = 5.0
        scaled = x * x.sum()
        grown = x.exp()
        return (
            top, places, largest, at, first + 1, second.exp(), changed.mul_(2), scaled,
            self.table(ids), x[self.order], self.table.weight[self.order], half @ half.t(),
            x > 0, x.to(torch.int32) + 1, x.argmax(-1), x.softmax(-1), torch.alias_copy(x),
            self.norm(x), grown, grown.clone(), torch.alias_copy(grown),
        )  # fmt: skip


def test_what_is_claimed_is_right() -> None:
    torch.manual_seed(0)
    model = Many().eval()
    args = (torch.randn(3, 4), torch.tensor([[1, 9], [0, 3]]), torch.randn(3, 8).half())
    result = lowered(model, args)
    assert [given.backend for given in result.plan.delegations] == ["openvino"]
    with torch.no_grad():
        wanted = model(*args)
    for got, right in zip(cede.run(result.buffer, args).outputs, wanted, strict=True):
        tolerance = 5e-3 if right.dtype == torch.float16 else 1e-5
        torch.testing.assert_close(got, right, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("numbers", [(), (0.5,), (1.0, 2.0, 1.0)])
def test_elu_with_and_without_its_numbers(numbers: tuple[float, ...]) -> None:
    x = torch.randn(4, 8)
    result = lowered(Of(lambda x: torch.ops.aten.elu.default(x, *numbers)), (x,))
    assert len(result.plan.delegations) == 1
    assert error(result, (x,), torch.ops.aten.elu.default(x, *numbers)) < 1e-6


def test_pixel_shuffle_is_decomposed_where_it_is_not_claimed_whole() -> None:
    x = torch.randn(1, 8, 4, 4)
    result = lowered(nn.PixelShuffle(2), (x,))
    assert len(result.plan.delegations) == 1
    assert error(result, (x,), nn.functional.pixel_shuffle(x, 2)) == 0


INT, LONG = torch.arange(6, dtype=torch.int32), torch.arange(6)
X, IMAGE = torch.randn(3, 6), torch.randn(1, 3, 7, 8)
WRONG: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, Code, str]] = {
    "float64": (lambda x: x @ x.t(), (X.double(),), "mm", Code.DTYPE, "float64"),
    "bfloat16": (torch.relu, (X.bfloat16(),), "relu", Code.DTYPE, "bfloat16"),
    "int64": (torch.add, (LONG, LONG), "add", Code.DTYPE, "32 bits"),
    "bytes": (torch.mul, (INT.to(torch.uint8),) * 2, "mul", Code.DTYPE, "wraps around"),
    "bools": (torch.add, (X > 0, X > 0), "add", Code.DTYPE, "of bool and bool"),
    "compared": (torch.eq, (INT, INT), "eq", Code.DTYPE, "2**24"),
    "scalar in": (torch.mul, (X, torch.tensor(2.0)), "mul", Code.SHAPE, "outside the delegate"),
    "scalar out": (torch.sum, (X,), "sum", Code.SHAPE, "leaves the program"),
    "empty": (torch.relu, (torch.randn(0, 4),), "relu", Code.SHAPE, "empty"),
    "layout": (
        torch.relu, (IMAGE.to(memory_format=torch.channels_last),), "relu", Code.LAYOUT,
        "(0, 2, 3, 1)",
    ),
    "strides": (
        lambda x: x.as_strided((2, 2), (1, 2)), (X,), "as_strided_copy", Code.NO_KERNEL, "convert",
    ),
    "divisor": (
        lambda x: nn.functional.avg_pool2d(x, 2, divisor_override=3), (IMAGE,), "avg_pool2d",
        Code.ARGUMENT, "divisor_override 3",
    ),
    "ceil": (
        lambda x: nn.functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (IMAGE,), "avg_pool2d",
        Code.ARGUMENT, "ceil_mode",
    ),
    "correction": (lambda x: x.var(1, correction=2), (X,), "var", Code.ARGUMENT, "correction 2"),
    "statistics": (
        lambda x: torch.native_layer_norm(x, [6], None, None, 1e-5), (X,), "native_layer_norm",
        Code.ARGUMENT, "statistics",
    ),
    "accumulate": (
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        (X, torch.tensor([0, 0]), torch.randn(2, 6)), "index_put", Code.ARGUMENT, "their sum",
    ),
    "input scale": (
        lambda x: torch.ops.aten.elu.default(x, 1.0, 1.0, 0.5), (X,), "elu", Code.ARGUMENT,
        "input_scale 0.5",
    ),
    "dropout": (
        lambda x: torch.native_dropout(x, 0.5, False), (X,), "native_dropout", Code.NO_KERNEL,
        "fails when it runs",
    ),
    "one": (lambda x: torch.cat([x]), (X,), "cat", Code.ARGUMENT, "one tensor"),
    "fractions": (
        lambda x: x[0] + torch.arange(0, 3, 0.5), (X,), "arange", Code.ARGUMENT, "integers",
    ),
}  # fmt: skip


class Wrongs(nn.Module):
    """All of `WRONG` in one program, each in a module of its name."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(Of(function) for function, *_ in WRONG.values())

    def forward(self, *args: tuple[torch.Tensor, ...]) -> Any:
        return [part(*given) for part, given in zip(self.parts, args, strict=True)]


@cache
def wrongs() -> cede.Plan:
    program = torch.export.export(Wrongs(), tuple(args for _, args, *_ in WRONG.values()))
    return cede.plan(program, config())


@pytest.mark.parametrize("name", WRONG)
def test_what_the_delegate_does_wrong_is_refused(name: str) -> None:
    kind, code, words = WRONG[name][2:]
    plan, module = wrongs(), f"parts.{list(WRONG).index(name)}"
    assert plan.graph is not None
    ops = {op.id for op in plan.graph.ops if op.module == module and op.kind == f"aten.{kind}"}
    reasons = [row.reason for row in plan.refusals if row.op in ops]
    assert len(reasons) == len(ops) > 0
    assert {reason.code for reason in reasons} == {code}
    assert all(words in reason.detail for reason in reasons)


def test_dynamic_shapes_are_refused() -> None:
    shapes = {"input": {0: torch.export.Dim("n", max=8)}}
    program = torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),), dynamic_shapes=shapes)
    plan = cede.plan(program, config())
    assert plan.graph is not None
    [product] = (op.id for op in plan.graph.ops if op.kind == "aten.addmm")
    [reason] = (row.reason for row in plan.refusals if row.op == product)
    assert reason.code is Code.DYNAMIC_SHAPE


class _Every:
    """Claims each op alone, but one."""

    name = backend = "some"

    def __init__(self, left: str) -> None:
        self.left = left

    def keeps(self, program: Program) -> cede.Keep:
        return cede.Keep()

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        for op in program.graph.ops:
            if op.id == self.left:
                reason = Reason(code=Code.UNKNOWN_OP, detail="no")
                yield Refusal(partitioner="some", op=op.id, reason=reason)
            else:
                yield Claim(partitioner="some", backend="some", ops=frozenset({op.id}))


def _op(id: str, *inputs: str, shape: tuple[int, ...] = ()) -> Op:
    fact = TensorFact(shape=shape, dtype="float32", dim_order=tuple(range(len(shape))))
    return Op(id=id, target=f"aten.{id}.default", inputs=inputs, outputs=(fact,))


@pytest.mark.parametrize(
    ("left", "joined", "refused"),
    [
        ("", {frozenset({"sum", "neg", "mul", "add"}), frozenset({"top"})}, set()),
        ("add", {frozenset({"top"})}, {"sum", "neg", "mul"}),
        ("top", {frozenset({"sum", "neg", "mul", "add"})}, set()),
    ],
)
def test_ops_that_share_a_scalar_go_together(
    left: str, joined: set[frozenset[str]], refused: set[str]
) -> None:
    ops = (
        _op("top", shape=(4,)),
        _op("sum", "top"),
        _op("neg", "sum"),
        _op("mul", "top", "neg", shape=(4,)),
        _op("add", "top", "sum", shape=(4,)),
    )
    graph = OpGraph(ops=ops, outputs=("mul", "add"))
    program = Program(graph=graph, exported=None, options=None)
    answers = list(Bonded(inner=_Every(left)).claim(program))
    claims = [answer for answer in answers if isinstance(answer, Claim)]
    assert {claim.ops for claim in claims} == joined
    assert all(not claim.divisible for claim in claims if len(claim.ops) > 1)
    lost = {answer.op for answer in answers if isinstance(answer, Refusal)}
    assert lost == refused | ({left} if left else set())
