"""Encodings by name: the built-in ones, those of installed plugins, and those that were used.

An operator of torch knows an encoding by its name alone. So each record that a weight was encoded
with is remembered for the life of the process, as torch remembers operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.errors import EncodingError
from cede.types import Encoding

if TYPE_CHECKING:
    from cede.config import Config

_KNOWN: dict[str, Encoding] = {}


def find(encoding: str | Encoding, config: Config | None = None) -> Encoding:
    """The record of that name; a record is remembered under its own.

    Args:
        encoding: a name, or a record.
        config: whose plugins are asked; None asks those that are installed.

    Raises:
        ConfigError: nobody brings it.
        EncodingError: no encoding, or another one of that name was used before.
        PluginError: several plugins bring it, or one that failed would have.
    """
    if not isinstance(encoding, str):
        return remember(encoding)
    if encoding not in _KNOWN:
        from cede.host import Host

        host = Host.load(config)
        host.source("encoding", encoding)  # says why if there is none
        remember(host.encodings[encoding])
    return _KNOWN[encoding]


def names(config: Config | None = None) -> tuple[str, ...]:
    """The names of all encodings that plugins bring or that were used, sorted."""
    from cede.host import Host

    return tuple(sorted({*_KNOWN, *Host.load(config).encodings}))


def remember(encoding: Encoding) -> Encoding:
    """Have operators find a record by its name.

    Raises:
        EncodingError: no `cede.Encoding`, or another one of that name was used before.
    """
    if not isinstance(encoding, Encoding) or isinstance(encoding, type):
        raise EncodingError(f"{encoding!r} is neither the name of an encoding nor a cede.Encoding")
    known = _KNOWN.get(encoding.name, encoding)
    if _identity(known) != _identity(encoding):
        raise EncodingError(
            f"two encodings are named {encoding.name!r} in this process: rename one of them"
        )
    _KNOWN[encoding.name] = encoding  # a plugin that was loaded again brings a new record
    return encoding


def _identity(encoding: Encoding) -> tuple[object, ...]:
    return (type(encoding).__qualname__, encoding.block_size, tuple(encoding.layout))
