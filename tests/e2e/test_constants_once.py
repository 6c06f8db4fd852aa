"""Constants are stored once whatever their names and readers; what is stored twice is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from cede import api
from cede.cli import main
from cede.config import load_config
from cede.errors import LoweringError, PolicyError
from cede.files import write_together
from cede.reporting import require_whole
from cede.verifying import verify_file

if TYPE_CHECKING:
    from pathlib import Path

    from cede.lowering import Lowered


class Tied(nn.Module):
    """A table that an op outside of the delegates and a linear layer read; and state."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(50, 32)
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("calls", torch.full((32,), 0.5))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.head(torch.cumsum(self.embed(ids), 0) + self.calls)


class Twins(nn.Module):
    """Two layers of equal weights, in two delegates of XNNPACK; cumsum is in none."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one = nn.Linear(40, 40, bias=False)
        self.two = nn.Linear(40, 40, bias=False)
        self.two.weight.data.copy_(self.one.weight.data)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.cumsum(self.one(x), 0))


class Copied(nn.Module):
    """A weight whose content is also the initial value of state, and a view of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one = nn.Linear(40, 40, bias=False)
        self.register_buffer("state", self.one.weight.detach().clone())
        self.table = nn.Parameter(torch.randn(80, 40))
        self.register_buffer("part", self.table.detach()[:40])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state.mul_(1.5)
        rows = torch.cumsum(self.table, 0)[0] + torch.cumsum(self.part, 1)[1]
        return self.one(x) + self.state.sum(0) + rows


IDS = (torch.tensor([3, 1, 4]),)
ROW = (torch.linspace(-1, 1, 80).reshape(2, 40),)


def lowered(model: nn.Module, args: tuple[Any, ...], *overrides: str) -> Lowered:
    config = load_config(None, ["backends=[xnnpack]", *overrides])
    program = torch.export.export(model.eval(), args)
    made = api.lower(program, config=config)
    found = api.check(made, [args, args, args], config)
    assert found.passed, found.message
    return made


def times(made: Lowered, weight: torch.Tensor) -> int:
    """How often the bytes of a weight lie in a program and its data file."""
    raw = weight.detach().contiguous().numpy().tobytes()
    return made.buffer.count(raw) + made.weights.count(raw)


def test_a_weight_of_a_delegate_and_of_an_op(tmp_path: Path) -> None:
    model = Tied()
    made = lowered(model, IDS)
    assert times(made, model.embed.weight) == 1
    [row] = made.report().shared_constants
    assert (row.name, row.copies, row.extra_bytes) == ("embed.weight", 1, 0)
    assert "none" in made.report().text()
    assert not made.warnings
    made.save(tmp_path / "tied.pte")
    fresh = Tied().eval()
    got = api.run(tmp_path / "tied.pte", IDS).outputs[0]
    torch.testing.assert_close(got, fresh(*IDS), atol=1e-4, rtol=1e-4)


def test_equal_weights_of_two_delegates() -> None:
    model = Twins()
    made = lowered(model, ROW)
    assert times(made, model.one.weight) == 1
    [row] = made.report().shared_constants
    assert (row.name, row.same, row.copies) == ("one.weight", ("two.weight",), 1)


@pytest.mark.slow
def test_what_executorch_alone_stores_twice_is_told() -> None:
    model = Tied()
    made = lowered(model, IDS, "lowering.stock=true")
    assert times(made, model.embed.weight) == 2
    [row] = made.report().shared_constants
    assert (row.copies, row.extra_bytes) == (2, model.embed.weight.nbytes)
    [warning] = made.warnings
    assert "embed.weight 2 times (the program; d" in warning


def test_two_backends_store_two_copies_and_strict_refuses() -> None:
    model = Twins()
    made = lowered(
        model, ROW, "backends=[xnnpack,reference]",
        "policy.pin=[{name: aten_linear_default_1, backend: reference}]",
    )  # fmt: skip
    assert times(made, model.one.weight) == 2
    [warning] = made.warnings
    assert warning.startswith("6.4 kB of constants are stored more than once: one.weight 2 times")
    with pytest.raises(PolicyError, match="stored more than once"):
        require_whole(made.report(), made.warnings)


def test_initial_values_and_views_are_told() -> None:
    made = lowered(Copied(), ROW)
    twice, views = made.warnings
    assert "6.4 kB of constants are stored more than once" in twice
    assert "state 2 times" in twice or "one.weight 2 times" in twice
    assert views.startswith("table, part are views of one tensor")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with its weights beside it."""
    path = tmp_path_factory.mktemp("pair") / "tied.pte"
    made = lowered(Tied(), IDS, "lowering.external_weights=true")
    assert times(made, Tied().embed.weight) == 1
    made.save(path)
    return path


def test_a_pair_from_the_cache() -> None:
    config = load_config(None, ["backends=[xnnpack]", "lowering.external_weights=true"])
    program = torch.export.export(Twins().eval(), ROW)
    first, second = (api.lower(program, config=config) for _ in range(2))
    assert type(first.emission) is not type(second.emission)
    assert (first.buffer, first.weights) == (second.buffer, second.weights)
    assert first.weights
    assert first.report().json() == second.report().json()


def test_a_pair_of_files(pair: Path) -> None:
    weights = pair.with_suffix(".ptd")
    raw = Tied().embed.weight.detach().numpy().tobytes()
    assert raw in weights.read_bytes()
    assert raw not in pair.read_bytes()
    got = api.run(pair, IDS, weights=weights).outputs[0]
    torch.testing.assert_close(got, Tied().eval()(*IDS), atol=1e-4, rtol=1e-4)
    with pytest.raises(LoweringError, match=r"stand in a data file \(\.ptd\): give it too"):
        api.run(pair, IDS)


@pytest.mark.parametrize("keep", [0, 40, 200, -100])
def test_a_damaged_data_file(pair: Path, tmp_path: Path, keep: int) -> None:
    broken = tmp_path / "broken.ptd"
    broken.write_bytes(pair.with_suffix(".ptd").read_bytes()[:keep])
    with pytest.raises(LoweringError, match=r"broken\.ptd"):
        api.run(pair, IDS, weights=broken)


def test_a_pair_on_the_command_line(tmp_path: Path) -> None:
    source = tmp_path / "twins.py"
    source.write_text(
        "from tests.e2e.test_constants_once import ROW, Twins\n"
        "def make():\n    return Twins().eval(), ROW\n"
    )
    program, weights = tmp_path / "a.pte", tmp_path / "w.ptd"
    asked = [f"{source}:make", "-b", "xnnpack", "-o", str(program), "-q"]
    done = CliRunner().invoke(main, ["export", *asked, "--external-weights", str(weights)])
    assert done.exit_code == 0, done.output
    given = ["--external-weights", str(weights)]
    ran = CliRunner().invoke(main, ["run", str(program), *given, "--like", f"{source}:make"])
    assert ran.exit_code == 0, ran.output
    bare = CliRunner().invoke(main, ["run", str(program), "--like", f"{source}:make"])
    assert bare.exit_code == 5
    assert "--external-weights" in bare.stderr


@pytest.mark.slow
def test_a_pair_is_verified(pair: Path) -> None:
    program = torch.export.export(Tied().eval(), IDS)
    assert verify_file(pair, program, [IDS], weights=pair.with_suffix(".ptd")).passed
    other = pair.with_name("other.pte")
    lowered(Twins(), ROW, "lowering.external_weights=true").save(other)
    with pytest.raises(LoweringError, match="the data file of another program"):
        api.run(pair, IDS, weights=other.with_suffix(".ptd"))


def test_backends_with_a_runner_of_their_own_take_a_pair() -> None:
    made = lowered(
        Tied(), IDS, "backends=[reference]", "lowering.external_weights=true",
        "policy.exclude=[{op: aten.embedding}]",
    )  # fmt: skip
    assert Tied().embed.weight.detach().numpy().tobytes() in made.weights


def test_all_files_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, new = tmp_path / "a.pte", tmp_path / "a.ptd", tmp_path / "b.ptd"
    write_together({one: b"old", two: b"old"})
    replace = type(one).replace

    def full(self: Path, target: Path) -> Path:
        if target in (two, new) and self.name.startswith(".cede-"):
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(type(one), "replace", full)
    for last in (two, new):
        with pytest.raises(LoweringError, match="can't be written: No space left"):
            write_together({one: b"new", last: b"new"})
        assert one.read_bytes() == two.read_bytes() == b"old"
        assert sorted(each.name for each in tmp_path.iterdir()) == ["a.ptd", "a.pte"]
