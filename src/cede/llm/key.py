"""What an LLM's program is made from, as a key, so that it is found without building the model."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.llm.models import checkpoint_path
from cede.programs.content import Opaque, digest, plain
from cede.programs.key import settings as of_config
from cede.programs.key import versions
from cede.store import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.host import Host
    from cede.llm.settings import LlmSettings

_ASIDE = {"export": ("output_name", "output_dir", "export_only"), "debug": ("verbose",)}
"""Fields that say where things go and what is told."""

_PART = 1 << 22
"""Bytes that are read at a time."""


def key_of(settings: LlmSettings, host: Host) -> str | None:
    """The key of the program that settings give, None where it can't be told.

    SHA-256 over all installed versions, cede's and the plugins' sources, the whole config, and the
    bytes of the files that it names: checkpoint, params, tokenizer.
    """
    config = settings.config
    if config.quantize.calibration:  # a file or a function of the user's own
        return None
    try:
        parts = [
            "llm", *versions(host), *of_config(host, config, None, settings.metadata),
            plain(asdict(config.quantize)), *_llm(settings), *_files(settings),
        ]  # fmt: skip
    except (Opaque, OSError):  # building the model says what is wrong
        return None
    return PROGRAM + digest(parts)


def _llm(settings: LlmSettings) -> Iterator[str]:
    values = asdict(settings.llm)
    for section, names in _ASIDE.items():
        for name in names:
            del values[section][name]
    yield plain(values)


def _files(settings: LlmSettings) -> Iterator[str]:
    base: Any = settings.llm.base
    named = [checkpoint_path(base.checkpoint)] if base.checkpoint else []
    named += [Path(text).expanduser() for text in (base.params, base.tokenizer_path) if text]
    for path in named:
        if path is None:
            continue
        for file in _beside(path):
            yield f"{file} {_hash(file)}"


def _hash(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as opened:
        while part := opened.read(_PART):
            found.update(part)
    return found.hexdigest()


def _beside(path: Path) -> list[Path]:
    """A file with those around it that are read with it, or a folder's files."""
    if path.suffix == ".gguf" or not path.exists():  # a name of ready params is no file
        return [path] if path.exists() else []
    folder = path if path.is_dir() else path.parent
    texts = [each for each in folder.iterdir() if each.suffix == ".json"]
    whole = [each for each in path.iterdir() if each.is_file()] if path.is_dir() else [path]
    return sorted({*texts, *whole})
