"""Measured time beside predicted time."""

from __future__ import annotations

import json
import re

import pytest
import torch
from click.testing import CliRunner

import cede
from cede.benching.match import instructions
from cede.cli import main
from cede.errors import ConfigError, LoweringError
from cede.running.pte import read
from cede.running.trace import trace


class Mixed(torch.nn.Module):
    """Two delegates with an op between them, and branches that nobody takes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(torch.neg(torch.cumsum(torch.relu(self.first(x)), 1)))
        return torch.cond(x.sum() > 0, lambda y: y.sin() * 2, lambda y: y.cos() + 1, (y,))


class Mapped(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._higher_order_ops.map(lambda row: row.cumsum(0) + 1, x).topk(2)[0]


def mixed() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return Mixed().eval(), (torch.ones(4, 64),)


@pytest.fixture(scope="module")
def lowered():
    return cede.export(*mixed(), config=cede.load_config("xnnpack-fp32", ["costs=roofline"]))


def test_every_part_that_runs_is_measured(lowered) -> None:
    timing = cede.bench(lowered, mixed()[1], calls=3)
    assert set(timing.delegates) == {"d0", "d1"}
    taken = {op for given in lowered.plan.delegations for op in given.ops}
    ran = {
        op.id
        for op in lowered.graph.ops
        if op.id not in taken and not op.bookkeeping and not op.branches
        and "submodule_1" not in op.scope
    }  # fmt: skip
    assert set(timing.ops) == ran  # the sum is above 0, so the second branch does not run
    assert all(took > 0 for took in (timing.seconds, *timing.delegates.values()))
    assert any("Fully Connected" in name for name, _ in timing.kernels["d0"])


def test_instructions_are_those_of_the_program(lowered) -> None:
    pte = read(lowered.buffer)
    delegates, ops = instructions(lowered, pte)
    chain = pte.plan("forward").chains[0].instructions
    calls = [
        i for i, given in enumerate(chain) if type(given.instr_args).__name__.endswith("lCall")
    ]
    named = {i: pte.operators("forward")[chain[i].instr_args.op_index] for i in calls}
    assert sorted(ops) == calls
    for number, op in ops.items():  # "aten::cumsum.out" of "aten.cumsum.default"
        kind = named[number].partition(".")[0].replace("::", ".").replace("_dim_order.", ".")
        assert kind == lowered.graph.op(op).kind
    assert [delegates[i] for i in sorted(delegates)] == ["d0", "d1"]


def test_ops_in_a_map_are_measured() -> None:
    x = torch.randn(4, 8)
    lowered = cede.export(Mapped().eval(), (x,), config="xnnpack-fp32")
    timing = cede.bench(lowered, (x,), calls=2)
    assert any("/" in op and "cumsum" in op for op in timing.ops)
    assert any("topk" in op for op in timing.ops)


def test_tracing_tells_every_call(lowered) -> None:
    events = trace(read(lowered.buffer), mixed()[1], calls=4, warm=2)
    whole = [event for event in events if not event.kernel]
    assert whole
    assert {len(event.seconds) for event in whole} == {4}


def test_report_has_both_times(lowered) -> None:
    timing = cede.bench(lowered, mixed()[1], calls=2)
    report = lowered.report(timing)
    assert [given.measured_seconds for given in report.by_delegate] == list(
        timing.delegates.values()
    )
    head = report.text().splitlines()
    assert head[1].startswith("predicted ")
    parts = r"while it is traced, .* in delegates, .* outside"
    assert re.match(rf"measured \S+ \wss? a call; {parts}", head[2])
    assert "predicted    measured" in report.text()
    assert "measured_seconds" in report.delegates_csv().splitlines()[0]
    data = json.loads(report.json())
    assert data["measured"]["ops"] == dict(timing.ops)
    assert data["delegates"][0]["measured_seconds"] == timing.delegates["d0"]
    plain = json.loads(lowered.report().json())
    assert "measured" not in plain
    assert "measured_seconds" not in plain["delegates"][0]


def test_a_runner_is_measured_as_a_whole() -> None:
    lowered = cede.export(*mixed(), config="reference")
    timing = cede.bench(lowered, mixed()[1], config="reference", calls=2)
    assert timing.runtime == "reference"
    assert timing.seconds > 0
    assert not timing.delegates


def test_inputs_that_do_not_fit_are_an_error(lowered) -> None:
    with pytest.raises(LoweringError, match="input 0"):
        cede.bench(lowered, (torch.ones(4, 65),))
    with pytest.raises(ConfigError, match="calls: is 0"):
        cede.bench(lowered, (torch.ones(4, 64),), calls=0)


def test_command_prints_delegates_and_ops_left(tmp_path) -> None:
    source = tmp_path / "models.py"
    source.write_text(
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.proj = torch.nn.Linear(4, 4)\n\n"
        "    def forward(self, x):\n        return self.proj(x).cumsum(1)\n\n\n"
        "def make():\n    return Model(), (torch.ones(2, 4),)\n"
    )
    out = tmp_path / "bench.md"
    args = ["bench", f"{source}:make", "-b", "xnnpack", "--calls", "2", "-v", "-q"]
    result = CliRunner().invoke(main, [*args, "-f", "markdown", "-o", str(out)])
    assert result.exit_code == 0, result.output
    text = out.read_text()
    assert "## Delegates" in text
    assert re.search(r"aten_cumsum_default .*models.py:10", text)
    assert "proj" in text
    assert "## Kernels of delegates" in text
