"""A broken plugin is listed with its reason, and takes nothing else down."""

from __future__ import annotations

import sys

import pytest

from cede.errors import ConfigError, PluginError

HOOK = "import cede\n\n@cede.hookimpl\ndef cede_backends({parameters}):\n    {body}\n"
CLASS = """
import cede

class P:
    name = backend = "p"
    keeps = claim = lambda *given: ()

@cede.hookimpl
def cede_partitioners():
    yield P
"""


def hook(body: str, parameters: str = "") -> str:
    return HOOK.format(body=body, parameters=parameters)


BROKEN = {
    "missing-sdk": ("import vendor_sdk", "import", "No module named 'vendor_sdk'"),
    "syntax": ("def (:", "import", "SyntaxError"),
    "exits": ("import sys\nsys.exit('unsupported CPU')", "import", "sys.exit('unsupported CPU')"),
    "own-base-exception": (
        "class Odd(BaseException):\n    def __str__(self): 1 / 0\nraise Odd",
        "import",
        "Odd",
    ),
    "hangs-on-import": ("while True: pass", "import", "took longer than 0.5 s (plugins.seconds)"),
    "sleeps-on-import": ("import time\ntime.sleep(60)", "import", "took longer than 0.5 s"),
    "swallows-the-interrupt": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: break\n",
        "import",
        "took longer than 0.5 s",
    ),
    "wrong-signature": (hook("return []", "no_such_arg"), "register", "no_such_arg"),
    "misspelt-hook": (
        "import cede\n@cede.hookimpl\ndef cede_backend(): return []",
        "register",
        "no hook is named cede_backend: did you mean cede_backends?",
    ),
    "no-hook": ("import cede\ndef cede_backends(): return []", "register", "@cede.hookimpl"),
    "wrapper": (
        "import cede\n@cede.hookimpl(wrapper=True)\ndef cede_backends():\n    return (yield)",
        "register",
        "cede_backends is a wrapper",
    ),
    "hook-raises": (hook("raise RuntimeError('no licence')"), "cede_backends", "no licence"),
    "hook-raises-late": (
        hook("yield cede.Backend(name='late', delegate_id='D'); raise RuntimeError('too late')"),
        "cede_backends",
        "too late",
    ),
    "hook-exits": (hook("raise SystemExit(3)"), "cede_backends", "called sys.exit(3)"),
    "hook-hangs": (hook("import time; time.sleep(60)"), "cede_backends", "took longer than 0.5 s"),
    "hook-yields-forever": (
        hook("while True: yield cede.Backend(name='x', delegate_id='D')"),
        "cede_backends",
        "two backends are named 'x'",
    ),
    "returns-nothing": (hook("pass"), "cede_backends", "returned NoneType, not an iterable"),
    "wrong-record": (hook("yield 'npu'"), "cede_backends", "'npu' is no cede.Backend"),
    "bad-name": (
        hook("yield cede.Backend(name='N P U', delegate_id='D')"),
        "cede_backends",
        "named 'N P U'",
    ),
    "no-delegate-id": (
        hook("yield cede.Backend(name='npu', delegate_id='')"),
        "cede_backends",
        "delegate_id is ''",
    ),
    "bad-options": (
        hook("yield cede.Backend(name='npu', delegate_id='D', options=dict)"),
        "cede_backends",
        "options is no dataclass",
    ),
    "partitioner-class": (
        CLASS,
        "cede_partitioners",
        "P is a class, not a partitioner",
    ),
    "half-a-partitioner": (
        "import cede\n@cede.hookimpl\ndef cede_partitioners(): yield cede.Keep()",
        "cede_partitioners",
        "it has no name, backend, keeps, claim",
    ),
    "nameless-quantizer": (
        "import cede\n@cede.hookimpl\ndef cede_quantizers(): yield object()",
        "cede_quantizers",
        "it has no name",
    ),
    "nameless-encoding": (
        "import cede\n@cede.hookimpl\ndef cede_encodings(): yield object()",
        "cede_encodings",
        "it has no name",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_is_listed_and_the_others_load(site, case):
    source, stage, reason = BROKEN[case]
    site.plugin(f"plug-{case}", source, point="broken", version="2.5")
    site.backend("a-good-one", "early")
    site.backend("z-good-one", "late-good")

    host = site.load(seconds=0.5)

    [failure] = host.failures
    assert (failure.plugin, failure.distribution, failure.version) == (
        "broken",
        f"plug-{case}",
        "2.5",
    )
    assert failure.stage == stage
    assert reason in failure.reason
    assert failure.trace
    assert {"early", "late-good"} <= set(host.backends)
    assert "broken" not in [plugin.name for plugin in host.plugins]
    assert not {"late", "x", "npu"} & set(host.backends)


def test_the_trace_starts_in_the_plugin(site):
    site.plugin("plug-deep", "def inner():\n    raise RuntimeError('deep')\n\ninner()\n")
    [failure] = site.load().failures
    assert "plug_deep.py" in failure.trace.splitlines()[1]
    assert "line 2, in inner" in failure.trace
    assert "importlib" not in failure.trace


def test_a_failed_import_leaves_no_module_behind(site):
    package = site.folder / "half"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("import site_wide\n")
    (package / "plugin.py").write_text("import half.helper\nraise RuntimeError('no')\n")
    (site.folder / "site_wide.py").write_text("")
    site.plugin("plug-half", "from half import plugin\n")
    points = site.folder / "plug_half-1.0.dist-info" / "entry_points.txt"
    points.write_text("[cede]\nhalf = half.plugin\n")

    assert [failure.plugin for failure in site.load().failures] == ["half"]
    assert not [name for name in sys.modules if name.partition(".")[0] == "half"]
    assert "site_wide" in sys.modules  # another package's module may not survive a second import

    (package / "plugin.py").write_text(
        "import half.helper, cede\n@cede.hookimpl\ndef cede_encodings(): return []\n"
    )
    assert site.load().failures == ()


def test_one_point_of_a_distribution_fails_the_other_loads(site):
    site.backend("two-points", "npu")
    site.file("two_points_bad.py", "1 / 0\n")
    points = site.folder / "two_points-1.0.dist-info" / "entry_points.txt"
    points.write_text("[cede]\nbad = two_points_bad\ngood = two_points\n")
    host = site.load()
    assert [failure.plugin for failure in host.failures] == ["bad"]
    assert "npu" in host.backends


def test_malformed_metadata_is_a_failure_of_that_distribution(site):
    site.backend("a-good-one", "npu")
    site.plugin("garbled", "")
    points = site.folder / "garbled-1.0.dist-info" / "entry_points.txt"
    points.write_text("[cede]\nno equals sign\n")
    host = site.load()
    assert [(f.distribution, f.stage) for f in host.failures] == [("garbled", "find")]
    assert "npu" in host.backends


def test_keyboard_interrupt_is_the_users(site):
    site.plugin("plug-stop", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        site.load()


def test_strict_makes_any_failure_fatal_and_names_all(site):
    site.plugin("plug-one", "import vendor_sdk\n", version="1.1")
    site.plugin("plug-two", "1 / 0\n", version="2.2")
    with pytest.raises(PluginError) as caught:
        site.load(strict=True)
    text = str(caught.value)
    assert "plugin 'plug_one' (plug-one 1.1) failed (import): ModuleNotFoundError" in text
    assert "plugin 'plug_two' (plug-two 2.2) failed (import): ZeroDivisionError" in text
    assert "plugins.strict" in text


def test_a_file_that_the_config_names_is_fatal(site):
    site.file("mine.py", "raise RuntimeError('not today')\n")
    with pytest.raises(PluginError) as caught:
        site.load(files=["mine.py"])
    text = str(caught.value)
    assert "plugin 'mine.py' (mine.py local) failed (import): RuntimeError: not today" in text
    assert "line 1" in text
    assert "plugins.files" in text


@pytest.mark.parametrize(("distribution", "point"), [("acme", "npu"), ("cede-npu", "plugin")])
def test_asking_for_what_a_failed_plugin_would_bring_shows_its_trace(site, distribution, point):
    site.plugin(distribution, "import vendor_sdk\n", point=point, version="0.9")
    host = site.load()
    with pytest.raises(PluginError) as caught:
        host.backend("npu")
    text = str(caught.value)
    assert f"plugin {point!r} ({distribution} 0.9) failed" in text
    assert "Traceback" in text
    assert "import vendor_sdk" in text


def test_asking_for_a_record_that_was_rolled_back_says_why(site):
    source = "yield cede.Backend(name='npu', delegate_id='D'); yield 7"
    site.plugin("acme", hook(source), point="acme")
    with pytest.raises(PluginError, match=r"7 is no cede\.Backend"):
        site.load().backend("npu")


def test_an_unknown_name_lists_failed_plugins_as_suspects(site):
    site.plugin("acme", "import vendor_sdk\n")
    site.backend("other", "gpu-one")
    with pytest.raises(ConfigError) as caught:
        site.load().backend("gpu-onne")
    text = str(caught.value)
    assert "did you mean gpu-one?" in text
    assert "plugin 'acme' (acme 1.0) failed (import): ModuleNotFoundError" in text
