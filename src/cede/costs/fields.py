"""Rates as plain values of YAML and JSON, and back with every mistake named by its path."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import Any, NoReturn

from cede.errors import ConfigError
from cede.types import Measured, Rates

_NUMBERS = (
    "flops_per_second",
    "bytes_per_second",
    "op_seconds",
    "launch_seconds",
    "border_seconds",
    "border_bytes_per_second",
)
_ABOVE_ZERO = frozenset(name for name in _NUMBERS if name.endswith("per_second"))


class Node:
    """An object of a file, knowing its path.

    Args:
        value: what was read.
        path: where in the file.
        origin: the file.
    """

    def __init__(self, value: Any, path: str, origin: str) -> None:
        self.path, self.origin = path, origin
        if not isinstance(value, dict):
            raise ConfigError(f"{origin}: {path} should be an object, not {_shown(value)}")
        self.value: dict[Any, Any] = value

    def fail(self, key: str, what: str) -> NoReturn:
        """Raise ConfigError about a field."""
        raise ConfigError(f"{self.origin}: {self.path}.{key} {what}")

    def known(self, *keys: str) -> None:
        """Insist that there are no other fields."""
        for key in self.value:
            if key not in keys:
                self.fail(str(key), f"is unknown; known: {', '.join(keys)}")

    def get(self, key: str) -> Any:
        """A field that must be there."""
        if key not in self.value:
            self.fail(key, "is missing")
        return self.value[key]

    def number(self, key: str, value: Any, above: bool) -> float:
        """That value as a finite number of at least 0, or above 0."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(key, f"should be a number, not {_shown(value)}")
        if not math.isfinite(value) or value < 0 or (above and value == 0):
            self.fail(key, f"is {value:g}, should be {'above' if above else 'at least'} 0")
        return float(value)

    def text(self, key: str) -> str:
        """A field that is a text."""
        value = self.get(key)
        if not isinstance(value, str):
            self.fail(key, f"should be a text, not {_shown(value)}")
        return value

    def items(self, key: str) -> list[Any]:
        """A field that is a list, [] where it is missing."""
        value = self.value.get(key, [])
        if not isinstance(value, list):
            self.fail(key, f"should be a list, not {_shown(value)}")
        return value

    def nodes(self, key: str) -> list[Node]:
        """A field that is a list of objects."""
        return [
            Node(value, f"{self.path}.{key}[{i}]", self.origin)
            for i, value in enumerate(self.items(key))
        ]


def rates_of(node: Node) -> Rates:
    """Rates from plain values. Raises ConfigError with the path of the first mistake."""
    node.known(*(field.name for field in fields(Rates)))
    numbers: dict[str, Any] = {}
    for field in fields(Rates):
        if field.name in _NUMBERS and (field.name in node.value or field.default is MISSING):
            above = field.name in _ABOVE_ZERO
            numbers[field.name] = node.number(field.name, node.get(field.name), above)
    order, dtypes = node.items("dim_order"), node.items("dtypes")
    if any(isinstance(dim, bool) or not isinstance(dim, int) for dim in order):
        node.fail("dim_order", "should hold whole numbers only")
    if sorted(order) != list(range(len(order))):
        node.fail("dim_order", f"is {order}, should be an order of 0 to {len(order) - 1}")
    if any(not isinstance(dtype, str) for dtype in dtypes):
        node.fail("dtypes", "should hold texts only")
    return Rates(
        **numbers,
        dim_order=tuple(order),
        dtypes=tuple(dtypes),
        measured=tuple(_measured(each) for each in node.nodes("measured")),
    )


def _measured(node: Node) -> Measured:
    node.known("kind", "dtype", "points")
    points = []
    for i, pair in enumerate(node.items("points")):
        at = f"points[{i}]"
        if not isinstance(pair, list) or len(pair) != 2:
            node.fail(at, "should be [work, seconds]")
        points.append((node.number(at, pair[0], True), node.number(at, pair[1], True)))
    works = [work for work, _ in points]
    if not works or works != sorted(set(works)):
        node.fail("points", "should be some pairs of [work, seconds] by rising work")
    return Measured(kind=node.text("kind"), dtype=node.text("dtype"), points=tuple(points))


def plain(rates: Rates) -> dict[str, Any]:
    """Rates as plain values; what has its default is left out."""
    made: dict[str, Any] = {
        field.name: getattr(rates, field.name)
        for field in fields(Rates)
        if field.name in _NUMBERS and getattr(rates, field.name) != field.default
    }
    if rates.dim_order:
        made["dim_order"] = list(rates.dim_order)
    if rates.dtypes:
        made["dtypes"] = list(rates.dtypes)
    if rates.measured:
        made["measured"] = [
            {"kind": each.kind, "dtype": each.dtype, "points": [list(p) for p in each.points]}
            for each in sorted(rates.measured, key=lambda each: (each.kind, each.dtype))
        ]
    return made


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
