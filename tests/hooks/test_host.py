"""What the host loads, in which order, and how it is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cede.config import Config
from cede.errors import ConfigError, PluginError
from cede.host import Host

ROOT = Path(__file__).parents[2]


def names(host: Host, backend: str) -> list[str]:
    return [one.name for one in host.partitioners_for(Config(backends=[backend]))]


def test_every_plugin_module_of_the_tree_is_loaded(site):
    folders = [ROOT / name for name in ("backends", "partitioners", "quant")]
    modules = sorted(
        ".".join(path.relative_to(ROOT).parent.parts)
        for folder in folders
        for path in folder.rglob("plugin.py")
    )
    host = site.load()
    built_in = [plugin.name for plugin in host.plugins if plugin.distribution == "cede"]
    assert modules
    assert built_in == modules
    assert host.failures == ()


def test_an_installed_plugin_is_loaded_with_its_provenance(site):
    site.backend("cede-npu", "npu", point="npu", version="3.1")
    host = site.load()
    [plugin] = [plugin for plugin in host.plugins if plugin.name == "npu"]
    assert (plugin.distribution, plugin.version, plugin.hooks) == (
        "cede-npu",
        "3.1",
        ("cede_backends",),
    )
    assert host.backends["npu"].name == "npu"
    source = host.source("backend", "npu")
    assert (source.name, source.distribution, source.version) == ("npu", "cede-npu", "3.1")


def test_the_demo_distribution_is_loaded(demo_plugin, monkeypatch):
    monkeypatch.syspath_prepend(str(demo_plugin))
    host = Host.load()
    assert host.partitioner("demo").backend == "reference"
    assert host.source("partitioner", "demo").version == "1.2.3"


def test_plugins_are_ordered_by_distribution_and_name(site):
    for distribution in ("zebra", "Ant", "mole"):
        site.backend(distribution, distribution.lower())
    found = [p.distribution for p in site.load().plugins if p.distribution != "cede"]
    assert found == ["Ant", "mole", "zebra"]


def test_one_distribution_on_the_path_twice_counts_once(site, tmp_path, monkeypatch):
    site.backend("cede-npu", "npu", version="2.0")
    second = tmp_path / "behind"
    info = second / "Cede_NPU-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Cede.NPU\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cede]\ncede_npu = cede_npu\n")
    monkeypatch.setattr("sys.path", [str(site.folder), *sys.path, str(second)])
    host = site.load()
    assert [p.version for p in host.plugins if p.name == "cede_npu"] == ["2.0"]
    assert host.conflicts == ()


def test_two_hosts_are_independent(site):
    before = site.load()
    site.backend("cede-npu", "npu")
    after = site.load()
    assert "npu" not in before.backends
    assert "npu" in after.backends


def test_a_host_can_not_be_changed(site):
    host = site.load()
    with pytest.raises(AttributeError):
        host.plugins = ()
    with pytest.raises(TypeError):
        host.backends["npu"] = None


def test_a_local_file_is_relative_to_the_base(site):
    (site.folder / "sub").mkdir()
    site.file("sub/mine.py", "import cede\n@cede.hookimpl\ndef cede_encodings(): return []\n")
    host = site.load(files=["sub/mine.py", "./sub/mine.py"])
    assert [(p.name, p.version) for p in host.plugins if p.version == "local"] == [
        ("sub/mine.py", "local")
    ]


def test_a_local_file_is_shown_relative_to_the_base(site):
    path = site.file("mine.py", "import cede\n@cede.hookimpl\ndef cede_encodings(): return []\n")
    assert "mine.py" in [plugin.name for plugin in site.load(files=[str(path)]).plugins]


def test_a_missing_file_is_named_with_its_path(site):
    with pytest.raises(ConfigError) as caught:
        site.load(files=["nowhere.py"])
    assert "plugins.files names 'nowhere.py'" in str(caught.value)
    assert str(site.folder / "nowhere.py") in str(caught.value)


def test_a_time_limit_must_be_positive(site):
    with pytest.raises(ConfigError, match=r"plugins\.seconds is 0"):
        site.load(seconds=0)


def test_two_plugins_of_one_name_clash_and_neither_wins(site):
    site.backend("dist-a", "npu", point="npu", version="1.0")
    site.backend("dist-b", "npu", point="npu", version="2.0")
    site.backend("dist-c", "gpu")
    host = site.load()
    [clash] = host.conflicts
    assert (clash.kind, clash.name) == ("backend", "npu")
    assert [(s.distribution, s.version) for s in clash.sources] == [
        ("dist-a", "1.0"),
        ("dist-b", "2.0"),
    ]
    assert "npu" not in host.backends
    assert "gpu" in host.backends
    with pytest.raises(PluginError) as caught:
        host.backend("npu")
    text = str(caught.value)
    assert "dist-a 1.0 and dist-b 2.0" in text
    assert "plugins.prefer: {npu: dist-a}" in text
    with pytest.raises(PluginError):
        host.source("backend", "npu")


def test_strict_makes_a_clash_fatal(site):
    site.backend("dist-a", "npu")
    site.backend("dist-b", "npu")
    with pytest.raises(PluginError, match=r"dist-a 1\.0 and dist-b 1\.0"):
        site.load(strict=True)


@pytest.mark.parametrize("wanted", ["dist-a", "dist-b", "Dist_B"])
def test_prefer_settles_a_clash(site, wanted):
    site.backend("dist-a", "npu")
    site.backend("dist-b", "npu")
    host = site.load(prefer={"npu": wanted})
    assert host.conflicts == ()
    assert host.source("backend", "npu").distribution == wanted.lower().replace("_", "-")


def test_prefer_does_not_settle_what_the_distribution_does_not_bring(site):
    site.backend("dist-a", "npu")
    site.backend("dist-b", "npu")
    site.backend("dist-c", "gpu")
    assert len(site.load(prefer={"npu": "dist-c"}).conflicts) == 1


def test_a_disabled_distribution_is_not_even_imported(site):
    site.plugin("dist-a", "raise RuntimeError\n")
    site.backend("dist-b", "npu")
    host = site.load(disable=["Dist.A"], strict=True)
    assert host.failures == ()
    assert "npu" in host.backends


@pytest.mark.parametrize(
    ("setting", "key"),
    [({"disable": ["dist-aa"]}, "plugins.disable"), ({"prefer": {"n": "dist-aa"}}, "prefer.n")],
)
def test_an_unknown_distribution_is_an_error_with_the_nearest_name(site, setting, key):
    site.backend("dist-a", "npu")
    with pytest.raises(ConfigError) as caught:
        site.load(**setting)
    assert key in str(caught.value)
    assert "did you mean dist-a?" in str(caught.value)


def test_within_a_backend_other_distributions_come_first_then_names(site, monkeypatch):
    # a plugin that counts as cede's own: the rule must not depend on which ones there are
    monkeypatch.setattr("cede.host.order.BUILT_IN", "home")
    site.backend("home", "npu")
    site.partitioner("home-parts", "aaa", "npu")
    site.partitioner("zz-dist", "bbb", "npu")
    site.partitioner("yy-dist", "ccc", "npu")
    assert names(site.load(), "npu") == ["aaa", "bbb", "ccc"]
    monkeypatch.setattr("cede.host.order.BUILT_IN", "home-parts")
    assert names(site.load(), "npu") == ["bbb", "ccc", "aaa"]


def test_backends_decide_the_order_of_partitioners(site):
    site.backend("dist-n", "npu")
    site.backend("dist-g", "gpu")
    site.partitioner("part-n", "aaa", "npu")
    site.partitioner("part-g", "bbb", "gpu")
    host = site.load()
    asked = host.partitioners_for(Config(backends=["gpu", "npu", "gpu"]))
    assert [one.name for one in asked] == ["bbb", "aaa"]


def test_partitioners_of_the_config_are_taken_in_its_order(site):
    site.backend("dist-n", "npu")
    for name in ("aaa", "bbb", "ccc"):
        site.partitioner(f"part-{name}", name, "npu")
    host = site.load()
    asked = host.partitioners_for(Config(partitioners=["ccc", "aaa"]))
    assert [one.name for one in asked] == ["ccc", "aaa"]


WRONG = {
    "nothing": (Config(), "config: backends: it is empty; known: "),
    "unknown backend": (
        Config(backends=["npuu"]),
        "config: backends: there is no backend 'npuu': did you mean npu?",
    ),
    "unknown partitioner": (
        Config(partitioners=["aab"]),
        "config: partitioners: there is no partitioner 'aab'",
    ),
    "partitioner of another backend": (
        Config(backends=["gpu"], partitioners=["aaa"]),
        "config: partitioners: 'aaa' claims for 'npu', and backends has only gpu",
    ),
    "backend without partitioner": (
        Config(backends=["gpu"]),
        "config: backends: none of the installed partitioners claims for 'gpu'",
    ),
    "backend that no named partitioner claims for": (
        Config(backends=["npu", "gpu"], partitioners=["aaa"]),
        "config: backends: none of those under partitioners claims for 'gpu'",
    ),
    "partitioner without backend": (Config(partitioners=["lost"]), "no backend 'nowhere'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_config_that_does_not_fit_is_an_error(site, case):
    config, message = WRONG[case]
    site.backend("dist-n", "npu")
    site.backend("dist-g", "gpu")
    site.partitioner("part-n", "aaa", "npu")
    site.partitioner("part-x", "lost", "nowhere")
    host = site.load()
    with pytest.raises(ConfigError) as caught:
        host.partitioners_for(config)
    assert message in str(caught.value)


def test_rival_partitioners_of_a_backend_are_not_left_out_in_silence(site):
    site.backend("dist-n", "npu")
    site.partitioner("part-a", "aaa", "npu")
    site.partitioner("part-b", "bbb", "npu")
    site.partitioner("part-c", "bbb", "npu")
    with pytest.raises(PluginError, match="partitioner 'bbb' is brought by part-b"):
        site.load().partitioners_for(Config(backends=["npu"]))
