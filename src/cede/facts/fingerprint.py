"""A hash that tells whether a plan fits a program."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cede.types import GraphInput, Op, SymbolBounds

_DATA = re.compile(r"\b(?:u|zuf)\d+\b")
"""How torch names sizes and numbers that data decide (`ShapeEnv.create_unbacked_symint`)."""


def fingerprint(
    inputs: Iterable[GraphInput],
    ops: Iterable[Op],
    outputs: Iterable[str],
    mutations: Iterable[tuple[str, str]],
    symbols: Iterable[SymbolBounds],
) -> str:
    """sha256 over names, operators, arguments, shapes with their upper bounds, and dtypes.

    Left out: weights' values, FLOPs, and where an op comes from, so that moving a model's source
    keeps its plans.
    """
    digest, data = hashlib.sha256(), _Data()
    for given in inputs:
        tensor = data.renamed(str(given.tensor))
        digest.update(
            f"{given.id}\0{given.kind.value}\0{given.target}\0{tensor}\0{given.mutated}\n".encode()
        )
    for op in ops:
        shapes = data.renamed(",".join(map(str, op.outputs)))
        digest.update(f"{op.id}\0{op.target}\0{op.args!r}\0{shapes}\n".encode())
    for symbol in data.met(symbols):  # saving and loading may turn a lower bound of 2 into 1
        digest.update(f"{symbol.name}\0{symbol.high}\n".encode())
    digest.update(repr((tuple(outputs), tuple(mutations))).encode())
    return digest.hexdigest()


class _Data:
    """Sizes that data decide: torch counts them over all traces of a process, so they are named
    in the order in which they are met."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def renamed(self, text: str) -> str:
        return _DATA.sub(lambda found: self._name(found[0]), text)

    def _name(self, symbol: str) -> str:
        return self._names.setdefault(symbol, f"u{len(self._names)}")

    def met(self, symbols: Iterable[SymbolBounds]) -> list[SymbolBounds]:
        """The bounds of all symbols but of those that no shape has."""
        given = [s for s in symbols if s.name in self._names or not _DATA.fullmatch(s.name)]
        return sorted(
            (replace(s, name=self._names.get(s.name, s.name)) for s in given),
            key=lambda s: s.name if _DATA.fullmatch(s.name) else "",
        )
