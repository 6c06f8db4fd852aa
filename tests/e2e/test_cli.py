"""The command line on a small model, from its source to the outputs of the `.pte`."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import jsonschema
import pytest
import torch
from click.testing import CliRunner, Result
from executorch.exir import to_edge_transform_and_lower

import cede.api
from cede.cli import main
from cede.model import load_model
from cede.planning import Plan
from cede.reporting import json_schema

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 4)

    def forward(self, x):
        y = self.up(x)
        best, _ = torch.topk(torch.relu(y), 2)
        return self.down(torch.erf(y)), best, y

def make():
    torch.manual_seed(0)
    return Net(), (torch.randn(2, 64),)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "net.py"
    path.write_text(SOURCE)
    return f"{path}:make"


@pytest.fixture(scope="module")
def program(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `.pte` from `cede export`, with the plan and the reports beside it."""
    folder = tmp_path_factory.mktemp("program")
    result = cede_(
        "export", model, "-o", folder / "net.pte", "--check", "--plan-out", folder / "plan.json",
        "--report-out", folder / "report.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "\nOps\n" in result.stdout
    assert "check: 1 call(s) agree with eager" in result.stderr
    return folder / "net.pte"


def cede_(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def test_export_writes_program_plan_and_report(program: Path) -> None:
    data = json.loads((program.parent / "report.json").read_text())
    plan = Plan.from_json((program.parent / "plan.json").read_text())
    assert data["totals"]["delegates"] == len(plan.delegations) > 0
    assert data["fingerprint"] == plan.fingerprint
    assert {path.name for path in program.parent.iterdir()} == {
        "net.pte", "plan.json", "report.json",
    }  # fmt: skip


def test_the_program_gives_what_eager_gives(program: Path, model: str) -> None:
    found = load_model(model)
    assert found.module is not None
    wanted = found.module(*found.args)
    got = cede.api.run(program, found.args).outputs
    for mine, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)


def test_report_agrees_with_get_delegation_info(model: str) -> None:
    with warnings.catch_warnings():
        # its import uses a deprecated function of importlib
        warnings.simplefilter("ignore", DeprecationWarning)
        from executorch.devtools.backend_debug import get_delegation_info

    partitioner = cede.api.partitioner("xnnpack")
    edge = to_edge_transform_and_lower(load_model(model).export(), partitioner=[partitioner])
    info = get_delegation_info(edge.exported_program().graph_module)
    theirs = {
        name: (given.delegated, given.non_delegated)
        for name, given in info.delegation_by_operator.items()
    }
    report = partitioner.report()
    assert {t.op_type: (t.delegated, t.non_delegated) for t in report.by_type} == theirs
    assert report.totals.delegates == info.num_delegated_subgraphs


def test_report_in_csv_has_a_row_for_each_op_with_an_answer(model: str) -> None:
    result = cede_("report", model, "--format", "csv", "-b", "xnnpack", "-b", "reference")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert len(rows) >= 5
    assert all(row["answer:xnnpack"] and row["answer:reference"] for row in rows)
    topk = next(row for row in rows if "topk" in row["op"])
    assert topk["backend"] == "reference"
    assert topk["answer:xnnpack"].startswith("refused (")
    assert topk["source"].startswith("net.py:")


def test_reports_keep_to_the_schema_and_the_page_holds_one(
    model: str, program: Path, tmp_path: Path
) -> None:
    schema = json.loads(json_schema())
    written = json.loads((program.parent / "report.json").read_text())
    jsonschema.validate(written, schema)
    assert written["memory"]["planned"] > 0
    page = tmp_path / "report.html"
    result = cede_("report", model, "-f", "html", "-o", page, "-q")
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    text = page.read_text()
    begin = text.index('<script type="application/json" id="data">')
    data = json.loads(text[text.index("{", begin) : text.index("</script>", begin)])
    jsonschema.validate(data, schema)
    assert {"topk", "erf"} <= {row["operator"].split(".")[1] for row in data["kernels"]}
    assert {row["operator"] for row in data["ranking"]} >= {"aten.topk", "aten.erf"}
    assert data["advice"][0]["ops"]
    assert written["ops"] == data["ops"]
    assert f"<title>{model} - cede report</title>" in text


def test_plan_is_lowered_later_and_run(model: str, tmp_path: Path) -> None:
    plan, program = tmp_path / "plan.json", tmp_path / "net.pte"
    result = cede_("plan", model, "-o", plan)
    assert result.exit_code == 0, result.output
    assert "Ops left, by reason" in result.stdout
    result = cede_("lower", model, "--plan", plan, "-o", program)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{program}: ")
    result = cede_("run", program, "--like", model, "--repeat", 3)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("output 0: float32[2,4] [")
    assert "median of 3 calls" in result.stdout


def test_plan_prints_json_that_is_the_plan(model: str, program: Path) -> None:
    result = cede_("plan", model, "--format", "json")
    assert result.stdout == (program.parent / "plan.json").read_text()


def test_run_takes_inputs_from_a_file(program: Path, model: str, tmp_path: Path) -> None:
    found = load_model(model)
    torch.save(found.args, tmp_path / "inputs.pt")
    data = json.loads(
        cede_(
            "run", program, "--inputs", tmp_path / "inputs.pt", "--format", "json", "--full"
        ).stdout
    )
    assert found.module is not None
    wanted = found.module(*found.args)
    assert [given["shape"] for given in data["outputs"]] == [list(one.shape) for one in wanted]
    torch.testing.assert_close(torch.tensor(data["outputs"][0]["data"]), wanted[0])


def test_run_makes_inputs_by_itself(program: Path) -> None:
    def outputs(*args: str) -> str:
        result = cede_("run", program, *args)
        assert result.exit_code == 0, result.output
        return result.stdout[: result.stdout.index("load ")]

    assert outputs() == outputs("--ones")
    assert outputs("--random") == outputs("--random") != outputs("--ones")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--method", "backward"), "no method 'backward'"),
        (("--inputs", "no.pt"), "no.pt: no such file"),
        (("--inputs", "net.txt"), "net.txt: no tensors of torch.save"),
        (("--inputs", "small.pt"), "net.pte"),
    ],
)
def test_run_refuses_what_does_not_fit(
    program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.txt").write_text("hello")
    torch.save((torch.ones(2, 63),), tmp_path / "small.pt")
    result = cede_("run", program, *args)
    assert result.exit_code in (2, 5)
    assert result.stderr.startswith("error: ")
    assert message in result.stderr


def test_run_of_a_file_that_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "x.pte").write_bytes(b"nonsense" * 20)
    result = cede_("run", tmp_path / "x.pte")
    assert result.exit_code == 5
    assert str(tmp_path / "x.pte") in result.stderr


def test_explain_tells_all_answers(model: str) -> None:
    result = cede_("explain", model, "topk", "-b", "xnnpack", "-b", "reference")
    assert result.exit_code == 0, result.output
    assert "    xnnpack: refused (" in result.stdout
    assert "    reference: took" in result.stdout


def test_explain_of_no_op_names_the_nearest(model: str) -> None:
    result = cede_("explain", model, "aten_topk_defualt")
    assert result.exit_code == 2
    assert "did you mean aten_topk_default?" in result.stderr


def test_strict_writes_nothing_where_an_op_is_left(model: str, tmp_path: Path) -> None:
    result = cede_("export", model, "-o", tmp_path / "net.pte", "--strict")
    assert result.exit_code == 4
    assert "aten_topk_default" in result.stderr
    assert "net.py:" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_strict_is_content_with_two_backends(model: str, tmp_path: Path) -> None:
    result = cede_(
        "export", model, "-o", tmp_path / "n.pte", "-c", "two-backends", "--strict", "-q"
    )
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert (tmp_path / "n.pte").stat().st_size > 0


def test_a_check_that_fails_writes_nothing_and_names_the_delegate(
    model: str, tmp_path: Path
) -> None:
    result = cede_(
        "export", model, "-o", tmp_path / "net.pte", "--check", "check.atol=0", "check.rtol=0"
    )
    assert result.exit_code == 5, result.output
    assert "differs from eager" in result.stderr
    assert "d0" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_plan_for_another_program_is_refused(model: str, program: Path, tmp_path: Path) -> None:
    other = tmp_path / "net.py"
    other.write_text(SOURCE.replace("128", "96"))
    result = cede_(
        "lower", f"{other}:make", "--plan", program.parent / "plan.json", "-o", tmp_path / "n.pte"
    )
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert not (tmp_path / "n.pte").exists()


def test_an_unknown_backend_gets_the_nearest_name(model: str) -> None:
    result = cede_("plan", model, "-b", "xnnpak")
    assert result.exit_code == 2
    assert "did you mean" in result.stderr
    assert "xnnpack" in result.stderr


def test_a_process_prints_the_result_alone(model: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cede", "plan", model, "--format", "json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert Plan.from_json(done.stdout).delegations
    assert "Traceback" not in done.stderr
