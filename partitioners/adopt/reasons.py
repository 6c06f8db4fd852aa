"""From what a stock partitioner says to a code that tools can count."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cede.types import Code, Reason, Ref

if TYPE_CHECKING:
    from cede.types import Op, OpGraph

# First match wins: the words of the stock partitioners in ExecuTorch 1.5.
_WORDS: tuple[tuple[str, Code], ...] = (
    (r"no (operator )?implementation|no handler|unsupported op|op not supported", Code.UNKNOWN_OP),
    (r"no visitor|not included in", Code.UNKNOWN_OP),
    (r"quant|qparam|zero.?point|precision|\bscale", Code.QUANT_SCHEME),
    (r"static param|constant|is_param|computed", Code.NOT_CONSTANT),
    (r"dtype|data.?type|bfloat16|float16|int64|complex", Code.DTYPE),
    (r"dynamic|symint|symbolic|free_symbols|unbacked", Code.DYNAMIC_SHAPE),
    (r"memory.?format|layout|dim.?order|channels.?last|stride\(", Code.LAYOUT),
    (r"\bdims?\b|rank|shape|size|dimension|numel|[123]d\b|len\(|empty", Code.SHAPE),
    (r"ceil|stride|padding|dilation|keep_dims|align|mode|alpha|arg|mask|divisor", Code.ARGUMENT),
)


def reason_for(op: Op, graph: OpGraph, said: list[str], silent: str, no_rule: bool) -> Reason:
    """The reason for one op that a stock partitioner left.

    Args:
        op: the op.
        graph: its graph, for the facts that the words leave out.
        said: what was logged about it.
        silent: where a check declined without a word.
        no_rule: whether the partitioner has no rule for the operator at all.
    """
    if no_rule:
        return Reason(code=Code.UNKNOWN_OP, detail=f"no rule for {op.target}")
    if said:
        text = "; ".join(dict.fromkeys(_core(each) for each in said))
        return Reason(code=_code(text), detail=_with_facts(text, op, graph))
    if silent:
        return Reason(code=_code(silent.rpartition("): ")[2]), detail=f"declined by {silent}")
    return Reason(code=Code.UNKNOWN_OP, detail=f"{op.target} is not supported")


def _core(text: str) -> str:
    """The reason alone, where it stands in brackets between a logger's name and the node."""
    found = re.search(r"Due to \[(.+?)\], skipping", text)
    return found.group(1) if found else text


def _code(text: str) -> Code:
    lowered = text.lower()
    for words, code in _WORDS:
        if re.search(words, lowered):
            return code
    return Code.DECLINED


def _with_facts(text: str, op: Op, graph: OpGraph) -> str:
    code = _code(text)
    if code is Code.DTYPE:
        return f"{text} ({_signature(op, graph)})"
    if code is Code.NOT_CONSTANT:
        chain = _computed(op, graph)
        return f"{text}; {chain}" if chain else text
    return text


def _signature(op: Op, graph: OpGraph) -> str:
    given = [fact for used in op.inputs if (fact := graph.fact(used)) is not None]
    return f"inputs {', '.join(map(str, given))}; output {', '.join(map(str, op.outputs))}"


def _computed(op: Op, graph: OpGraph) -> str:
    """Which weight is computed, and from what."""
    for name, value in op.args[1:3]:
        if isinstance(value, Ref) and value.id in graph:
            chain: list[str] = []
            current = value.id
            while current in graph and len(chain) < 6:
                producer = graph.op(current)
                chain.append(producer.target)
                current = next((used for used in producer.inputs if used in graph), "")
            return f"{name} is computed, not constant: {' <- '.join(chain)}"
    return ""
