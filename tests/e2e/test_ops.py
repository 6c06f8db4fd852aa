"""`cede ops` and `cede models`: what real backends take, and what becomes of one that fails."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from cede.cli import main
from cede.reporting.tables import as_markdown
from cede.support.records import read_support
from cede.support.show import matrix, shown

if TYPE_CHECKING:
    from click.testing import Result

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests" / "golden" / "ops" / "xnnpack.json"
HAZARDS = Path(__file__).parent / "hazards.py"


def cede_(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def cells(text: str) -> dict[str, tuple[str, str, str]]:
    return {
        row["op"]: (row["answer"], row.get("outcome", ""), row.get("detail", row.get("reason", "")))
        for row in json.loads(text)["cells"]
    }


def test_a_few_ops_are_as_stored_and_right() -> None:
    """One that is claimed, one in part, one refused, one that is not in torch, one not probed."""
    names = ("conv2d", "mul.Tensor", "rms_norm", "cumsum", "bitwise_not", "rand")
    asked: list[object] = [word for name in names for word in ("--op", name)]
    asked += ["--static", "--against", STORED, "--strict", "-f", "json"]
    done = cede_("ops", "-b", "xnnpack", *asked)
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (0, f"as in {STORED}"), done.output
    assert {name: found[:2] for name, found in cells(done.stdout).items()} == {
        "conv2d": ("claimed", "right"),
        "aten.mul.Tensor": ("claimed", "right"),
        "rms_norm": ("partly", "right"),
        "aten.cumsum.default": ("refused", ""),
        "aten.bitwise_not.default": ("not in torch", ""),
        "aten.rand.default": ("not probed", ""),
    }


def test_every_op_is_claimed_as_stored() -> None:
    asked = ["--static", "--level", "claim", "--against", STORED, "--strict"]
    done = cede_("ops", "-b", "xnnpack", *asked)
    assert done.exit_code == 0, done.output


@pytest.mark.slow
@pytest.mark.parametrize("file", ["openvino.json", "claims.json"])
def test_every_op_of_other_backends_is_claimed_as_stored(file: str) -> None:
    stored = STORED.with_name(file)
    named = [word for name in read_support(stored).levels for word in ("-b", name)]
    done = cede_("ops", *named, "--static", "--level", "claim", "--against", stored, "--strict")
    assert done.exit_code == 0, done.output


PAGES = {
    "op-support.md": ("xnnpack.json", lambda found: shown(found, "markdown")),
    "op-support-openvino.md": ("openvino.json", lambda found: shown(found, "markdown")),
    "op-claims.md": ("claims.json", lambda found: as_markdown(matrix(found)) + "\n"),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_made_from_the_stored_matrix(name: str) -> None:
    """A change that is meant is written down with CEDE_UPDATE_GOLDEN=1."""
    file, made = PAGES[name]
    page = ROOT / "docs" / name
    head, mark, _ = page.read_text().partition("<!-- made from tests/golden/ops -->\n")
    assert mark
    now = head + mark + "\n" + made(read_support(STORED.with_name(file)))
    if os.environ.get("CEDE_UPDATE_GOLDEN") == "1":
        page.write_text(now)
    told = f"{page.name} is not what {file} says; CEDE_UPDATE_GOLDEN=1 writes it anew"
    assert page.read_text() == now, told


def hazards(*names: str) -> tuple[Result, dict[str, tuple[str, str, str]]]:
    asked = [word for name in names for word in ("--op", name)]
    asked += ["-b", "hazard", "--static", "--seconds", "20", "-f", "json", "--strict"]
    done = cede_("ops", f"plugins.files=[{HAZARDS}]", *asked)
    assert done.exit_code == 4, done.output
    return done, cells(done.stdout)


def test_wrong_numbers_and_a_failed_compilation_are_told_apart() -> None:
    done, found = hazards("cos", "tan", "exp")
    assert "strict: 2 claimed and not right" in done.stderr
    assert found["aten.cos.default"][:2] == ("claimed", "wrong")
    assert "32 of 32 elements differ" in found["aten.cos.default"][2]
    assert found["aten.tan.default"][:2] == ("claimed", "not lowered")
    assert "no tangent here" in found["aten.tan.default"][2]
    assert found["aten.exp.default"][:2] == ("refused", "")


@pytest.mark.slow
def test_what_kills_or_hangs_is_a_row_of_its_own() -> None:
    """In one group with one that is only wrong."""
    done, found = hazards("cos", "sinh", "cosh", "erf")
    assert "strict: 3 claimed and not right" in done.stderr
    assert found["aten.cos.default"][:2] == ("claimed", "wrong")
    assert found["aten.sinh.default"][:2] == ("claimed", "crashed")
    assert found["aten.sinh.default"][2].startswith("SIGSEGV")
    assert found["aten.cosh.default"][:2] == ("claimed", "timed out")
    assert found["aten.erf.default"][:2] == ("failed", "")
    assert found["aten.erf.default"][2].startswith("the process died: SIGKILL")


MODELS = """
import torch

def right():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), (torch.ones(2, 4),)

class Cosine(torch.nn.Module):
    def forward(self, x):
        return torch.cos(x)

def wrong():
    return Cosine(), (torch.ones(2, 4),)
"""


def test_models_against_backends(tmp_path: Path) -> None:
    (tmp_path / "few.py").write_text(MODELS)
    plugin = f"plugins.files=[{HAZARDS}]"
    specs = [f"{tmp_path / 'few.py'}:{name}" for name in ("right", "wrong", "missing")]
    named = ["-b", "xnnpack", "-b", "hazard", "-f", "json", "--strict"]
    done = cede_("models", *specs, plugin, *named)
    assert done.exit_code == 4, done.output
    rows: dict[tuple[str, str], dict[str, Any]] = {
        (row["model"].rpartition(":")[2], row["backend"]): row
        for row in json.loads(done.stdout)["rows"]
    }
    first = rows["right", "xnnpack"]
    assert (first["ops"], first["delegated"], first["delegates"]) == (2, 2, 1)
    assert first["outcome"] == "right"
    assert first["error"] < 1e-5
    assert rows["wrong", "hazard"]["outcome"] == "wrong"
    assert rows["wrong", "hazard"]["error"] == pytest.approx(0.5)
    assert "has no function missing" in rows["missing", "xnnpack"]["detail"]


def test_a_backend_that_can_do_nothing_here_says_why() -> None:
    done = cede_("ops", "-b", "enn", "--op", "add")
    assert done.exit_code == 0
    assert "not at all" in done.stdout
    assert "Exynos" in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["ops", "--op", "nothing"], "no op matches 'nothing'"),
        (["ops", "-b", "nobody"], "nobody"),
        (["ops", "--against", "nowhere.json"], "nowhere.json: can't be read"),
        (["models", "a=b"], "give at least one MODEL"),
        (["models", "nowhere.py:make"], "nowhere.py: no such file"),
        (["models", "nowhere.pt2"], "nowhere.pt2: no such file"),
        (["models", "nothing"], "nothing: no model; give"),
    ],
)
def test_what_can_t_be_used_is_told_before_anything_is_probed(
    args: list[str], message: str
) -> None:
    done = cede_(*args)
    assert done.exit_code == 2
    assert message in done.stderr
