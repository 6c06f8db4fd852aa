"""What a mode means: bits, groups and activations. Names follow ExecuTorch's `export_llm`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cede.errors import ConfigError

MODES = ("int8", "4w", "8da4w", "8da8w")
GROUP = 32
"""The group size where none is given, for weights of 4 bits."""

KERNELS = "torchao:"
"""Before modes and embeddings that torchao's own kernels compute."""

_KERNELS = re.compile(r"torchao:(8da|fpa)(\d)w")
_BITS = (2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """In which numbers a linear module computes.

    Attributes:
        name: the mode.
        bits: of a weight, symmetric around 0.
        dynamic: whether activations become int8 while running, one scale a row.
        group: how many inputs share a scale; 0 is all of a row.
        kernels: whether torchao's own kernels compute it.
        fitted: whether scales of 4 bits are searched for, else the largest weight gives them.
    """

    name: str
    bits: int
    dynamic: bool
    group: int
    kernels: bool = False
    fitted: bool = False

    @property
    def step(self) -> int:
        """What group sizes are multiples of: XNNPACK's blocks are 32 long, its int4 in pairs."""
        return 32 if self.dynamic else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """In which numbers an embedding is stored.

    Attributes:
        bits: 2, 4 or 8; 1 to 8 with torchao's kernels.
        group: how many columns share a scale; 0 is all of a row.
        kernels: whether torchao's own kernels look it up.
        asymmetric: whether torchao gives a group a zero point too.
    """

    bits: int
    group: int
    kernels: bool = False
    asymmetric: bool = False

    @property
    def name(self) -> str:
        """ "4,32": as it is written."""
        more = "" if self.asymmetric else ",false"
        text = f"{self.bits},{self.group}"
        return f"torchao:{text}{more}" if self.kernels else text


def read_mode(mode: str, group: int | None, where: str = "mode") -> Scheme:
    """The scheme of a mode.

    Args:
        mode: one of `MODES`, "torchao:8daNw" or "torchao:fpaNw".
        group: the group size, None for the mode's own.
        where: what error messages call it.

    Raises:
        ConfigError: an unknown mode, a group size that it can't have, or kernels that this machine
            lacks.
    """
    if group is not None and group < 0:
        raise ConfigError(f"{where}: group_size is {group}; give 0 for one scale a row, or more")
    if (found := _KERNELS.fullmatch(mode)) is not None:
        return _with_kernels(mode, found[1] == "8da", int(found[2]), group, where)
    if mode not in MODES:
        raise ConfigError(
            f"{where}: unknown mode {mode!r}; known: {', '.join(MODES)}, and torchao:8daNw where"
            " torchao's own kernels are"
        )
    bits = 4 if mode in ("4w", "8da4w") else 8
    if bits == 8 and group:
        raise ConfigError(
            f"{where}: {mode} has one scale a row and no groups; leave group_size out, or take"
            f" {'8da4w' if mode == '8da8w' else '4w'}"
        )
    scheme = Scheme(
        name=mode,
        bits=bits,
        dynamic=mode.startswith("8da"),
        group=0 if bits == 8 else GROUP if group is None else group,
    )
    if scheme.group % scheme.step:
        raise ConfigError(
            f"{where}: group_size {scheme.group} is no multiple of {scheme.step}, as {mode} needs"
        )
    return scheme


def _with_kernels(mode: str, dynamic: bool, bits: int, group: int | None, where: str) -> Scheme:
    if not 1 <= bits <= 8:
        raise ConfigError(f"{where}: {mode}: {bits} bits; give 1 to 8")
    serves = "8da8w" if bits > 4 else "8da4w"
    if not dynamic:
        raise ConfigError(
            f"{where}: {mode} needs torchao's kernels for Apple's GPU (libtorchao_ops_mps_aten),"
            f" which run on macOS only; on the CPU take {serves}"
        )
    from cede.quant.source.kernels import LINEAR, lacking

    if missing := lacking(LINEAR, bits):
        raise ConfigError(
            f"{where}: {mode} needs torchao's CPU kernels, which torchao's wheel lacks (they are"
            f" built from its source, for Arm: {missing}); here {serves} serves"
        )
    return Scheme(name=mode, bits=bits, dynamic=True, group=group or 0, kernels=True)


def read_embedding(text: str, where: str = "embedding", *, shared: bool = False) -> Embedding:
    """The scheme of "BITS,GROUP", such as "4,32"; group 0 is one scale a row.

    Args:
        text: also "torchao:BITS,GROUP", or with a third part that says whether groups have zero
            points: true, the default, or false.
        where: what error messages call it.
        shared: whether a linear module shares the weight.

    Raises:
        ConfigError: another form, or bits that there are no kernels for; "torchao:..." where
            torchao's are missing.
    """
    kernels = text.startswith(KERNELS)
    parts = text.removeprefix(KERNELS).split(",")
    try:
        bits, group = (int(part) for part in parts[:2])
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is no BITS,GROUP, such as 4,32") from None
    known = tuple(range(1, 9)) if kernels else _BITS
    if bits not in known or group < 0 or len(parts) > 2 + kernels:
        raise ConfigError(
            f"{where}: {text!r}: bits are 2, 4 or 8, and a group is 0 (a row) or more: 4,32"
        )
    if not kernels:
        return Embedding(bits=bits, group=group)
    from cede.quant.source.kernels import SHARED, TABLE, lacking

    if missing := lacking(SHARED if shared else TABLE, bits):
        serves = f"here {bits},{group} serves" if bits in _BITS else "here 4 or 8 bits serve"
        raise ConfigError(
            f"{where}: {text!r} needs torchao's embedding kernels, which torchao's wheel lacks"
            f" (they are built from its source, for Arm: {missing}); {serves}"
        )
    asymmetric = len(parts) < 3 or parts[2].strip().lower() not in ("false", "0", "no")
    return Embedding(bits=bits, group=group, kernels=True, asymmetric=asymmetric)
