"""The command line without torch: help, exit codes, messages, plugins."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import cede.host
from cede.cli import main
from cede.cli.app import CommandLine
from cede.cli.options import writable
from cede.cli.steps import Steps
from cede.errors import ConfigError, LoweringError, PluginError, PolicyError

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = [
    "plan", "lower", "export", "report", "explain", "whatif", "diff", "gate", "run", "verify",
    "bisect", "bench",
    "quantize", "export-llm", "chat", "calibrate", "cache", "ops", "models", "sweep", "plugins",
    "doctor", "new-plugin",
]  # fmt: skip


def cede_(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.mark.parametrize(
    "args", [["--help"], ["--version"], ["plugins"], ["doctor"], ["export", "--help"]]
)
def test_torch_is_not_imported_before_it_is_needed(args: list[str]) -> None:
    code = (
        "import sys\n"
        "from cede.cli import main\n"
        f"try: main({args!r})\n"
        "except SystemExit as done: assert not done.code, done.code\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_python_dash_m() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cede", "plan", "nothing"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: nothing: no model; give package.module:function, file.py:function or a .pt2 file\n"
    )


def test_help_lists_the_commands_in_order_of_use() -> None:
    commands = cede_("--help").stdout.split("Commands:")[1]
    listed = re.findall(r"^  ([\w-]+)  ", commands, re.MULTILINE)
    assert listed == COMMANDS


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError, 2), (PluginError, 3), (PolicyError, 4), (LoweringError, 5)],
)
def test_errors_become_a_message_and_an_exit_code(error: type[Exception], code: int) -> None:
    result = invoke_raising(error("what\nand why"))
    assert result.exit_code == code
    assert (result.stdout, result.stderr) == ("", "error: what\nand why\n")


def invoke_raising(error: BaseException) -> Result:
    @click.command()
    def fail() -> None:
        raise error

    return CliRunner().invoke(CommandLine(commands=[fail]), ["fail"])


def test_an_interrupt_exits_130() -> None:
    assert invoke_raising(KeyboardInterrupt()).exit_code == 130


def test_a_fault_of_ours_is_one_message_without_traceback() -> None:
    result = invoke_raising(ZeroDivisionError("oh"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: unexpected ZeroDivisionError: oh\n")
    assert "CEDE_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_gives_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEDE_DEBUG", "1")
    assert isinstance(invoke_raising(ConfigError("what")).exception, ConfigError)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["report", "m.py:f", "-c", "defualt"], "defualt: neither a file nor a ready config;"),
        (["report", "m.py:f", "bakends=[a]"], "override: bakends: unknown key; did you mean"),
        (["report", "m.py:f", "-b", "a", "backends=[b]"], "give either --backend or backends="),
        (["plan", "m.py:f", "-o", "no/where.json"], "no/where.json: the folder no does not exist"),
        (["export", "m.py:f", "-o", "."], ".: is a folder; give a file to write"),
        (["export", "m.py:f", "-o", "a.pte", "--report-out", "a.xls"], "a.xls: end it with one of"),
        (
            ["lower", "m.py:f", "-o", "a.pte", "--plan", "no.json"],
            "no.json: can't be read: No such",
        ),
        (
            ["export", "m.py:f", "-o", "q", "--plan-out", "q"],
            "q: two outputs to one file; give each a file of its own",
        ),
        (
            ["export", "m.py:f", "-o", "a", "--report-out", "b.md", "--plan-out", "../{}/b.md"],
            "b.md and ../{}/b.md: two outputs to one file",
        ),
        (["run", "a.pte", "--ones", "--random"], "give one of --inputs, --like, --ones and"),
        (["report", "m.py:f"], "m.py: no such file"),
    ],
)
def test_bad_requests_exit_2_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cede_(*(arg.replace("{}", tmp_path.name) for arg in args))
    assert result.exit_code == 2, result.output
    wanted = f"error: {message.replace('{}', tmp_path.name)}"
    assert result.stderr.startswith(wanted), result.stderr
    assert list(tmp_path.iterdir()) == []


def test_usage_errors_exit_2() -> None:
    assert cede_("lower", "m.py:f").exit_code == 2
    assert cede_("nonsense").exit_code == 2


def test_a_plan_that_is_no_json_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    result = cede_("lower", "m.py:f", "--plan", tmp_path / "plan.json", "-o", tmp_path / "a.pte")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path / 'plan.json'}: not JSON (line 1, column 2")


def test_writable_says_nothing_of_a_file_that_can_be_written(tmp_path: Path) -> None:
    writable(None, tmp_path / "new.json")


def test_outputs_that_are_one_file_by_a_link_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(ConfigError, match=r"link and .*a: two outputs to one file"):
        writable(tmp_path / "a", tmp_path / "link")
    (tmp_path / "astray").symlink_to(tmp_path / "no" / "a")
    with pytest.raises(ConfigError, match=r"astray: links to .*, whose folder does not exist"):
        writable(tmp_path / "astray")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ConfigError, match="loop: a loop of links"):
        writable(tmp_path / "loop")


def test_outputs_may_all_go_to_a_device() -> None:
    writable(Path(os.devnull), Path(os.devnull))


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    """A plan for the backend reference that has no op."""
    from cede.planning import Plan
    from cede.planning.plan import Source

    path = tmp_path / "plan.json"
    source = Source(name="reference", distribution="cede", version="1")
    Plan(fingerprint="f", backends=(source,)).save(path)
    return path


@pytest.mark.parametrize("how", ["-b", "backends", "-c"])
def test_lower_refuses_backends_that_are_not_the_plan_s(
    plan_file: Path, tmp_path: Path, how: str
) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("backends: [xnnpack]\n")
    asked = {"-b": ["-b", "xnnpack"], "-c": ["-c", config], "backends": ["backends=[xnnpack]"]}[how]
    result = cede_("lower", "m.py:f", "--plan", plan_file, *asked, "-o", tmp_path / "a.pte")
    origin = config if how == "-c" else "override"
    assert result.exit_code == 2
    assert result.stderr == (
        f"error: {plan_file}: the plan is for backends [reference], but {origin} asks for"
        " [xnnpack]; leave backends out, or make a new plan\n"
    )


@pytest.mark.parametrize("asked", [[], ["-b", "reference"], ["strict=true"]])
def test_lower_takes_a_plan_s_own_backends(
    plan_file: Path, tmp_path: Path, asked: list[str]
) -> None:
    model = tmp_path / "m.py"
    result = cede_("lower", f"{model}:f", "--plan", plan_file, *asked, "-o", tmp_path / "a.pte")
    assert result.stderr == f"error: {model}: no such file\n"


def test_plugins_lists_records_and_what_works_here() -> None:
    result = cede_("plugins")
    assert result.exit_code == 0
    for title in ("Plugins", "Records", "Backends"):
        assert f"{title}\n" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines()]
    assert any(row[:2] == ["backend", "reference"] for row in rows)


def test_plugins_as_json_and_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "plugins.json"
    result = cede_("plugins", "--format", "json", "-o", file)
    assert (result.exit_code, result.stdout) == (0, "")
    data = json.loads(file.read_text())
    assert data["schema"] == 1
    reference = next(one for one in data["backends"] if one["name"] == "reference")
    assert set(reference) == {"name", "id", "claim", "lower", "run"}


def test_plugins_verbose_lists_options() -> None:
    assert "Options\n" not in cede_("plugins").stdout
    shown = cede_("plugins", "-v").stdout
    assert re.search(r"^options\.\w+\.\w+ ", shown, re.MULTILINE)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution whose plugin raises when it is imported."""
    info = tmp_path / "cede_broken-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cede-broken\nVersion: 2.1\n")
    (info / "entry_points.txt").write_text("[cede]\nbroken = cede_broken\n")
    (tmp_path / "cede_broken.py").write_text("raise OSError('no such SDK')\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("broken")
def test_plugins_lists_one_that_failed_with_its_reason() -> None:
    result = cede_("plugins")
    assert result.exit_code == 0
    failed = result.stdout[result.stdout.index("Failed\n") :]
    assert "cede-broken" in failed
    assert "2.1" in failed
    assert "no such SDK" in failed
    assert "Traceback" not in failed
    assert 'cede_broken.py", line 1' in cede_("plugins", "-v").stdout
    assert "## Failed" in cede_("plugins", "--format", "markdown").stdout


@pytest.mark.usefixtures("broken")
def test_plugins_strict_exits_3_where_one_failed() -> None:
    result = cede_("plugins", "--strict")
    assert result.exit_code == 3
    assert "no such SDK" in result.stderr


def test_plugins_strict_is_content_where_none_failed() -> None:
    assert cede_("plugins", "--strict").exit_code == 0


def test_a_plugin_s_command_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def extra() -> None:
        click.echo("hello")

    class Stub:
        def commands(self, cli: click.Group) -> None:
            cli.add_command(extra)

    monkeypatch.setattr(cede.host.Host, "load", lambda *_: Stub())
    group = CommandLine(commands=[])
    assert CliRunner().invoke(group, ["extra"]).stdout == "hello\n"
    assert "extra" in CliRunner().invoke(CommandLine(commands=[]), ["--help"]).stdout


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_no_progress_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with Steps(1, quiet) as steps, steps.step("export"):
        pass
    assert stream.getvalue() == ""


def test_progress_names_the_step_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Steps(2, False) as steps:
        with steps.step("export"):
            pass
        with steps.step("lower"):
            pass
    assert "export" in stream.getvalue()
    assert "lower" in stream.getvalue()


def test_what_libraries_print_stays_out_of_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    with Steps(1, False) as steps, steps.step("export"):
        print("chatter")
    assert capsys.readouterr() == ("", "chatter\n")


def help_of(*command: str) -> str:
    return (
        CliRunner().invoke(main, [*command, "--help"], prog_name="cede", terminal_width=100).stdout
    )


def test_the_page_shows_each_command_s_help() -> None:
    page = (DOCS / "cli.md").read_text()
    assert f"```text\n{help_of()}```" in page
    for command in COMMANDS:
        assert f"## cede {command}\n" in page
        assert f"```text\n{help_of(command)}```" in page, f"run: COLUMNS=100 cede {command} --help"


RICH = "from cede.cli.options import rich; print(rich())"


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals there")
@pytest.mark.parametrize(
    ("more", "wanted"), [({}, b"True"), ({"NO_COLOR": "1"}, b"False"), ({"TERM": "dumb"}, b"False")]
)
def test_a_terminal_gets_colour_unless_it_says_no(more: dict[str, str], wanted: bytes) -> None:
    import pty

    clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    main_end, end = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-c", RICH], stdout=end, env={**clean, "TERM": "xterm", **more},
            check=True,
        )  # fmt: skip
        assert os.read(main_end, 100).strip() == wanted
    finally:
        os.close(main_end)
        os.close(end)
    piped = subprocess.run([sys.executable, "-c", RICH], capture_output=True, check=True)
    assert piped.stdout.strip() == b"False"


def test_the_page_names_every_exit_code() -> None:
    page = (DOCS / "cli.md").read_text()
    for code in (0, 1, 2, 3, 4, 5, 130):
        assert f"| {code} |" in page


def test_environment_is_left_alone() -> None:
    assert "CEDE_DEBUG" not in os.environ
