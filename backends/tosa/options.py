"""Options of the TOSA backend: which TOSA a delegate may use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum


class Profile(str, Enum):
    """What a delegate computes in: floats, integers of quantized programs, or both."""

    fp = "FP"
    int = "INT"
    fp_int = "FP+INT"


class Extension(str, Enum):
    """What it may use beyond the profile (TOSA 1.0)."""

    int16 = "int16"
    int4 = "int4"
    bf16 = "bf16"
    cf = "cf"


_VERSION = re.compile(r"TOSA-\d+\.\d+\+(INT\+FP|FP\+INT|INT|FP)(\+[a-z]+\d*)*")


def check_version(value: str) -> str:
    """Why this is no TOSA specification, "" if it is or is empty."""
    if not value or _VERSION.fullmatch(value):
        return ""
    return f"is {value!r}, must be such as TOSA-1.0+INT or TOSA-1.0+FP+bf16"


def integers_alone(specification: str) -> bool:
    """Whether delegates of it compute integers alone."""
    return "FP" not in specification.split("+")


@dataclass(frozen=True, kw_only=True)
class TosaOptions:
    """Options of the TOSA backend.

    Attributes:
        profile: fp, int or fp_int. With int only quantized ops are claimed, and float values never
            cross a delegate's border.
        extensions: of int16, int4, bf16 and cf (control flow).
        version: the whole specification in TOSA's spelling ("TOSA-1.0+INT"), in place of profile
            and extensions; empty takes these.
    """

    profile: Profile = Profile.fp
    extensions: list[Extension] = field(default_factory=list)
    version: str = field(default="", metadata={"check": check_version})

    @property
    def specification(self) -> str:
        """As TOSA spells it ("TOSA-1.0+FP+bf16")."""
        parts = [self.profile.value, *(one.value for one in self.extensions)]
        return self.version or "+".join(["TOSA-1.0", *parts])
