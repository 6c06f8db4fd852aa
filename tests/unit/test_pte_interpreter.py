"""The interpreter against ExecuTorch's own runtime, and the choice between runtimes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan as torch_scan
from torch.export import Dim

from cede.errors import LoweringError
from cede.running import load, run
from cede.running.interpreter import Interpreter
from cede.running.pte import read
from cede.running.runtime import RuntimeProgram, run_delegate
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:Mutation on a buffer:UserWarning")


def lower(
    model: nn.Module,
    args: tuple[Any, ...],
    dynamic: Any = None,
    initial: tuple[str, ...] = (),
    partitioners: tuple[Any, ...] = (),
) -> bytes:
    program = torch.export.export(model.eval(), args, dynamic_shapes=dynamic)
    edge = to_edge_transform_and_lower(program, partitioner=list(partitioners))
    passes = [InitializedMutableBufferPass(list(initial))] if initial else []
    return bytes(edge.to_executorch(ExecutorchBackendConfig(passes=passes)).buffer)


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.max_pool2d(torch.relu(self.norm(self.conv(x))), 2).split(2, 1)


class Branches(nn.Module):
    def forward(self, yes: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(yes, lambda x: x.sin() @ x, lambda x: x.cos() - 1, (x,))


class Mapped(nn.Module):
    def forward(self, xs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch_map(lambda x, y: x.sin() + y, xs, y)


class Scanned(nn.Module):
    def forward(self, start: torch.Tensor, xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch_scan(lambda carry, x: (carry + x, (carry * x).sin()), start, xs)


class Sizes(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[Any, ...]:
        n = x.shape[0]
        return x.reshape(-1, 2) + 1, torch.arange(n) * n, n // 2, -n


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.full((2,), 5.0))
        self.register_buffer("last", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.count.add_(x)
        before = self.last.clone()
        self.last.copy_(x)
        return self.count + 0, before


class InPlace(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


ROWS = {"x": {0: Dim("n", min=2, max=8)}}
CASES: dict[str, tuple[nn.Module, list[tuple[Any, ...]], Any]] = {
    "conv": (Conv(), [(r(2, 3, 10, 10),)], None),
    "cond": (Branches(), [(torch.tensor(yes), r(4, 4)) for yes in (True, False, True)], None),
    "map": (Mapped(), [(r(3, 4), r(4)), (r(3, 4), r(4))], None),
    "scan": (Scanned(), [(r(4), r(3, 4)), (r(4), r(3, 4))], None),
    "sizes": (Sizes(), [(r(n, 4),) for n in (4, 2, 8)], ROWS),
    "state": (Counter(), [(r(2),) for _ in range(3)], None),
    "in-place": (InPlace(), [(r(2, 2), r(2, 2))], None),
}


@pytest.mark.parametrize("name", CASES)
def test_interpreter_agrees_with_executorch(name: str) -> None:
    model, calls, dynamic = CASES[name]
    program = lower(model, calls[0], dynamic, initial=("count",))
    mine, native = Interpreter(read(program), run_delegate), RuntimeProgram(read(program))
    for args in calls:
        # Each gets its own copy: a program may write to its inputs.
        got, want = (given.run([arg.clone() for arg in args]) for given in (mine, native))
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            torch.testing.assert_close(one, other, rtol=0.0, atol=1e-6)


def test_state_starts_from_its_value_and_outputs_are_the_callers() -> None:
    program = lower(Counter(), (torch.ones(2),), initial=("count",))
    loaded = Interpreter(read(program), run_delegate)
    first = loaded.run([torch.ones(2)])
    second = loaded.run([torch.ones(2)])
    assert [value.tolist() for value in first] == [[6.0, 6.0], [0.0, 0.0]]
    assert [value.tolist() for value in second] == [[7.0, 7.0], [1.0, 1.0]]


def test_quantized_program_finds_its_kernels_in_a_fresh_process(tmp_path: Path) -> None:
    """Without `executorch.kernels.quantized` the runtime has none for these operators."""
    import executorch.kernels.quantized  # noqa: F401  (emitting needs it too)
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    args = (r(3, 16),)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
    model = torch.export.export(nn.Linear(16, 8).eval(), args).module()
    prepared = prepare_pt2e(model, quantizer)
    prepared(*args)
    converted = convert_pt2e(prepared)
    edge = to_edge_transform_and_lower(torch.export.export(converted, args))
    (tmp_path / "q.pte").write_bytes(edge.to_executorch().buffer)
    torch.save(args, tmp_path / "in.pt")
    code = (
        "import sys, torch; from cede.running import run;"
        "result = run(sys.argv[1], torch.load(sys.argv[2]), backends={});"
        "assert result.runtime == 'executorch';"
        "torch.save(result.outputs[0], sys.argv[3])"
    )
    files = [str(tmp_path / name) for name in ("q.pte", "in.pt", "out.pt")]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
    torch.testing.assert_close(torch.load(files[2]), converted(*args), rtol=0.0, atol=1e-6)


LIBRARY = torch.library.Library("cede_kernel_test", "DEF")
LIBRARY.define("double(Tensor x) -> Tensor")
LIBRARY.define("double.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
LIBRARY.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
LIBRARY.impl("double.out", lambda x, out: out.copy_(x * 2), "CompositeExplicitAutograd")


class Custom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.cede_kernel_test.double(x) + 1


def test_operator_without_a_kernel_in_the_runtime_is_named() -> None:
    program = lower(Custom(), (torch.ones(2),))
    with pytest.raises(
        LoweringError, match=r"no kernel for operator cede_kernel_test::double\.out"
    ):
        run(program, [torch.ones(2)], backends={})
    got = Interpreter(read(program), run_delegate).run([torch.ones(2)])
    assert got[0].tolist() == [3.0, 3.0]


@pytest.fixture(scope="module")
def delegated() -> bytes:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    return lower(model, (torch.ones(2, 4),), partitioners=(XnnpackPartitioner(),))


def renamed(program: bytes) -> bytes:
    assert program.count(b"XnnpackBackend") == 1
    return program.replace(b"XnnpackBackend", b"ElsewhereBack!")


def test_delegate_that_no_runtime_has_is_named(delegated: bytes) -> None:
    elsewhere = Backend(name="elsewhere", delegate_id="ElsewhereBack!")
    says = "no runtime here for the delegate ElsewhereBack!"
    with pytest.raises(LoweringError, match=f"{says};"):
        load(renamed(delegated), {})
    with pytest.raises(LoweringError, match=f"{says} of backend elsewhere;"):
        load(renamed(delegated), {"elsewhere": elsewhere})
    with pytest.raises(LoweringError, match=says):
        Interpreter(read(renamed(delegated)), run_delegate)


def test_backend_that_cannot_run_here_says_why(delegated: bytes) -> None:
    fast = Backend(
        name="fast",
        delegate_id="XnnpackBackend",
        available=lambda: Availability(run="install the driver"),
    )
    with pytest.raises(LoweringError, match="of backend fast can't run here: install the driver"):
        load(delegated, {"fast": fast})


def test_program_keeps_its_bytes_alive(delegated: bytes) -> None:
    loaded = load(bytes(bytearray(delegated)), {})
    want = loaded.run([torch.ones(2, 4)])[0]
    junk = [bytes([i]) * len(delegated) for i in range(64)]
    later = load(delegated, {}).run([torch.ones(2, 4)])[0]
    assert torch.equal(loaded.run([torch.ones(2, 4)])[0], want)
    assert torch.equal(later, want)
    assert len(junk) == 64
