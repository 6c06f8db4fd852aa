"""Programs with reference delegates, run and compared with eager and with ExecuTorch's runtime."""

from __future__ import annotations

import operator
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch import nn
from torch.export import Dim
from torch.utils._pytree import tree_leaves

from cede.backends.reference.plugin import cede_backends
from cede.errors import LoweringError
from cede.running import load, run
from cede.running.pte import delegates_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

REFERENCE = "CedeReferenceBackend"
BACKENDS = {backend.name: backend for backend in cede_backends()}

pytestmark = pytest.mark.filterwarnings("ignore:Mutation on a buffer:UserWarning")


class Tagged(Partitioner):  # type: ignore[misc]
    """Gives the ops whose node names hold one of the words to the reference backend, all for ()."""

    def __init__(self, *words: str, together: bool = True) -> None:
        self.words = words
        self.together = together

    def partition(self, program: Any) -> PartitionResult:
        tags = {}
        for node in program.graph.nodes:
            taken = not self.words or any(word in node.name for word in self.words)
            if node.op in ("call_function", "get_attr") and taken:
                tag = "all" if self.together else node.name
                if node.target is operator.getitem:
                    tag = node.args[0].meta.get("delegation_tag", tag)
                node.meta["delegation_tag"] = tag
                tags[tag] = DelegationSpec(REFERENCE, [])
        tag_constant_data(program)
        return PartitionResult(tagged_exported_program=program, partition_tags=tags)


def lower(
    model: nn.Module,
    args: tuple[Any, ...],
    partitioners: Sequence[Partitioner] | None = None,
    dynamic: Any = None,
    initial: Sequence[str] = (),
) -> bytes:
    BACKENDS["reference"].register()
    program = torch.export.export(model.eval(), args, dynamic_shapes=dynamic)
    edge = to_edge_transform_and_lower(
        program, partitioner=[Tagged()] if partitioners is None else list(partitioners)
    )
    passes = [InitializedMutableBufferPass(list(initial))] if initial else []
    return bytes(edge.to_executorch(ExecutorchBackendConfig(passes=passes)).buffer)


def edge_outputs(model: nn.Module, args: tuple[Any, ...]) -> list[Any]:
    """What the edge program gives in eager torch."""
    program = torch.export.export(model.eval(), args)
    edge = to_edge_transform_and_lower(program).exported_program()
    with torch.no_grad():
        return tree_leaves(edge.module()(*args))


def eager(model: nn.Module, args: tuple[Any, ...]) -> list[Any]:
    with torch.no_grad():
        return tree_leaves(model(*args))


def ids(program: bytes) -> list[str]:
    return [id for _, id, _ in delegates_of(program)]


def assert_equal(got: Sequence[Any], want: Sequence[Any], atol: float = 0.0) -> None:
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=atol, equal_nan=True)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.second(torch.relu(self.first(x)))
        return y, y.sum(0), x.to(torch.float16)


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.pool(torch.relu(self.norm(self.conv(x)))).split(2, 1)


class Tied(nn.Module):
    """One weight used twice, one that is a view of another layout."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.mix = nn.Parameter(torch.randn(8, 8).t())
        self.register_buffer("shift", torch.randn(20)[3:11])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.embed(tokens) @ self.mix + self.shift, self.embed.weight)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(4, 4))

    def forward(self, yes: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            yes, lambda x: x.sin() @ self.weight, lambda x: x.cos() - self.weight, (x,)
        )


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.arange(12.0).reshape(1, 4, 3))

    def forward(self, at: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.cache.index_copy_(1, at, x)
        return self.cache * 2, self.cache @ x.mT


class Sizes(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        n = x.shape[0]
        return torch.sin(y[:n]) * x, torch.arange(n) + n, n // 2


class Chain(nn.Module):
    """Ops that XNNPACK takes around ops that it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(torch.cumsum(torch.relu(self.b(torch.sin(self.a(x)))), 1))


FRESH = """
import sys
import torch
from cede.backends.reference.plugin import cede_backends
from cede.running import load

loaded = load(sys.argv[1], {given.name: given for given in cede_backends()})
torch.save(loaded.run(torch.load(sys.argv[2])), sys.argv[3])
"""
"""Runs argv[1] on the inputs in argv[2] and saves the outputs as argv[3]."""

IMAGE = torch.randn(2, 3, 8, 8)
WHOLE = {
    "mlp": (Mlp(), (torch.randn(2, 4),)),
    "conv": (Conv(), (IMAGE,)),
    "channels-last": (
        Conv().to(memory_format=torch.channels_last),
        (IMAGE.to(memory_format=torch.channels_last),),
    ),
    "tied": (Tied(), (torch.tensor([[1, 2, 3]]),)),
    "cond-true": (Branches(), (torch.tensor(True), torch.randn(4, 4))),
    "cond-false": (Branches(), (torch.tensor(False), torch.randn(4, 4))),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_model_in_one_delegate_is_bit_for_bit_the_edge_program(name: str) -> None:
    model, args = WHOLE[name]
    program = lower(model, args)
    assert ids(program) == [REFERENCE]
    result = run(program, args, backends=BACKENDS)
    assert result.runtime == "reference"
    assert_equal(result.outputs, edge_outputs(model, args))
    assert_equal(result.outputs, eager(model, args), atol=1e-6)


@pytest.mark.parametrize("name", ["mlp", "conv", "channels-last", "tied"])
def test_one_delegate_per_op_is_bit_for_bit_the_edge_program(name: str) -> None:
    model, args = WHOLE[name]
    program = lower(model, args, [Tagged(together=False)])
    assert len(ids(program)) > 1
    assert_equal(run(program, args, backends=BACKENDS).outputs, edge_outputs(model, args))


def test_dynamic_batch() -> None:
    model = Mlp()
    sizes = {"x": {0: Dim("batch", min=1, max=16)}}
    loaded = load(lower(model, (torch.randn(2, 4),), dynamic=sizes), BACKENDS)
    for batch in (2, 16, 1):
        args = (torch.randn(batch, 4),)
        assert_equal(loaded.run(args), eager(model, args), atol=1e-6)
    with pytest.raises(LoweringError, match=r"float32\[17, 4\] given, at most float32\[16, 4\]"):
        loaded.run([torch.randn(17, 4)])


@pytest.mark.parametrize("words", [(), ("mul", "arange"), ("sin",)], ids=["all", "some", "one"])
def test_symbolic_numbers_cross_the_borders(words: tuple[str, ...]) -> None:
    model = Sizes()
    args = (torch.randn(4, 3), torch.randn(8, 3))
    sizes = {"x": {0: Dim("n", min=2, max=7)}, "y": None}
    loaded = load(lower(model, args, [Tagged(*words)], dynamic=sizes), BACKENDS)
    for n in (4, 2, 7):
        args = (torch.randn(n, 3), torch.randn(8, 3))
        got, want = loaded.run(args), eager(model, args)
        assert_equal(got[:2], want[:2])
        assert got[2] == want[2] == n // 2


def test_cache_lives_between_calls_and_starts_from_its_value() -> None:
    args = (torch.tensor([0]), torch.randn(1, 1, 3))
    loaded, model = load(lower(Cache(), args, initial=["cache"]), BACKENDS), Cache()
    first = None
    for step in range(3):
        args = (torch.tensor([step]), torch.randn(1, 1, 3))
        got = loaded.run(args)
        assert_equal(got, eager(model, args), atol=1e-6)
        first = first or (got, [value.clone() for value in got])
    assert_equal(*first)  # the caller's outputs are not written to by later calls
    assert torch.equal(model.cache[0, 3], torch.arange(9.0, 12.0))


def test_two_loads_have_their_own_state() -> None:
    args = (torch.tensor([0]), torch.randn(1, 1, 3))
    program = lower(Cache(), args, initial=["cache"])
    one, other = load(program, BACKENDS), load(program, BACKENDS)
    one.run(args)
    later = (torch.tensor([1]), torch.randn(1, 1, 3))
    assert_equal(other.run(later), eager(Cache(), later), atol=1e-6)


@pytest.mark.parametrize(
    "partitioners",
    [
        [XnnpackPartitioner(), Tagged("sin", "cumsum", together=False)],
        [Tagged("sin", "cumsum", together=False), XnnpackPartitioner()],
    ],
    ids=["xnnpack-first", "reference-first"],
)
def test_delegates_of_xnnpack_run_in_executorch_between_reference_ones(
    partitioners: list[Partitioner],
) -> None:
    model = Chain()
    sizes = {"x": {0: Dim("batch", min=2, max=8)}}
    program = lower(model, (torch.randn(3, 8),), partitioners, dynamic=sizes)
    assert set(ids(program)) == {REFERENCE, "XnnpackBackend"}
    loaded = load(program, BACKENDS)
    for batch in (3, 8, 2):
        args = (torch.randn(batch, 8),)
        assert_equal(loaded.run(args), eager(model, args), atol=1e-6)


def test_saved_program_runs_in_a_fresh_process(tmp_path: Path) -> None:
    model, args = Conv(), (IMAGE,)
    path = tmp_path / "conv.pte"
    path.write_bytes(lower(model, args))
    torch.save(args, tmp_path / "args.pt")
    files = [str(tmp_path / name) for name in ("conv.pte", "args.pt", "out.pt")]
    subprocess.run([sys.executable, "-c", FRESH, *files], check=True)
    assert_equal(torch.load(files[2]), edge_outputs(model, args))
