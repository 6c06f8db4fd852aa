"""Options of the TOSA backend: which TOSA a delegate may use."""

from __future__ import annotations

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


@dataclass(frozen=True, kw_only=True)
class TosaOptions:
    """Options of the TOSA backend.

    Attributes:
        profile: fp, int or fp_int. With int only quantized ops are claimed, and float values never
            cross a delegate's border.
        extensions: of int16, int4, bf16 and cf (control flow).
    """

    profile: Profile = Profile.fp
    extensions: list[Extension] = field(default_factory=list)

    @property
    def specification(self) -> str:
        """As TOSA spells it ("TOSA-1.0+FP+bf16")."""
        return "+".join(["TOSA-1.0", self.profile.value, *(one.value for one in self.extensions)])
