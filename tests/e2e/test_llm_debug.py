"""What the section `debug` of an LLM's config writes beside the program."""

from __future__ import annotations

import json
import pstats
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
import torch
import yaml
from click.testing import CliRunner
from executorch.devtools import Inspector, parse_etrecord
from executorch.runtime import Runtime

from cede.cli import main
from cede.errors import ConfigError
from cede.llm import load_settings
from cede.llm.debug import profiled

if TYPE_CHECKING:
    from pathlib import Path

SIZES = {"dim": 64, "hidden_dim": 96, "n_layers": 1, "n_heads": 4, "vocab_size": 128}


def config(folder: Path) -> Path:
    params, path = folder / "params.json", folder / "llm.yaml"
    params.write_text(json.dumps(SIZES))
    sections = {
        "base": {"random_weights": True, "params": str(params)},
        "model": {"use_kv_cache": True},
        "export": {"output_name": str(folder / "tiny.pte")},
        "backend": {"xnnpack": {"enabled": True}},
        "cede": {"lowering": {"cache_folder": str(folder / "cache")}},
    }
    path.write_text(yaml.safe_dump(sections))
    return path


def test_records_lie_beside_the_program_and_are_read_by_executorch(tmp_path: Path) -> None:
    command = ["export-llm", "-q", "-c", str(config(tmp_path))]
    assert CliRunner().invoke(main, command).exit_code == 0  # into the cache
    asked = ["debug.generate_etrecord=true", "debug.profile_memory=true",
             f"debug.profile_path={tmp_path / 'export.prof'}"]  # fmt: skip
    done = CliRunner().invoke(main, [*command, *asked])
    assert done.exit_code == 0, done.output

    record = parse_etrecord(str(tmp_path / "etrecord.bin"))
    assert record.exported_program is not None
    program = Runtime.get().load_program(tmp_path / "tiny.pte", enable_etdump=True)
    program.load_method("forward").execute([torch.tensor([[3, 4]]), torch.tensor([0])])
    dump = tmp_path / "etdump.bin"
    program.write_etdump_result_to_file(str(dump), str(tmp_path / "debug.bin"))
    events = Inspector(etdump_path=str(dump), etrecord=record).event_blocks[-1].events
    left = [event for event in events if not event.is_delegated_op]
    named = {name for event in left for name in event.module_hierarchy}
    assert any("embedding" in name for name in named), named

    [trace] = json.loads((tmp_path / "memory_profile.json").read_text()).values()
    sizes = {each["args"]["bytes"] for each in trace}
    assert max(sizes) == 4 * 4 * 127 * 128  # scores of a call's most tokens against the context
    assert 4 * 128 * 64 in sizes  # a cache
    profile = pstats.Stats(str(tmp_path / "export.prof"))
    assert any(name == "lower_program" for _, _, name in profile.stats)  # type: ignore[attr-defined]


def test_a_profile_that_cannot_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    path = config(tmp_path)
    with pytest.raises(ConfigError, match=r"debug.profile_path: the folder .*nope does not exist"):
        load_settings(path, [f"debug.profile_path={tmp_path / 'nope' / 'a.prof'}"])
    with pytest.raises(ConfigError, match="is a folder; give a file"):
        load_settings(path, [f"debug.profile_path={tmp_path}"])
    settings = load_settings(path, ["debug.generate_etrecord=true", "export.export_only=true"])
    assert any(note.startswith("debug.generate_etrecord: nothing") for note in settings.notes)


def test_a_page_needs_its_package(tmp_path: Path) -> None:
    page = tmp_path / "export.html"
    if find_spec("snakeviz") is None:
        with pytest.raises(ConfigError, match=r"pip install snakeviz, or end the name in .prof"):
            load_settings(config(tmp_path), [f"debug.profile_path={page}"])
        return
    with pytest.raises(ZeroDivisionError), profiled(str(page)):
        _ = 1 / 0
    assert "<title>export</title>" in page.read_text()
