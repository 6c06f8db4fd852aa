"""Checkpoints that are quantized already: int8 weights with scales beside them.

The form is ExecuTorch's (`examples/models/llama/source_transformation/pre_quantization.py`, 1.5.1),
that of SpinQuant and of training for quantization: `X.weight` int8 and `X.scales`, with 4 bits a
scale a group, and for the output and the embedding, if asked for, one a row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from cede.errors import ConfigError
from cede.llm.data import data
from cede.llm.weights import TIED, Weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from cede.config.fit import Problems
    from cede.model import Model
    from cede.quant.source.given import Integers
    from cede.quant.source.rows import QuantizationReport
    from cede.quant.source.scheme import Embedding, Scheme

MODE = "base.preq_mode"
SCALES, ZEROS, WEIGHT = ".scales", ".zeros", ".weight"
_ROWS = "8da4w_output_8da8w"
_NOTE = "quantized in the checkpoint"


def check_prequantized(llm: Any, problems: Problems) -> None:
    """Add what stands against a quantized checkpoint before it is read."""
    asked, on = llm.quantization, llm.base.preq_mode is not None
    for key in ("use_spin_quant", "use_qat"):
        if getattr(asked, key) and not on:
            problems.add(
                f"quantization.{key}", f"needs {MODE}: what the checkpoint is quantized to"
            )
    runs: str = data("backends.json")["spin_quant"]
    if asked.use_spin_quant is not None and asked.use_spin_quant.value != runs:
        problems.add(
            "quantization.use_spin_quant",
            f"can't be had: {asked.use_spin_quant.value} calls a package that runs on a GPU, and no"
            f" program can hold it: take {runs}",
        )
    if not on:
        return
    if llm.base.random_weights:
        problems.add(MODE, "does not go with base.random_weights: give base.checkpoint")
    others = {"model.use_shared_embedding": llm.model.use_shared_embedding,
              "quantization.pt2e_quantize": asked.pt2e_quantize,
              "model.input_prune_map": llm.model.input_prune_map,
              "model.output_prune_map": llm.model.output_prune_map}  # fmt: skip
    for path, value in others.items():
        if value:
            problems.add(MODE, f"does not go with {path}, which takes weights in float")
    if llm.model.dtype_override.value != "fp32":
        problems.add(MODE, "needs model.dtype_override: fp32, as scales are")
    _schemes(llm, problems)


def taken_apart(
    weights: Weights | None, llm: Any, problems: Problems
) -> tuple[Weights | None, dict[str, Integers]]:
    """The checkpoint without its scales, and the weights that have some, by module.

    The integers are among the checkpoint's tensors too, to be held against the model's shapes.
    """
    from cede.quant.source.given import Integers

    scaled = [name for name in weights.tensors if name.endswith(SCALES)] if weights else []
    if weights is None or llm.base.preq_mode is None:
        if scaled:
            problems.add(MODE, f"is not given, and the checkpoint is quantized: it has {scaled[0]}")
        return weights, {}
    if not scaled:
        problems.add(MODE, "is given, and no weight of the checkpoint has scales")
    found = {}
    schemes = _schemes(llm, problems)
    for name in scaled:
        path = name.removesuffix(SCALES)
        data, scale = weights.tensors.get(path + WEIGHT), weights.tensors[name]
        path_scheme = _scheme_of(path, schemes)
        if path_scheme is None:  # a problem is added
            continue
        if why := _unlike(path_scheme, data, scale, weights.tensors.get(path + ZEROS)):
            problems.add("base.checkpoint", f"{path}: {why}")
            continue
        assert data is not None  # noqa: S101  (it was looked at)
        rows = data.shape[0]
        found[path] = Integers(
            scheme=path_scheme, data=data.contiguous(), scale=scale.reshape(rows, -1).float()
        )
    held = [name for name in weights.tensors if not name.endswith((SCALES, ZEROS))]
    plain = {name: weights.tensors[name] for name in held}
    return replace(weights, tensors=plain), found


def without(weights: Weights | None, integers: Mapping[str, Integers]) -> Weights | None:
    """The checkpoint without these integers; an output that is tied to one has its values."""
    if weights is None or not integers:
        return weights
    plain = {name: value for name, value in weights.tensors.items()
             if name.removesuffix(WEIGHT) not in integers}  # fmt: skip
    if TIED[0] not in weights.tensors and TIED[1] not in plain:
        plain[TIED[0]] = integers[TIED[1].removesuffix(WEIGHT)].dequantized()
    return replace(weights, tensors=plain)


def put_in(made: Model, integers: Mapping[str, Integers], llm: Any) -> Model:
    """The model, changed in place: modules of the integers, and the rotations of SpinQuant."""
    from cede.llm.transforms import with_hadamard
    from cede.quant.source.given import put

    module = made.source()
    put(module, integers)
    if llm.quantization.use_spin_quant:
        module = with_hadamard(module)
    return replace(made, module=module.eval())


def told_of(made: Model, integers: Mapping[str, Integers]) -> Model:
    """The model with a row of its report for each of the integers."""
    from cede.quant.source.given import with_rows

    if not integers:
        return made
    report = cast("QuantizationReport | None", made.quantization)
    return replace(made, quantization=with_rows(report, made.source(), integers, _NOTE))


def sizes_fit(llm: Any, params: Mapping[str, Any], module: Any, problems: Problems) -> None:
    """Add another group size of the params, and sizes that SpinQuant's kernel gets wrong.

    `op_fast_hadamard_transform.cpp` of ExecuTorch 1.5.1 takes powers of two. 28 times one it does
    not scale: what comes out is sqrt(28) too large. For others it logs an error and gives noise.
    """
    group = (params.get("quantization_args") or {}).get("group_size")
    if llm.base.preq_mode is not None and group not in (None, llm.base.preq_group_size):
        problems.add(
            "base.preq_group_size",
            f"is {llm.base.preq_group_size}, and quantization_args of the params say {group}",
        )
    if not llm.quantization.use_spin_quant:
        return
    from cede.llm.transforms import rotated_sizes

    if wrong := sorted({size for size in rotated_sizes(module) if size & (size - 1)}):
        problems.add(
            "quantization.use_spin_quant",
            f"can't be had: ExecuTorch's kernel rotates powers of two rightly, and feed-forward"
            f" layers of this model have {', '.join(map(str, wrong))} values",
        )


def _schemes(llm: Any, problems: Problems) -> dict[str, Scheme | Embedding]:
    """Of linear modules (""), of the output and of the embedding, as far as they are asked for."""
    from cede.quant.source import read_embedding, read_mode

    base = llm.base
    made: dict[str, Scheme | Embedding] = {}
    try:
        made[""] = read_mode("8da4w", base.preq_group_size)
    except ConfigError as error:
        problems.add("base.preq_group_size", str(error).removeprefix("mode: "))
    if base.preq_mode.value == _ROWS:
        made[TIED[0]] = read_mode("8da8w", None)
    bits, comma, group = base.preq_embedding_quantize.partition(",")
    group = "0" if group.strip().lower() == "none" else group
    try:
        made[TIED[1]] = read_embedding(f"{bits}{comma}{group}")
    except ConfigError as error:
        problems.add("base.preq_embedding_quantize", str(error).removeprefix("embedding: "))
    return made


def _scheme_of(path: str, schemes: Mapping[str, Any]) -> Any:
    weight = path + WEIGHT
    if weight == TIED[1]:
        return schemes.get(weight)
    return schemes.get(weight) or schemes.get("")


def _unlike(scheme: Any, data: Tensor | None, scale: Tensor, zeros: Tensor | None) -> str:
    """What a weight and its scales have against a scheme, "" for nothing."""
    import torch

    if data is None or data.dtype != torch.int8 or data.dim() != 2:
        kind = "missing" if data is None else f"{str(data.dtype).removeprefix('torch.')}"
        return f"it has scales, so its weight has to be int8 [out, in]; it is {kind}"
    rows, columns = data.shape
    wanted = columns // scheme.group if scheme.group else 1
    if (scheme.group and columns % scheme.group) or scale.numel() != rows * wanted:
        return (
            f"scales are {list(scale.shape)}, and a weight {list(data.shape)} in {scheme.name}"
            f" with groups of {scheme.group or columns} has {rows * wanted}"
        )
    half = 2 ** (scheme.bits - 1)
    least, most = (int(value) for value in torch.aminmax(data))
    if least < -half or most >= half:
        return f"values are {least} to {most}, which are no {scheme.bits} bits"
    if zeros is not None and bool(zeros.any()):
        return "zero points other than 0 can't be had"
    return ""
