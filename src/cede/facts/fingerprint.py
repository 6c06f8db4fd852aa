"""A hash that tells whether a plan fits a program."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cede.types import GraphInput, Op, SymbolBounds


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
    digest = hashlib.sha256()
    for given in inputs:
        digest.update(
            f"{given.id}\0{given.kind.value}\0{given.target}\0{given.tensor}\0{given.mutated}\n".encode()
        )
    for op in ops:
        shapes = ",".join(map(str, op.outputs))
        digest.update(f"{op.id}\0{op.target}\0{op.args!r}\0{shapes}\n".encode())
    for symbol in symbols:  # saving and loading may turn a lower bound of 2 into 1
        digest.update(f"{symbol.name}\0{symbol.high}\n".encode())
    digest.update(repr((tuple(outputs), tuple(mutations))).encode())
    return digest.hexdigest()
