"""Plans that OpenVINO would compute wrongly, seen with ExecuTorch 1.5.1 and OpenVINO 2026.0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.planning import Plan
    from cede.types import OpGraph

_WEIGHTS = (
    "quantized_decomposed.quantize_per_channel",
    "quantized_decomposed.dequantize_per_channel",
)


def weights_that_leave(plan: Plan, graph: OpGraph) -> Iterator[Finding]:
    """An error for each quantized weight that is read outside of the delegate that makes it.

    Such a delegate returns other numbers, without a sound.
    """
    for given in plan.delegations:
        if given.backend != "openvino":
            continue
        own = set(given.ops)
        for id in given.ops:
            readers = [user for user in graph.users(id) if user not in own]
            if graph.op(id).kind in _WEIGHTS and readers:
                yield Finding(severity="error", op=id, message=_message(id, given.id, readers[0]))


def _message(id: str, delegate: str, reader: str) -> str:
    return (
        f"{reader} reads {id}, a quantized weight, from outside of delegate {delegate} of openvino,"
        f" which would give it wrong numbers: let {reader} stay with openvino, or leave it in float"
        " with a rule in quantize.layers"
    )
