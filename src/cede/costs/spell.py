"""Seconds in words."""

from __future__ import annotations


def seconds(value: float) -> str:
    """ "12.3 us": one decimal below 100, none above."""
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if abs(value) * factor < 999.5:
            size = value * factor
            return f"{size:.1f} {unit}" if abs(size) < 99.95 else f"{size:.0f} {unit}"
    return f"{value:.2f} s"
