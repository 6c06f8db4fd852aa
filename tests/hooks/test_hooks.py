"""Each hook by the example that its page gives, and the page by the hooks there are."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import cede.hookspec
from cede.planning import Plan
from cede.types import Claim, Contest, Delegation, Finding, Op, OpGraph, Settlement

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")
HOOKS = {
    name: function
    for name, function in vars(cede.hookspec).items()
    if name.startswith("cede_") and inspect.isfunction(function)
}
PLAN = Plan(fingerprint="0")
GRAPH = OpGraph(ops=(Op(id="a", target="t"), Op(id="b", target="t", inputs=("a",))))
CLAIM = Claim(partitioner="p", backend="npu", ops=frozenset({"a", "b"}))
CONTEST = Contest(graph=GRAPH, claims=(CLAIM,), order=("p",), mode="nothing")
EMPTY = Contest(graph=OpGraph(), claims=(), order=())
RAISES = (
    "import cede\n@cede.hookimpl\ndef {hook}({parameters}):\n    raise RuntimeError('no luck')\n"
)


def example(hook: str) -> str:
    section = PAGE.split(f"\n## {hook}(", 1)[1].split("\n## ", 1)[0]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


def heading(hook: str) -> str:
    return f"## {hook}({', '.join(inspect.signature(HOOKS[hook]).parameters)})"


@pytest.fixture
def host(site, request):
    """A host with the example of the hook that the test is named after."""
    hook = request.node.name.removeprefix("test_hook_")
    site.plugin("cede-npu", example(hook), point="npu", version="3.1")
    host = site.load(strict=True)
    assert [p.hooks for p in host.plugins if p.name == "npu"] == [(hook,)]
    return host


@pytest.fixture
def failing(site):
    """Makes a host with a plugin whose hook raises, and one after it that works."""

    def make(hook: str, parameters: str, after: str = ""):
        source = RAISES.format(hook=hook, parameters=parameters)
        site.plugin("a-broken", source, point="broken", version="0.9")
        site.plugin("cede-npu", after or example(hook), point="npu")
        return site.load()

    return make


def test_hook_cede_backends(host):
    assert host.backends["npu"].delegate_id == "NpuBackend"
    assert host.backend("npu").available().run == "there is no NPU in this machine"


def test_hook_cede_partitioners(host):
    assert host.partitioners["npu-softmax"].backend == "npu"
    assert host.source("partitioner", "npu-softmax").distribution == "cede-npu"


def test_hook_cede_quantizers(host):
    assert host.quantizers["npu-int8"].name == "npu-int8"


def test_hook_cede_encodings(host):
    assert host.encodings["ternary"].name == "ternary"


def test_hook_cede_settle(host):
    settled, warnings = host.settle(CONTEST)
    assert settled.delegations == ()
    assert [(loss.partitioner, loss.op) for loss in settled.losses] == [("p", "a"), ("p", "b")]
    assert warnings == ("plugin 'npu' (cede-npu 3.1) settled this plan, not cede",)


def test_hook_cede_review(host):
    few = Plan(fingerprint="0")
    given = Delegation(id="d", backend="npu", parts=())
    many = Plan(fingerprint="0", delegations=(given,) * 9)
    assert host.review(few, OpGraph()) == ()
    [finding] = host.review(many, OpGraph())
    assert finding.severity == "warning"
    assert "more than 8 delegates" in finding.message


def test_hook_cede_lowered(host, capsys):
    assert host.lowered(PLAN, object()) == ()
    assert capsys.readouterr().out == "0 delegates lowered\n"


def test_hook_cede_commands(host):
    cli = click.Group("cede")
    host.commands(cli)
    assert CliRunner().invoke(cli, ["npu-info"]).output == "one NPU, 4 TOPS\n"


def test_every_hook_has_a_test():
    tested = {
        node.name
        for node in ast.parse(Path(__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert HOOKS
    assert {f"test_hook_{name}" for name in HOOKS} <= tested


def test_every_hook_has_its_heading_and_no_other_has():
    headings = [line for line in PAGE.splitlines() if line.startswith("## ")]
    assert sorted(headings) == sorted(heading(hook) for hook in HOOKS)


def test_settling_passes_over_what_fails_or_answers_none(failing):
    host = failing("cede_settle", "contest")
    settled, warnings = host.settle(EMPTY)
    assert settled == Settlement(delegations=())
    [warning] = warnings
    assert "plugin 'broken' (a-broken 0.9)" in warning
    assert "no luck" in warning


def test_settling_passes_over_an_answer_of_another_type(site):
    source = "import cede\n@cede.hookimpl\ndef cede_settle(): return 'mine'\n"
    site.plugin("cede-npu", source)
    settled, [warning] = site.load().settle(EMPTY)
    assert isinstance(settled, Settlement)
    assert "it returned str, not a Settlement" in warning


IMPOSSIBLE = {
    "an op of no claim": ("given(('a', 'b', 'c'))", "p did not claim c for npu"),
    "an unknown op": ("given(('a', 'b', 'x'))", "names 'x', which is no op of this graph"),
    "another backend": ("given(('a', 'b'), 'gpu')", "p did not claim a for gpu"),
    "an op left out": ("given(('a',))", "b, claimed by p for npu, is in no delegation and no loss"),
    "an op twice": ("given(('a', 'b', 'a'))", "names a twice"),
    "given and lost": ("given(('a', 'b'), lost='b')", "b is given to p for npu and lost by it too"),
    "no tuple": ("cede.Settlement(delegations=7)", "TypeError"),
}
GIVING = """
import cede
from cede.types import Delegation, Loss, Part

def given(ops, backend="npu", lost=""):
    part = Part(partitioner="p", ops=ops)
    why = cede.Reason(code=cede.Code.POLICY, detail="")
    losses = [Loss(partitioner="p", backend=backend, op=op, reason=why) for op in lost]
    delegations = (Delegation(id="d0", backend=backend, parts=(part,)),)
    return cede.Settlement(delegations=delegations, losses=tuple(losses))

@cede.hookimpl
def cede_settle(contest):
    return {answer}
"""


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_settling_passes_over_an_impossible_answer(site, case):
    answer, message = IMPOSSIBLE[case]
    site.plugin("cede-npu", GIVING.replace("{answer}", answer), version="3.1")
    ops = (*GRAPH.ops, Op(id="c", target="t", inputs=("b",)))
    contest = Contest(graph=OpGraph(ops=ops), claims=(CLAIM,), order=("p",))
    settled, [warning] = site.load().settle(contest)
    assert warning.startswith("plugin 'cede_npu' (cede-npu 3.1): cede_settle is passed over: ")
    assert message in warning
    [delegation] = settled.delegations
    assert delegation.ops == ("a", "b")


def test_a_valid_answer_stands(site):
    site.plugin("cede-npu", GIVING.replace("{answer}", "given(('a', 'b'))"))
    settled, [warning] = site.load().settle(CONTEST)
    assert settled.delegations[0].ops == ("a", "b")
    assert "settled this plan" in warning


def test_a_local_file_settles_before_installed_distributions(site):
    source = (
        "import cede\n@cede.hookimpl\ndef cede_settle(): return cede.Settlement(delegations=())\n"
    )
    site.plugin("a-first", source)
    site.file("mine.py", source)
    _, warnings = site.load(files=["mine.py"]).settle(EMPTY)
    assert warnings == ("plugin 'mine.py' (mine.py local) settled this plan, not cede",)


@pytest.mark.parametrize(
    ("source", "kept", "message"),
    [
        ("raise RuntimeError('no luck')", 0, "no luck"),
        ("raise SystemExit('no luck')", 0, "no luck"),
        ("yield cede.Finding(severity='note', message='seen'); 1 / 0", 1, "ZeroDivisionError"),
        ("yield 'a sentence'", 0, "str, not a Finding"),
        ("yield cede.Finding(severity='fatal', message='x')", 0, "severity 'fatal'"),
        ("return 7", 0, "TypeError"),
    ],
)
def test_a_review_that_fails_is_a_finding_and_the_others_stand(site, source, kept, message):
    head = "import cede\n@cede.hookimpl\ndef cede_review(plan):\n    "
    site.plugin("a-broken", f"{head}{source}\n", version="0.9")
    site.plugin("b-good", f"{head}yield cede.Finding(severity='error', message='stop')\n")
    findings = site.load().review(PLAN, OpGraph())
    *before, failed, last = findings
    assert len(before) == kept
    assert failed.severity == "warning"
    assert failed.message.startswith("plugin 'a_broken' (a-broken 0.9): cede_review failed: ")
    assert message in failed.message
    assert last == Finding(severity="error", message="stop")


def test_a_review_without_findings_is_empty(site):
    site.plugin("b-good", "import cede\n@cede.hookimpl\ndef cede_review(): return None\n")
    assert site.load().review(PLAN, OpGraph()) == ()


def test_an_observer_of_lowering_that_fails_is_a_finding(failing, capsys):
    [finding] = failing("cede_lowered", "plan, program").lowered(PLAN, object())
    assert finding.severity == "warning"
    assert "plugin 'broken' (a-broken 0.9): cede_lowered failed: RuntimeError" in finding.message
    assert capsys.readouterr().out == "0 delegates lowered\n"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("cli.command('half')(print); 1 / 0", "ZeroDivisionError"),
        ("cli.command('half')(print); raise SystemExit(2)", "sys.exit(2)"),
        ("cli.command('half')(print); cli.command('plan')(print)", "replaces the command plan"),
        ("cli.commands.clear()", "replaces the command plan"),
    ],
)
def test_commands_of_a_plugin_that_misbehaves_are_undone(site, body, why, capsys):
    head = "import cede\n@cede.hookimpl\ndef cede_commands(cli):\n    "
    site.plugin("a-broken", f"{head}{body}\n", version="0.9")
    site.plugin("b-good", f"{head}cli.command('good')(print)\n")
    cli = click.Group("cede")
    plan = cli.command("plan")(print)
    site.load().commands(cli)
    assert sorted(cli.commands) == ["good", "plan"]
    assert cli.commands["plan"] is plan
    told = capsys.readouterr().err
    assert "warning: plugin 'a_broken' (a-broken 0.9): its commands are left out:" in told
    assert why in told


HANGS = "import cede\n@cede.hookimpl\ndef {hook}():\n    while True: pass\n"
LATE = "took longer than 0.3 s"


def test_a_plugin_that_hangs_in_settling_is_passed_over(site):
    site.plugin("a-broken", HANGS.format(hook="cede_settle"))
    host = site.load(patience=0.3)
    settled, [warning] = host.settle(EMPTY)
    assert isinstance(settled, Settlement)
    assert LATE in warning


def test_a_plugin_that_hangs_in_observing_is_a_finding(site):
    site.plugin("a-broken", HANGS.format(hook="cede_review"))
    site.plugin("b-broken", HANGS.format(hook="cede_lowered"))
    host = site.load(patience=0.3)
    findings = [*host.review(PLAN, OpGraph()), *host.lowered(PLAN, object())]
    assert [LATE in finding.message for finding in findings] == [True, True]


def test_a_plugin_that_hangs_in_adding_commands_adds_none(site, capsys):
    site.plugin("a-broken", HANGS.format(hook="cede_commands"))
    site.load(seconds=0.3).commands(click.Group("cede"))
    assert LATE in capsys.readouterr().err
