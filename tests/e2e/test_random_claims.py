"""Whatever two plugins claim of whatever program: it lowers, and the numbers are eager's."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from cede import api

if TYPE_CHECKING:
    from pathlib import Path

# Claims of any ops, connected or not, convex or not, over each other, on names that are not there.
PLUGIN = """
import random
import cede

class Any:
    def __init__(self, name):
        self.name = self.backend = name
    def keeps(self, program):
        return cede.Keep()
    def claim(self, program):
        chance = random.Random(f"{self.name} {SEED}")
        ops = [op.id for op in program.graph.ops]
        for _ in range(chance.randint(1, 4)):
            share = chance.choice((0.15, 0.4, 0.8))
            chosen = frozenset(op for op in ops if chance.random() < share)
            if chance.random() < 0.3:  # one op a claim
                for op in chosen:
                    yield self.made(frozenset({op}))
            elif chosen:
                yield self.made(chosen | ({"nowhere"} if chance.random() < 0.1 else set()))
    def made(self, ops):
        return cede.Claim(partitioner=self.name, backend=self.backend, ops=ops)

def register():
    import cede.backends.reference.compiler

@cede.hookimpl
def cede_partitioners():
    yield Any("one")
    yield Any("two")

@cede.hookimpl
def cede_backends():
    from cede.backends.reference.plugin import cede_backends
    [own] = cede_backends()
    import dataclasses
    for name in ("one", "two"):
        yield dataclasses.replace(own, name=name)
"""


class Any(nn.Module):
    """A random program: shared and returned weights, lists, state, control flow, aliases."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.chance = random.Random(seed)
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.two.weight = self.one.weight if self.chance.random() < 0.5 else self.two.weight
        self.register_buffer("state", torch.arange(6.0))
        self.scale = nn.Parameter(torch.rand(6))
        kinds = [
            self.product, self.product, self.activated, self.summed, self.listed, self.cut,
            self.turned, self.written, self.branched, self.ordered, self.scaled,
        ]  # fmt: skip
        self.steps = [self.chance.choice(kinds) for _ in range(12)]
        self.picks = [self.chance.random() for _ in range(64)]

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.at, values = 0, [x]
        for step in self.steps:
            values.append(step(self.pick(values), self.pick(values)))
        last = values[-1]
        return last, last.t(), self.scale, values[-2], values[-2][:1] + self.state

    def pick(self, values: list[torch.Tensor]) -> torch.Tensor:
        self.at += 1
        return values[-1 - int(self.picks[self.at] * min(len(values), 4))]

    def product(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.tanh((self.one if self.picks[self.at] < 0.5 else self.two)(a))

    def activated(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(a) - torch.sigmoid(a)

    def summed(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b * 0.5

    def listed(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cat([a, b, self.scale[None]], 0)[1:4]

    def cut(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        left, right = torch.split(a, 3, 1)
        return torch.cat([right, left * 2.0], 1)

    def turned(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.t().reshape(3, 6)

    def written(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        self.state.mul_(0.5).add_(a[0])
        return b + self.state

    def branched(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        one, two = (lambda a, b: self.two(a) + b), (lambda a, b: a * 0.5 - b)
        return torch.cond(a.sum() > 0, one, two, (a, b))

    def ordered(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        most, places = torch.topk(a, 6, 1)
        return most + places.to(torch.float32) * 0.1

    def scaled(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(a, 0) * self.scale * 0.3


def holds(seed: int, folder: Path) -> None:
    (folder / "claims.py").write_text(f"SEED = {seed}\n{PLUGIN}")
    config = api.load_config(
        None,
        [f"plugins.files=[{folder / 'claims.py'}]", "backends=[one,two]", "lowering.cache=false"],
    )
    calls = [(torch.randn(3, 6, generator=torch.Generator().manual_seed(i)),) for i in range(3)]
    program = torch.export.export(Any(seed).eval(), calls[0])
    lowered = api.lower(program, config=config)
    outcome = api.check(lowered, calls, config)
    assert outcome.passed, f"seed {seed}: {outcome.message}"
    assert all(row.reason for row in lowered.report().left)


@pytest.mark.parametrize("seed", range(2))
def test_random_claims(seed: int, tmp_path: Path) -> None:
    holds(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 40))
def test_many_random_claims(seed: int, tmp_path: Path) -> None:
    holds(seed, tmp_path)
