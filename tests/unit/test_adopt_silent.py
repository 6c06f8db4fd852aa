"""Where a check declined without a word: the condition that decided, not any False on the way."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from cede.partitioners.adopt.silent import where_declined


def is_even(x: int) -> bool:
    return x % 2 == 0


class Config:
    def common(self, x: int) -> bool:
        if x > 100:
            return False
        return True

    def pair(self, x: int) -> tuple[bool, int]:
        if x == 50:
            return False, x
        return True, x

    def check(self, x: int) -> bool:
        if not self.common(x):
            return False
        even = is_even(x)
        if even and x == 8:
            return False
        accepted, _ = self.pair(x)
        return accepted

    def small(self, x: int) -> bool:
        return is_even(x) or x < 10


class Narrow(Config):
    def check(self, x: int) -> bool:
        return super().check(x)


@pytest.mark.parametrize(
    ("check", "x", "label", "condition"),
    [
        ("check", 101, "Config.common", "if x > 100"),
        ("check", 8, "Config.check", "if even and x == 8"),
        ("check", 50, "Config.pair", "if x == 50"),
        ("small", 11, "Config.small", "unless is_even(x) or x < 10"),
    ],
)
def test_the_condition_that_decided(check: str, x: int, label: str, condition: str) -> None:
    found = where_declined(lambda: getattr(Config(), check)(x))
    assert found.startswith(f"{label} (test_adopt_silent.py:")
    assert found.endswith(f"): {condition}")


def test_through_super() -> None:
    found = where_declined(lambda: Narrow().check(8))
    assert found.endswith("): if even and x == 8")


def test_an_accepting_check_has_no_place() -> None:
    assert where_declined(lambda: Config().check(2)) == ""


def test_a_tracer_of_somebody_else_is_put_back() -> None:
    def tracer(*_: Any) -> Any:
        return None

    outer = sys.gettrace()
    sys.settrace(tracer)
    try:
        where_declined(lambda: Config().check(8))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(outer)
