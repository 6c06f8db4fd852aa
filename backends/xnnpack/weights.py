"""Weight-only quantized products as XNNPACK can compute them (ExecuTorch 1.5.1).

XNNPACK multiplies float activations with int8 weights, and with int4 ones, of one scale for each
output channel and no zero point. The stock partitioner never says so: it takes the product apart
from its weight's scale. A whole linear and the dequantize of its weight, in one delegate, come out
right. Weights in groups can't be had with float activations: such a program does not load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cede.constants import constants, value_of
from cede.partitioners.wrapped import Wrapped
from cede.types import Claim, Keep, Ref, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Op, OpGraph, Program

PER_CHANNEL = "quantized_decomposed.dequantize_per_channel.default"
_INT8 = ((-128, 127), (-127, 127))
_INT4 = (-8, 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightOnly(Wrapped):
    """A partitioner that also claims linear ops of float activations with such weights.

    Attributes:
        inner: answers for all other ops; its refusals of these become claims.
    """

    def keeps(self, program: Program) -> Keep:
        """What `inner` wants whole, and linear ops with such weights."""
        import torch

        keep = self.inner.keeps(program)
        linear = torch.ops.aten.linear.default
        ops = keep.ops if linear in keep.ops else (*keep.ops, linear)
        accepts = keep.accepts

        def accepted(node: Any) -> bool:
            if _weight(node, linear) is not None:
                return _expressible(node, program.exported)
            return node.target in keep.ops and (accepts is None or accepts(node))

        return Keep(ops=ops, accepts=accepted, certain=keep.certain)

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """The inner answers, with a claim for each such linear and its weight's dequantize."""
        pairs = {op: pair for pair in _pairs(program.graph) for op in pair}
        told: set[str] = set()
        for answer in self.inner.claim(program):
            if isinstance(answer, Claim):
                told |= answer.ops
            elif answer.op in pairs:
                continue
            yield answer
        for pair in dict.fromkeys(pairs.values()):
            if not told & set(pair):
                yield Claim(
                    partitioner=self.name,
                    backend=self.backend,
                    ops=frozenset(pair),
                    note="float activation, quantized weight of one scale a channel",
                )


def _pairs(graph: OpGraph) -> Iterator[tuple[str, str]]:
    """Each dequantize with the linear whose weight it makes."""
    for op in graph.ops:
        if op.kind != "aten.linear" or op.outputs[0].dtype != "float32":
            continue
        weight = op.arg("weight")
        if op.arg("bias") is not None:  # its compiler would take it for a quantized one
            continue
        if isinstance(weight, Ref) and weight.id in graph:
            producer = graph.op(weight.id)
            if graph.users(producer.id) == (op.id,) and _per_channel(producer, graph):
                yield producer.id, op.id


def _per_channel(op: Op, graph: OpGraph) -> bool:
    """Whether an op dequantizes a constant int8 matrix with one scale for each row."""
    data = graph.input(op.inputs[0])
    fact = data.tensor if data is not None and data.constant else None
    if fact is None or fact.dtype != "int8" or fact.rank != 2:
        return False
    given = dict(op.args)
    fits = _fits(given.get("quant_min"), given.get("quant_max"), fact.shape[1])
    return op.target == PER_CHANNEL and given.get("axis") == 0 and fits


def _fits(low: Any, high: Any, columns: Any) -> bool:
    """Whether XNNPACK has weights of these bounds: int8, and int4 in pairs."""
    even = isinstance(columns, int) and columns % 2 == 0
    return (low, high) in _INT8 or ((low, high) == _INT4 and even)


def _expressible(linear: Any, program: Any) -> bool:
    """Whether a linear node of an ATen program will be claimed with its weight's dequantize.

    Here constants are real, at claiming they are not: so it is here that zero points must be 0.
    """
    weight, x = linear.args[1], linear.args[0]
    if len(linear.args) > 2 and linear.args[2] is not None:
        return False
    if len(weight.users) != 1 or str(x.meta["val"].dtype) != "torch.float32":
        return False
    data, _, zeros, axis, low, high = weight.args[:6]
    value, held = data.meta["val"], constants(program)
    return (
        (axis, str(value.dtype), value.dim()) == (0, "torch.int8", 2)
        and _fits(low, high, value.shape[1])
        and data.name in held
        and getattr(zeros, "name", "") in held
        and not bool(value_of(program, held[zeros.name]).any())
    )


def _weight(node: Any, linear: Any) -> Any | None:
    """The dequantize that makes the weight of a linear node of a float activation, or None."""
    if node.target is not linear or "dequantize" in str(node.args[0].target):
        return None
    made = node.args[1]
    return made if str(made.target) == PER_CHANNEL else None
