"""The built-in encodings. Nothing heavy is imported until one of them is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cede.hookspec import hookimpl
from cede.quant.encodings.record import BlockEncoding
from cede.types import Field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Encoding

_D = Field(name="d", dtype="float16")
_MIN = Field(name="dmin", dtype="float16")
_SCALES = Field(name="scales", dtype="uint8", count=12)
_NIBBLES = Field(name="qs", dtype="uint8", count=128)

_BLOCKS = {
    "bf16": (1, (Field(name="upper", dtype="uint16"),)),
    "q4_0": (32, (_D, Field(name="qs", dtype="uint8", count=16))),
    "q4_1": (32, (_D, Field(name="m", dtype="float16"), Field(name="qs", dtype="uint8", count=16))),
    "q8_0": (32, (_D, Field(name="qs", dtype="int8", count=32))),
    "q4_k": (256, (_D, _MIN, _SCALES, _NIBBLES)),
    "q5_k": (256, (_D, _MIN, _SCALES, Field(name="qh", dtype="uint8", count=32), _NIBBLES)),
    "q6_k": (
        256,
        (
            Field(name="ql", dtype="uint8", count=128),
            Field(name="qh", dtype="uint8", count=64),
            Field(name="scales", dtype="int8", count=16),
            _D,
        ),
    ),
}


@hookimpl
def cede_encodings() -> Iterator[Encoding]:
    """Those that files in the GGUF format use most."""
    for name, (size, layout) in _BLOCKS.items():
        yield BlockEncoding(
            name=name,
            block_size=size,
            layout=layout,
            encode=_Late(name, "encode"),
            decode=_Late(name, "decode"),
        )


class _Late:
    """A function of the module of that encoding, imported when it is called."""

    def __init__(self, name: str, function: str) -> None:
        self.name, self.function = name, function

    def __call__(self, blocks: Any) -> Any:
        module = import_module(f"cede.quant.encodings.{self.name}")
        return getattr(module, self.function)(blocks)
