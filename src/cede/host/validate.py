"""Checking what the collecting hooks give."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from cede.types import Backend, Field, Quantizer, block_bytes
from cede.types.encodings import SIZES
from cede.types.quantizer import MODES as QUANTIZER_MODES

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = {
    "cede_backends": "backend",
    "cede_partitioners": "partitioner",
    "cede_quantizers": "quantizer",
    "cede_encodings": "encoding",
}
"""The collecting hooks, and what each collects."""

NAME = re.compile(r"[a-z][a-z0-9_-]*")


def checked(kind: str, given: Any, into: list[tuple[str, str, Any]]) -> None:
    """Append the records that a hook gave as (kind, name, record).

    Raises:
        TypeError: not an iterable, or a record of the wrong type.
        ValueError: a name that isn't lower case, or that comes twice.
    """
    try:
        found = iter(given)
    except TypeError:
        raise TypeError(
            f"returned {type(given).__name__}, not an iterable of {kind}s: yield each {kind}"
        ) from None
    for record in found:
        _CHECKS[kind](record)
        name = _name(kind, record.name)
        if any(one == (kind, name) for one in ((k, n) for k, n, _ in into)):
            raise ValueError(f"two {kind}s are named {name!r}")
        into.append((kind, name, record))


def _name(what: str, given: Any) -> str:
    if not isinstance(given, str) or not NAME.fullmatch(given):
        raise ValueError(
            f"a {what} is named {given!r}: a name is lower-case letters, digits, '-' and '_',"
            " and starts with a letter"
        )
    return given


def _backend(record: Any) -> None:
    if not isinstance(record, Backend):
        raise TypeError(f"{_what(record)} is no cede.Backend")
    if not isinstance(record.delegate_id, str) or not record.delegate_id:
        raise TypeError(f"backend {record.name!r}: delegate_id is {record.delegate_id!r}")
    if not isinstance(record.options, type) or not is_dataclass(record.options):
        raise TypeError(f"backend {record.name!r}: options is no dataclass")
    for asked in ("objects", "holds"):
        if getattr(record, asked) is not None and not callable(getattr(record, asked)):
            raise TypeError(f"backend {record.name!r}: {asked} can't be called")


def _partitioner(record: Any) -> None:
    _instance(record, ("name", "backend", "keeps", "claim"), "partitioner")
    _name(f"partitioner's backend ({record.name!r})", record.backend)
    for method in ("keeps", "claim"):
        if not callable(getattr(record, method)):
            raise TypeError(f"partitioner {record.name!r}: {method} can't be called")


def _quantizer(record: Any) -> None:
    _instance(record, ("name", "backend", "modes", "make"), "quantizer")
    if not isinstance(record, Quantizer):
        raise TypeError(f"{_what(record)} is no cede.Quantizer")
    _name(f"quantizer's backend ({record.name!r})", record.backend)
    if not record.modes or not all(mode in QUANTIZER_MODES for mode in record.modes):
        raise ValueError(
            f"quantizer {record.name!r}: modes are {record.modes!r}: give some of"
            f" {', '.join(QUANTIZER_MODES)}"
        )
    if not callable(record.make):
        raise TypeError(f"quantizer {record.name!r}: make can't be called")


def _encoding(record: Any) -> None:
    parts = ("name", "block_size", "bits_per_weight", "layout", "quantize", "dequantize")
    _instance(record, parts, "encoding")
    what = f"encoding {record.name!r}"
    for method in ("quantize", "dequantize"):
        if not callable(getattr(record, method)):
            raise TypeError(f"{what}: {method} can't be called")
    size, layout = record.block_size, record.layout
    if type(size) is not int or size < 1:
        raise ValueError(f"{what}: block_size is {size!r}, not a number of weights")
    if not layout or not all(isinstance(field, Field) for field in layout):
        raise TypeError(f"{what}: layout is {_what(layout)}, not cede.Field records in a tuple")
    for field in layout:
        if field.dtype not in SIZES or type(field.count) is not int or field.count < 1:
            raise ValueError(f"{what}: {field} is not a count of {', '.join(SIZES)}")
    bits = 8 * block_bytes(record) / size
    if record.bits_per_weight != bits:
        raise ValueError(
            f"{what}: bits_per_weight is {record.bits_per_weight!r}, its layout takes {bits:g}"
        )


def _instance(record: Any, attributes: tuple[str, ...], kind: str) -> None:
    if isinstance(record, type):
        raise TypeError(f"{record.__qualname__} is a class, not a {kind}: yield an instance of it")
    missing = [name for name in attributes if not hasattr(record, name)]
    if missing:
        raise TypeError(f"{_what(record)} is no {kind}: it has no {', '.join(missing)}")


def _what(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= 60 else f"{text[:57]}..."


_CHECKS: dict[str, Callable[[Any], None]] = {
    "backend": _backend,
    "partitioner": _partitioner,
    "quantizer": _quantizer,
    "encoding": _encoding,
}
