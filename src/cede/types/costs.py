"""What computing and moving costs, as a value: seconds, and the rates they are predicted from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measured seconds of one kind of op.

    Attributes:
        kind: the operator without overload ("aten.addmm").
        dtype: of its first output ("float32").
        points: (work, seconds), by rising work. Work is FLOPs, or bytes read and written where an
            op has no FLOPs.
    """

    kind: str
    dtype: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What one target, a backend or the fallback, costs.

    An op takes max(FLOPs / flops_per_second, bytes / bytes_per_second) + op_seconds: a roofline
    (S. Williams, A. Waterman and D. Patterson, "Roofline: An Insightful Visual Performance Model",
    2009). Measurements of its kind replace the FLOPs' part.

    Attributes:
        flops_per_second: peak, in FLOPs (a multiply-add counts two) a second.
        bytes_per_second: of inputs, constants and outputs.
        op_seconds: for each op, whatever its size.
        launch_seconds: for each call of a delegate; 0 for the fallback.
        border_seconds: for each tensor that enters or leaves a delegate.
        border_bytes_per_second: of a tensor that enters or leaves a delegate.
        dim_order: layout in which it wants tensors of that rank, () for any; another one is
            converted at the border, reading and writing the tensor once.
        dtypes: in which it computes floating-point numbers, () for any; another one is converted
            likewise.
        measured: by kind and dtype.
    """

    flops_per_second: float
    bytes_per_second: float
    op_seconds: float = 0.0
    launch_seconds: float = 0.0
    border_seconds: float = 0.0
    border_bytes_per_second: float = math.inf
    dim_order: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What decides in cost mode, and what predictions are made from.

    Attributes:
        fallback: rates of what no delegate takes.
        backends: rates by backend name.
        given: seconds of an op on a backend, by (backend, op id), where the backend or the claim
            told; these go before the rates.
        origin: where the numbers come from, for messages.
    """

    fallback: Rates
    backends: Mapping[str, Rates] = field(default_factory=dict)
    given: Mapping[tuple[str, str], float] = field(default_factory=dict)
    origin: str = "defaults"
