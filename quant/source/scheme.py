"""What a mode means: bits, groups and activations. Names follow ExecuTorch's `export_llm`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cede.errors import ConfigError

MODES = ("int8", "4w", "8da4w", "8da8w")
GROUP = 32
"""The group size where none is given, for weights of 4 bits."""

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
        bits: 2, 4 or 8.
        group: how many columns share a scale; 0 is all of a row.
    """

    bits: int
    group: int

    @property
    def name(self) -> str:
        """ "4,32": as it is written."""
        return f"{self.bits},{self.group}"


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
    from torchao.quantization.quantize_.workflows.intx import intx_opaque_tensor

    if not intx_opaque_tensor._is_kernel_library_loaded():
        raise ConfigError(
            f"{where}: {mode} needs torchao's CPU kernels, which torchao's wheel for this platform"
            f" lacks (they are built for Arm); here {serves} serves"
        )
    return Scheme(name=mode, bits=bits, dynamic=True, group=group or 0, kernels=True)


def read_embedding(text: str, where: str = "embedding") -> Embedding:
    """The scheme of "BITS,GROUP", such as "4,32"; group 0 is one scale a row.

    Raises:
        ConfigError: another form, or other bits than 2, 4 and 8; "torchao:..." where its kernels
            are missing.
    """
    kernels = text.startswith("torchao:")
    parts = text.removeprefix("torchao:").split(",")
    try:
        bits, group = (int(part) for part in parts[:2])
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is no BITS,GROUP, such as 4,32") from None
    if bits not in _BITS or group < 0 or len(parts) > 2 + kernels:
        raise ConfigError(
            f"{where}: {text!r}: bits are 2, 4 or 8, and a group is 0 (a row) or more: 4,32"
        )
    if kernels:
        raise ConfigError(
            f"{where}: {text!r} needs torchao's embedding kernels, which torchao's wheel for this"
            f" platform lacks (they are built for Arm); here {bits},{group} serves"
        )
    return Embedding(bits=bits, group=group)
