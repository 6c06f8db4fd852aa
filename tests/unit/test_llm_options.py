"""Every field of `export_llm`'s config is in the docs, and does what they say."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
import yaml

from cede.errors import ConfigError
from cede.llm import load_settings
from cede.llm.upstream import config_module

PAGE = Path(__file__).parents[2] / "docs" / "llm-options.md"
GIVEN = {
    "base": {"model_class": "smollm2", "random_weights": True},
    "backend": {"xnnpack": {"enabled": True}},
}
SPECIAL = {"backend.torchao", "base.lora_config"}
"""Paths with no switch of their own."""


@cache
def documented() -> dict[str, str]:
    """Path -> "yes", "told" or "refused", of the page."""
    rows = re.findall(r"^\| `([\w.]+)` \| (yes|told|refused) \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len(dict(rows))
    return dict(rows)


def inner(kind: Any) -> Any:
    """The dataclass or type in an Optional."""
    if get_origin(kind) in (Union, UnionType):
        [kind] = [each for each in get_args(kind) if each is not type(None)]
    return kind


@cache
def known() -> dict[str, Any]:
    """Path -> type, of ExecuTorch's dataclasses."""
    found: dict[str, Any] = {}

    def walk(kind: Any, before: str) -> None:
        hints = get_type_hints(kind)
        for each in fields(kind):
            path, sort = f"{before}{each.name}", inner(hints[each.name])
            if is_dataclass(sort):
                walk(sort, f"{path}.")
            else:
                found[path] = sort

    walk(config_module().LlmConfig, "")
    return found


def another(path: str) -> Any:
    """A value that is not the default."""
    kind, default = known()[path], config_module().LlmConfig()
    for word in path.split("."):
        default = getattr(default, word, None)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(each.value for each in kind if each != default)
    if path == "multimethod.methods":
        return [{"method_name": "a"}]
    if get_origin(kind) is list:
        return ["a"]
    if kind is str:
        return "a"
    return not default if kind is bool else kind(default or 0) + 1


def test_the_page_has_every_field() -> None:
    assert documented().keys() == known().keys()


def test_the_page_knows_each_kind_of_row() -> None:
    assert set(documented().values()) == {"yes", "told", "refused"}


@pytest.mark.parametrize("path", [path for path in documented() if documented()[path] == "refused"])
def test_what_is_refused_is_an_error_at_its_path(path: str, tmp_path: Path) -> None:
    config = yaml.safe_load(yaml.safe_dump(GIVEN))
    *sections, name = path.split(".")
    at = config
    for word in sections:
        at = at.setdefault(word, {})
    at[name] = another(path)
    if "lora_config" in sections:
        at["adapter_checkpoint"] = "a"
    if sections[0] == "backend" and ".".join(sections) not in SPECIAL:
        at["enabled"] = True
    file = tmp_path / "llm.yaml"
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError) as error:
        load_settings(file)
    owner = "base.lora_config" if path.startswith("base.lora_config") else path
    assert f"{owner}: " in str(error.value)
