"""Data files of `configs/llm`."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = "llm"


@cache
def data(name: str) -> Mapping[str, Any]:
    """The JSON file of that name."""
    found: dict[str, Any] = json.loads((files("cede") / "configs" / FOLDER / name).read_text())
    return found


@cache
def params_names() -> tuple[str, ...]:
    """Names of the params files, sorted: "smollm2_135m"."""
    folder = files("cede") / "configs" / FOLDER / "params"
    names = [entry.name for entry in folder.iterdir()]
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))
