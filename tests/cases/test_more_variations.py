"""More forms of kinds: sizes below a bound, kept ops, dtypes, many parts, saved programs."""

from __future__ import annotations

import gc
import io
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.cases.test_variations import Rolled, agree, exported, randn
from torch import nn

import cede
from cede import api
from cede.host import Host
from cede.running import load

if TYPE_CHECKING:
    from pathlib import Path


class Strided(nn.Module):
    """Sizes that are halved, joined and turned, of an input and of another that follows it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.lin = nn.Conv1d(4, 6, 3, stride=2, padding=1), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.relu(self.conv(torch.cat([x, y], 2))).transpose(1, 2)
        return torch.cumsum(self.lin(h), 1).flatten(1), h.mean(1, keepdim=True)


class Both(nn.Module):
    """Two sizes in one value; an output whose size is their product, and one that is a slice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.tanh(self.lin(x))
        return torch.cumsum(h.reshape(-1, 4), 0), h[:, 1:] * 2.0


ROWS, STEPS = torch.export.Dim("rows", min=1, max=5), torch.export.Dim("steps", min=3, max=32)


@pytest.mark.parametrize("config", ["xnnpack-fp32", "reference"])
@pytest.mark.parametrize("form", ["strided", "both"])
def test_every_size_below_the_bound(form: str, config: str) -> None:
    if form == "strided":
        x, y = randn(2, 4, 32), randn(2, 4, 32, seed=2)
        program = exported(Strided(), x, y, sizes={"x": {2: STEPS}, "y": {2: STEPS}})
        calls = [(x[..., :n], y[..., :n]) for n in (32, 3, 31, 8)]
    else:
        x = randn(5, 32, 8)
        program = exported(Both(), x, sizes={"x": {0: ROWS, 1: STEPS}})
        calls = [(x[:rows, :steps],) for rows, steps in ((5, 32), (1, 3), (3, 17), (5, 3))]
    calls = [tuple(given.contiguous() for given in call) for call in calls]
    lowered = api.lower(program, config=config)
    assert lowered.plan.delegations
    agree(lowered, calls)
    outputs = [api.run(lowered.buffer, call).outputs for call in calls]
    wanted = [program.module()(*call) for call in calls]
    assert [[y.shape for y in ys] for ys in outputs] == [[y.shape for y in ys] for ys in wanted]


KEEPS = """
import cede, torch
from cede.partitioners.rules import Rule, Ruled

class Whole(Ruled):
    def keeps(self, program):
        a = torch.ops.aten
        beyond = (a.pixel_shuffle.default, a.glu.default, a.rms_norm.default)
        return cede.Keep(ops=(*beyond, a.transpose.int))

@cede.hookimpl
def cede_partitioners():
    yield Whole(name="whole", backend="reference", rules=(Rule(({taken},)),))
"""


class Core(nn.Module):
    """Three operators that Core ATen lacks, and a transpose that nobody may keep."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lin, self.norm = nn.Linear(4, 32), nn.RMSNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.glu(self.lin(self.norm(x))).transpose(1, 2).reshape(1, 16, 2, 2)
        return nn.functional.pixel_shuffle(y, 2).flatten(1)


@pytest.mark.parametrize(
    ("taken", "others"),
    [
        ("'aten.pixel_shuffle*', 'aten.glu*', 'aten.rms_norm*'", ""),
        ("'aten.pixel_shuffle*'", "xnnpack,"),
        ("'aten.glu*', 'aten.rms_norm*'", "xnnpack,"),
        ("'aten.cumsum*'", ""),
    ],
    ids=["three", "one beside another backend", "two beside another backend", "none"],
)
def test_kept_operators_beyond_core_aten(taken: str, others: str, tmp_path: Path) -> None:
    (tmp_path / "whole.py").write_text(KEEPS.format(taken=taken))
    names = ["plugins.files=[%s]" % (tmp_path / "whole.py"), f"backends=[{others}reference]"]
    stock = "xnnpack," if others else ""
    config = api.load_config(None, [*names, f"partitioners=[{stock}whole]"])
    x = randn(1, 4, 4)
    lowered = api.lower(exported(Core(), x), config=config)
    whole = {op.kind for op in lowered.graph.ops if op.id in lowered.plan.delegation_of()}
    for kind in ("pixel_shuffle", "glu", "rms_norm"):
        wanted = f"aten.{kind}*" in taken
        assert (f"aten.{kind}" in whole) == wanted, kind
        assert any(kind in kept for kept in lowered.plan.kept) == wanted
    assert any(
        "its result aliases an argument (aten::transpose" in text for text in lowered.plan.warnings
    )
    agree(lowered, [(x,), (x * 3.0,)])


# Claims by name alone, whatever the dtype, for a stock compiler; or looks at dtypes and fails.
BY_NAME = """
import cede, torch
from cede.partitioners.rules import Rule, Ruled

SIZES = {{torch.float32: 4}}

class Named(Ruled):
    def claim(self, program):
        if {looks}:
            for node in program.exported.graph.nodes:
                if node.op == "placeholder":
                    SIZES[node.meta["val"].dtype]
        if {whole}:
            ops = frozenset(op.id for op in program.graph.ops if "to_dim" not in op.target)
            yield cede.Claim(partitioner="named", backend=self.backend, ops=ops, divisible=True)
            return
        yield from super().claim(program)

@cede.hookimpl
def cede_partitioners():
    yield Named(name="named", backend="{backend}", rules=(Rule(("aten.*",)),))
"""


class Adds(nn.Module):
    """Ops of a dtype, then of float32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.abs(x + x).to(torch.float32) * 2.0


@pytest.mark.parametrize(
    ("dtype", "backend", "whole"),
    [
        (torch.int16, "xnnpack", False),
        (torch.uint8, "xnnpack", True),
        (torch.float64, "xnnpack", True),
        (torch.float64, "openvino", False),
        (torch.uint8, "coreml", True),
    ],
)
def test_a_claim_that_ignores_dtypes(
    dtype: torch.dtype, backend: str, whole: bool, tmp_path: Path
) -> None:
    source = BY_NAME.format(looks=False, whole=whole, backend=backend)
    lowered = by_name(tmp_path, source, backend, torch.tensor([1, 2, 100]).to(dtype))
    kinds = {row.target.split(".")[1]: row for row in lowered.report().rows}
    for kind in ("add", "abs"):
        assert "named: dtype: " in kinds[kind].reason
        assert str(dtype).removeprefix("torch.") in kinds[kind].reason
    assert kinds["mul"].backend == backend
    if backend == "xnnpack":
        agree(lowered, [(torch.tensor([1, 2, 100]).to(dtype),)], 0.0)


def test_a_check_that_fails_at_a_dtype(tmp_path: Path) -> None:
    source = BY_NAME.format(looks=True, whole=False, backend="xnnpack")
    lowered = by_name(tmp_path, source, "xnnpack", torch.tensor([1, 2, 100], dtype=torch.int8))
    assert not lowered.plan.delegations
    assert all("KeyError: torch.int" in row.reason for row in lowered.report().left)
    agree(lowered, [(torch.tensor([-1, 2, 100], dtype=torch.int8),)], 0.0)


def by_name(folder: Path, source: str, backend: str, x: torch.Tensor) -> Any:
    (folder / "named.py").write_text(source)
    names = [f"plugins.files=[{folder / 'named.py'}]", f"backends=[{backend}]"]
    config = api.load_config(None, [*names, "partitioners=[named]"])
    if api.plan(exported(Adds(), x), config).delegations and backend != "xnnpack":
        try:
            return api.lower(exported(Adds(), x), config=config)
        except cede.LoweringError as error:
            pytest.skip(str(error))
    return api.lower(exported(Adds(), x), config=config)


class Side(nn.Module):
    """Many parts beside each other, which read one value and join in the end."""

    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.parts = nn.ModuleList(nn.Linear(4, 4) for _ in range(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = [torch.cumsum(torch.tanh(part(x)), -1) for part in self.parts]
        return torch.stack(rows).amax(0)


class Deep(nn.Module):
    """Many parts after each other, with products of one quantized activation each."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.parts = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = torch.cumsum(torch.tanh(part(x)), -1) * 0.1 + x
        return x


@pytest.mark.parametrize("form", [Side, Deep])
def test_the_work_grows_with_the_parts(
    form: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks are asked about a product as often in a small program as in one of many parts."""
    from executorch.backends.xnnpack.partition.config import gemm_configs

    asked: list[Any] = []
    own = gemm_configs.GEMMConfig.check_constraints

    def counted(self: Any, node: Any, program: Any) -> bool:
        asked.append(node.name)
        return bool(own(self, node, program))

    monkeypatch.setattr(gemm_configs.GEMMConfig, "check_constraints", counted)
    often, delegates = [], []
    for many in (2, 8):
        x, model = randn(2, 32 if form is Deep else 4), form(many).eval()
        if form is Deep:
            model, _ = cede.quantize_model(model, cede.config.QuantizeConfig(mode="8da8w"))
        asked.clear()
        plan = api.plan(exported(model, x), "xnnpack-fp32")
        often.append(len(asked) / many)
        delegates.append(len(plan.delegations))
    assert often[0] >= often[1] > 0
    assert delegates == ([2, 2] if form is Side else [3, 9])


def again(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def quantized() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), Rolled(), nn.Linear(32, 32, bias=False))
    made, _ = cede.quantize_model(model.eval(), cede.config.QuantizeConfig(mode="8da4w"))
    return made, (randn(2, 64),)


class Chosen(nn.Module):
    """A weight in a branch, and outside."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(4, 4)

    def forward(self, p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        return torch.cond(p, lambda y: self.a(y) * 2.0, lambda y: y - 3.0, (y,))


def branches() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Chosen(), (torch.tensor(True), randn(2, 4))


@pytest.mark.parametrize("make", [quantized, branches])
def test_saved_programs_are_partitioned_as_they_were(make: Any) -> None:
    model, args = make()
    program = exported(model, *args)
    made = [api.lower(one, config="xnnpack-fp32") for one in (program, again(program))]
    first, second = (lowered.report().rows for lowered in made)
    assert [(r.op, r.delegate, r.reason) for r in first] == [
        (r.op, r.delegate, r.reason) for r in second
    ]
    assert any(row.delegate for row in first)
    got, wanted = (api.run(lowered.buffer, list(args)).outputs[0] for lowered in made)
    assert torch.equal(got, wanted)
    with torch.no_grad():
        torch.testing.assert_close(got, model(*args), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("config", ["xnnpack-fp32", "reference"])
@pytest.mark.parametrize("weights", [False, True])
def test_bytes_that_go_away_or_change_after_loading(config: str, weights: bool) -> None:
    settings = api.load_config(config, [f"lowering.external_weights={str(weights).lower()}"])
    model, x = (
        nn.Sequential(nn.Linear(128, 256), Rolled(), nn.Linear(256, 64)).eval(),
        randn(2, 128),
    )
    lowered = api.lower(exported(model, x), config=settings)
    with torch.no_grad():
        wanted = model(x)
    backends = Host.load().backends
    data = [bytearray(lowered.buffer), bytearray(lowered.weights)]
    first, second = (
        load(bytes(data[0]), backends, bytes(data[1]) if data[1] else None) for _ in range(2)
    )
    for each in data:
        each[:] = bytes(len(each))
    del lowered, data
    gc.collect()
    junk = [b"x" * (100_000 + i) for i in range(64)]
    for program in (first, second, first):
        torch.testing.assert_close(program.run([x])[0], wanted, atol=1e-4, rtol=1e-4)
    del junk
