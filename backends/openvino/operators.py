"""Operators that OpenVINO's compiler can't take, or computes otherwise than eager, in some uses.

Each was seen with ExecuTorch 1.5.1 and OpenVINO 2026.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.partitioners.rules import per_op
from cede.types import Code, Reason, Ref

if TYPE_CHECKING:
    from cede.partitioners.rules import Check
    from cede.types import Argument, Op, OpGraph


@per_op
def operator(op: Op, graph: OpGraph) -> Reason | None:
    """Veto the uses of single operators that `_CHECKS` knows."""
    reasons = (check(op, graph) for check in _CHECKS.get(op.kind, ()))
    return next((reason for reason in reasons if reason is not None), None)


def _no_conversion(op: Op, graph: OpGraph) -> Reason | None:
    return Reason(code=Code.NO_KERNEL, detail=f"OpenVINO can't convert {op.target}")


def _single(op: Op, graph: OpGraph) -> Reason | None:
    if len(_refs(_argument(op, "tensors"))) != 1:
        return None
    return _refused(op, "a list of one tensor can't be converted")


def _fractions(op: Op, graph: OpGraph) -> Reason | None:
    values = (_argument(op, name) for name in ("start", "end", "step"))
    if all(isinstance(value, int) for value in values if value is not None):
        return None
    return _refused(op, "its bounds and step are cut to integers")


def _divisor(op: Op, graph: OpGraph) -> Reason | None:
    value = _argument(op, "divisor_override")
    if value is None:
        return None
    return _refused(op, f"divisor_override {value} can't be converted")


def _ceil_with_padding(op: Op, graph: OpGraph) -> Reason | None:
    padding = _argument(op, "padding")
    padded = any(padding) if isinstance(padding, tuple) else bool(padding)
    if not (_argument(op, "ceil_mode") and padded and _argument(op, "count_include_pad")):
        return None
    return _refused(op, "ceil_mode with padding that counts divides the last windows wrongly")


def _correction(op: Op, graph: OpGraph) -> Reason | None:
    value = _argument(op, "correction")
    if value in (None, 0, 1):
        return None
    return _refused(op, f"correction {value} can't be converted, only 0 and 1")


def _statistics(op: Op, graph: OpGraph) -> Reason | None:
    """Only the first result of a normalization is there."""
    for user in graph.users(op.id):
        one = graph.op(user)
        if one.target == "getitem" and _argument(one, "index") != 0:
            return _refused(op, f"its statistics are read, by {user}; only the first result is")
    return None


def _mask(op: Op, graph: OpGraph) -> Reason | None:
    """Indexing by a mask gives as many rows as it has ones."""
    for ref in _refs(_argument(op, "indices")):
        fact = graph.fact(ref.id)
        if fact is not None and fact.dtype in ("bool", "uint8"):
            return Reason(
                code=Code.DYNAMIC_SHAPE,
                detail=f"{op.target} by the mask {ref.id} ({fact}): the result's size is only "
                "known when it runs",
            )
    return None


def _accumulate(op: Op, graph: OpGraph) -> Reason | None:
    if not _argument(op, "accumulate"):
        return None
    return _refused(op, "accumulate keeps one of several values for an index instead of their sum")


def _input_scale(op: Op, graph: OpGraph) -> Reason | None:
    value = _argument(op, "input_scale")
    if value in (None, 1):
        return None
    return _refused(op, f"input_scale {value} can't be converted, only 1")


def _dropout(op: Op, graph: OpGraph) -> Reason | None:
    return Reason(code=Code.NO_KERNEL, detail=f"a delegate with {op.target} fails when it runs")


def _bool_arithmetic(op: Op, graph: OpGraph) -> Reason | None:
    if any(fact.dtype == "bool" for fact in op.outputs):
        return Reason(code=Code.DTYPE, detail=f"OpenVINO has no {op.target} of bool and bool")
    return None


def _byte_arithmetic(op: Op, graph: OpGraph) -> Reason | None:
    for fact in op.outputs:
        if fact.dtype in ("int8", "uint8"):
            return Reason(
                code=Code.DTYPE,
                detail=f"{op.target} gives {fact}: the delegate stops at the largest {fact.dtype} "
                "where eager wraps around",
            )
    return None


def _integer_comparison(op: Op, graph: OpGraph) -> Reason | None:
    for used in op.inputs:
        fact = graph.fact(used)
        if fact is not None and fact.dtype in ("int32", "int64"):
            return Reason(
                code=Code.DTYPE,
                detail=f"{op.target} of {fact}: the delegate compares as float32, which can't "
                "tell integers above 2**24 apart",
            )
    return None


def _refused(op: Op, why: str) -> Reason:
    return Reason(code=Code.ARGUMENT, detail=f"{op.target}: {why}")


def _argument(op: Op, name: str) -> Argument:
    return dict(op.args).get(name)


def _refs(value: Argument) -> tuple[Ref, ...]:
    values = value if isinstance(value, tuple) else (value,)
    return tuple(each for each in values if isinstance(each, Ref))


_ARITHMETIC = ("aten.add", "aten.sub", "aten.rsub", "aten.mul", "aten.div", "aten.pow")
_COMPARISONS = ("aten.eq", "aten.ne", "aten.lt", "aten.le", "aten.gt", "aten.ge")
_NORMS = ("aten.native_layer_norm", "aten.native_group_norm", "aten.native_batch_norm",
          "aten._native_batch_norm_legit_no_training", "aten._native_batch_norm_legit")  # fmt: skip

_CHECKS: dict[str, tuple[Check, ...]] = {
    "aten.arange": (_fractions,),
    "aten.cat": (_single,),
    "aten.elu": (_input_scale,),
    "aten.native_dropout": (_dropout,),
    "aten.as_strided_copy": (_no_conversion,),
    "aten.avg_pool2d": (_divisor, _ceil_with_padding),
    "aten.avg_pool3d": (_divisor, _ceil_with_padding),
    "aten.var": (_correction,),
    "aten.std": (_correction,),
    "aten.index": (_mask,),
    "aten.index_put": (_mask, _accumulate),
    **dict.fromkeys(_NORMS, (_statistics,)),
    **dict.fromkeys(_ARITHMETIC, (_bool_arithmetic, _byte_arithmetic)),
    **dict.fromkeys(_COMPARISONS, (_integer_comparison,)),
}
