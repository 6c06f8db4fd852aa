"""Every problem of a config is in one error, whichever stage finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cede import api
from cede.cli import options
from cede.errors import ConfigError
from cede.host.problems import name_problems

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("face", ["command line", "python"])
def test_keys_values_and_names_together(face: str, tmp_path: Path) -> None:
    overrides = (
        "bakends=[x]",
        "seconds=-1",
        "backends=[xnnpak]",
        "policy.pin=[{op: aten.add, backend: nope}]",
        "options.xnnpack.enable=1",
        "plugins.disable=[nodist]",
        "partitioners=[nobody]",
    )

    def ask() -> None:
        if face == "command line":
            options.load(None, (), overrides)
        else:
            file = tmp_path / "c.yaml"
            lines = [text.replace("=", ": ", 1) for text in overrides if "." not in text]
            lines += [
                "policy: {pin: [{op: aten.add, backend: nope}]}",
                "plugins: {disable: [nodist]}",
            ]
            lines += ["options: {xnnpack: {enable: 1}}"]
            file.write_text("\n".join(lines))
            api.partitioner(config=file)

    with pytest.raises(ConfigError) as caught:
        ask()
    text = str(caught.value)
    for wanted in (
        "bakends: unknown key; did you mean backends?",
        "seconds: is -1, must be above 0",
        "backends: unknown backend xnnpak; did you mean xnnpack?",
        "policy.pin[0].backend: unknown backend nope",
        "options.xnnpack.enable: unknown key",
        "plugins.disable: 'nodist' is no distribution",
        "partitioners: there is no partitioner 'nobody'",
    ):
        assert text.count(wanted) == 1, text
    assert len(text.splitlines()) == 7


def test_names_alone_are_told_together_too() -> None:
    config = api.load_config(None, ["backends=[xnnpak]", "limits.zz.min_ops=2"])
    with pytest.raises(ConfigError) as caught:
        api.partitioner(config=config)
    assert len(str(caught.value).splitlines()) == 2
    assert name_problems(api.load_config("xnnpack-fp32")) == []


def test_a_file_that_is_no_config_is_one_problem() -> None:
    with pytest.raises(ConfigError, match="neither a file nor a ready config") as caught:
        api.partitioner(config="nowhere")
    assert caught.value.partial is None
