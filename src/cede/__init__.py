"""Cede the subgraphs of an exported PyTorch program to the backends that claim them.

Nothing heavy is imported until it is used: `import cede` imports neither torch nor ExecuTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cede.lazy import lazily

if TYPE_CHECKING:
    from cede import checkpoint as checkpoint
    from cede.api import (
        bench,
        check,
        export,
        lower,
        partitioner,
        plan,
        report,
        run,
        what_if,
    )
    from cede.config import Config, load_config
    from cede.errors import (
        CedeError,
        CheckpointError,
        ConfigError,
        EncodingError,
        LoweringError,
        PlanError,
        PluginError,
        PolicyError,
    )
    from cede.hookspec import hookimpl
    from cede.layers import current_layer, layer
    from cede.planning import Plan
    from cede.quant.encodings.tensor import QuantizedTensor, quantize
    from cede.quant.pt2e import quantize_program
    from cede.quantizing import quantize_model, rank_layers, suggest_quantization
    from cede.scripted import store_once
    from cede.types import (
        Availability,
        Backend,
        Claim,
        Code,
        Encoding,
        Field,
        Finding,
        Inputs,
        Keep,
        Op,
        OpGraph,
        Partitioner,
        Program,
        Quantizer,
        Reason,
        Refusal,
        Settlement,
    )
    from cede.verifying import bisect, verify

_HOME = {
    "cede.api": (
        "bench",
        "check",
        "export",
        "lower",
        "partitioner",
        "plan",
        "report",
        "run",
        "what_if",
    ),
    "cede.config": ("Config", "load_config"),
    "cede.errors": (
        "CedeError",
        "CheckpointError",
        "ConfigError",
        "EncodingError",
        "LoweringError",
        "PlanError",
        "PluginError",
        "PolicyError",
    ),
    "cede.hookspec": ("hookimpl",),
    "cede.layers": ("current_layer", "layer"),
    "cede.planning": ("Plan",),
    "cede.quant.encodings": ("QuantizedTensor", "quantize"),
    "cede.quant.pt2e": ("quantize_program",),
    "cede.quantizing": ("quantize_model", "rank_layers", "suggest_quantization"),
    "cede.scripted": ("store_once",),
    "cede.types": (
        "Availability",
        "Backend",
        "Claim",
        "Code",
        "Encoding",
        "Field",
        "Finding",
        "Inputs",
        "Keep",
        "Op",
        "OpGraph",
        "Partitioner",
        "Program",
        "Quantizer",
        "Reason",
        "Refusal",
        "Settlement",
    ),
    "cede.verifying": ("bisect", "verify"),
}
_attribute = lazily(__name__, _HOME)

__all__ = [
    "Availability",
    "Backend",
    "CedeError",
    "CheckpointError",
    "Claim",
    "Code",
    "Config",
    "ConfigError",
    "Encoding",
    "EncodingError",
    "Field",
    "Finding",
    "Inputs",
    "Keep",
    "LoweringError",
    "Op",
    "OpGraph",
    "Partitioner",
    "Plan",
    "PlanError",
    "PluginError",
    "PolicyError",
    "Program",
    "QuantizedTensor",
    "Quantizer",
    "Reason",
    "Refusal",
    "Settlement",
    "bench",
    "bisect",
    "check",
    "current_layer",
    "export",
    "hookimpl",
    "layer",
    "load_config",
    "lower",
    "partitioner",
    "plan",
    "quantize",
    "quantize_model",
    "quantize_program",
    "rank_layers",
    "report",
    "run",
    "store_once",
    "suggest_quantization",
    "verify",
    "what_if",
]


def __getattr__(name: str) -> Any:
    if name == "checkpoint":
        return import_module("cede.checkpoint")
    return _attribute(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
