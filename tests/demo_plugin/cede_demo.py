"""A whole plugin: float32 running sums and GELUs go to the reference backend."""

import cede

TARGETS = {"aten.cumsum.default", "aten.gelu.default"}


class Demo:
    name, backend = "demo", "reference"

    def keeps(self, program):
        return cede.Keep()

    def claim(self, program):
        for op in program.graph.ops:
            if op.target not in TARGETS:
                yield self.refuse(op, cede.Code.UNKNOWN_OP, f"demo takes no {op.target}")
            elif any(out.dtype != "float32" for out in op.outputs):
                yield self.refuse(op, cede.Code.DTYPE, f"demo takes float32, not {op.outputs[0]}")
            else:
                yield cede.Claim(partitioner="demo", backend="reference", ops=frozenset({op.id}))

    def refuse(self, op, code, detail):
        reason = cede.Reason(code=code, detail=detail)
        return cede.Refusal(partitioner="demo", op=op.id, reason=reason)


@cede.hookimpl
def cede_partitioners():
    yield Demo()
