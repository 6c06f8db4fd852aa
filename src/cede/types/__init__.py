"""The records that plugins and the spine exchange. Frozen, keyword-only, and free of torch."""

from cede.types.answers import Claim, Code, Keep, Mark, Partitioner, Program, Reason, Refusal, Spec
from cede.types.backend import Availability, Backend, Limits, LoadedProgram, NoOptions
from cede.types.contest import Contest, Delegation, Finding, Loss, Part, Settlement
from cede.types.costs import Costs, Measured, Rates
from cede.types.encodings import Encoding, Field, block_bytes
from cede.types.graph import (
    Argument,
    Dim,
    GraphInput,
    InputKind,
    Op,
    OpGraph,
    Ref,
    SymbolBounds,
    TensorFact,
)
from cede.types.inputs import Inputs, inputs_of
from cede.types.quantizer import Quantizer

__all__ = [
    "Argument",
    "Availability",
    "Backend",
    "Claim",
    "Code",
    "Contest",
    "Costs",
    "Delegation",
    "Dim",
    "Encoding",
    "Field",
    "Finding",
    "GraphInput",
    "InputKind",
    "Inputs",
    "Keep",
    "Limits",
    "LoadedProgram",
    "Loss",
    "Mark",
    "Measured",
    "NoOptions",
    "Op",
    "OpGraph",
    "Part",
    "Partitioner",
    "Program",
    "Quantizer",
    "Rates",
    "Reason",
    "Ref",
    "Refusal",
    "Settlement",
    "Spec",
    "SymbolBounds",
    "TensorFact",
    "block_bytes",
    "inputs_of",
]
