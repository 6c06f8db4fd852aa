"""What an LLM's program is made from, as a key, so that it is found without building the model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.files import sha256_of
from cede.llm.library import library_of
from cede.llm.models import checkpoint_path
from cede.llm.pruned import KEYS
from cede.programs.content import Opaque, digest, plain
from cede.programs.key import settings as of_config
from cede.programs.key import versions
from cede.store import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.host import Host
    from cede.llm.settings import LlmSettings

_TOLD = ("verbose", "generate_etrecord", "profile_memory", "profile_path")
_ASIDE = {"export": ("output_name", "output_dir", "export_only"), "debug": _TOLD}
"""Fields that say where things go and what is told."""

_READ = ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
"""What is read of a folder of Hugging Face beside its safetensors files."""


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


def state_of(settings: LlmSettings) -> list[tuple[int, int, int]] | None:
    """Inode, size and time of each file that the key is made from, None where one is gone."""
    try:
        found = [file.stat() for file in _named(settings)]
    except OSError:
        return None
    return [(each.st_ino, each.st_size, each.st_mtime_ns) for each in found]


def _files(settings: LlmSettings) -> Iterator[str]:
    for file in _named(settings):
        yield f"{file} {sha256_of(file)}"


def _named(settings: LlmSettings) -> list[Path]:
    """The files that the config names, and those that are read with them, each once."""
    base: Any = settings.llm.base
    maps = [getattr(settings.llm.model, key) for key in KEYS]
    named = [checkpoint_path(base.checkpoint)] if base.checkpoint else []
    named += [Path(text).expanduser() for text in (base.params, base.tokenizer_path, *maps) if text]
    named += [library_of(settings.llm)]
    found = [file for path in named if path is not None for file in _with(path)]
    several = (each.lora_config for each in settings.llm.multimethod.methods)
    for adapter in (base.lora_config, *several):
        if adapter is not None:
            files = (adapter.adapter_checkpoint, adapter.adapter_config)
            found += [Path(text).expanduser() for text in files if text]
    return list(dict.fromkeys(found))


def _with(path: Path) -> list[Path]:
    """A file with those around it that are read with it, or what is read of a folder."""
    if not path.exists():  # a name of ready params, of a package
        return []
    folder = path if path.is_dir() else path.parent
    found = [folder / name for name in _READ]
    found += folder.glob("*.safetensors") if path.is_dir() else [path]
    # others may be what an export itself writes: a report
    alone = path.is_file() and path.suffix not in (".json", ".safetensors")
    return [path] if alone else sorted({each for each in found if each.exists()})
