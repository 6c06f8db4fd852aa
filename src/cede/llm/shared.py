"""`model.use_shared_embedding`: the embedding and the output layer have one weight in the file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from cede.llm.weights import TIED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import torch

    from cede.config import QuantizeConfig
    from cede.config.fit import Problems
    from cede.llm.weights import Weights
    from cede.lowering import Lowered
    from cede.model import Model
    from cede.quant.source.layers import Layer
    from cede.quant.source.rows import QuantizationReport

OUTPUT, TABLE = (name.removesuffix(".weight") for name in TIED)
PATH = "model.use_shared_embedding"
KERNELS = "torchao:"
DYNAMIC = ("8da4w", "8da8w", "torchao:8da")


def numbers_go_together(llm: Any, problems: Problems) -> None:
    """Add what stands against one weight before anything is read."""
    asked, torchao = llm.quantization, llm.backend.torchao
    if torchao.use_torchao_kernels_tied_embedding and not asks_torchao(llm):
        problems.add(
            "backend.torchao.use_torchao_kernels_tied_embedding",
            f"needs {PATH}: true, and quantization.embedding_quantize: torchao:BITS,GROUP",
        )
    if torchao.use_torchao_kernels_linear and not (asked.qmode or "").startswith(DYNAMIC):
        problems.add(
            "backend.torchao.use_torchao_kernels_linear",
            f"needs quantization.qmode: {', '.join(DYNAMIC)}Nw",
        )
    if not llm.model.use_shared_embedding:
        return
    if asked.pt2e_quantize is not None:
        problems.add(PATH, "does not go with quantization.pt2e_quantize, which leaves the embedding"
                     " in float: give quantization.qmode and embedding_quantize")  # fmt: skip
    elif bool(asked.qmode) != bool(asked.embedding_quantize) and not asks_torchao(llm):
        lacks = "embedding_quantize" if asked.qmode else "qmode"
        problems.add(PATH, f"needs quantization.{lacks} too, of the same bits and groups")


def asks_torchao(llm: Any) -> bool:
    """Whether torchao's kernels are to read the one weight."""
    given = llm.quantization.embedding_quantize or ""
    return bool(llm.model.use_shared_embedding and given.startswith(KERNELS))


def check_shared(
    llm: Any, asked: Sequence[Layer], weights: Weights | None, problems: Problems
) -> None:
    """Add what stands against one weight in the model's layers and in its checkpoint.

    Args:
        llm: an instance of `LlmConfig`.
        asked: what is to be done with each module, from `cede.quant.source.layers`.
        weights: the checkpoint, None for random weights.
        problems: where problems are added.
    """
    from cede.quant.source.shared import shared

    if not llm.model.use_shared_embedding:
        return
    if not asks_torchao(llm) and (why := shared(asked, OUTPUT, TABLE)):
        problems.add(PATH, why)
    if weights is not None and not _tied(weights):
        problems.add(PATH, f"the checkpoint has an {TIED[0]} of its own: leave the option out")


def tied_by_torchao(made: Model, llm: Any) -> Model:
    """The model with the one weight in torchao's kernels, where the config asks for them."""
    if not asks_torchao(llm):
        return made
    from cede.quant.source import read_embedding
    from cede.quant.source.kernels import tie

    scheme = read_embedding(llm.quantization.embedding_quantize, shared=True)
    module = made.source()
    tie(module, TABLE, OUTPUT, scheme)
    return replace(made, module=module)


def with_one_weight(made: Model, llm: Any) -> Model:
    """The quantized model with the output's data in the embedding too."""
    if not llm.model.use_shared_embedding or asks_torchao(llm) or not llm.quantization.qmode:
        return made
    from cede.quant.source.shared import with_shared_data

    report = cast("QuantizationReport", made.quantization)
    return replace(made, quantization=with_shared_data(made.source(), report, OUTPUT, TABLE))


def told_if_twice(lowered: Lowered, model: Model, llm: Any) -> Lowered:
    """The program, with a warning where the weight does not stand in its file once."""
    if not llm.model.use_shared_embedding or asks_torchao(llm) or lowered.weights:
        return lowered
    owner = lowered.plan.delegation_of()
    ops = [op for op in lowered.graph.ops if op.module == OUTPUT and op.id in owner]
    if not ops or _raw(model.source()) in _named(lowered):
        return lowered
    line = (
        f"{PATH}: {owner[ops[0].id].backend} writes the weight of {OUTPUT} in a form of its own,"
        " so that it is stored beside that of the embedding"
    )
    return replace(lowered, warnings=(*lowered.warnings, line))


def _raw(module: torch.nn.Module) -> bytes:
    """The data of the embedding as a program has them."""
    import torch

    table = module.get_submodule(TABLE)
    data = table.get_buffer("data") if "data" in table._buffers else table.get_parameter("weight")
    raw = data.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return bytes(raw)


def _named(lowered: Lowered) -> Collection[bytes]:
    from cede.running.pte import read

    return read(lowered.buffer, "the program").named.values()


def without_table(quantize: QuantizeConfig, llm: Any) -> QuantizeConfig:
    """The numbers of what is left to quantize where torchao has the embedding already."""
    return replace(quantize, embedding="") if asks_torchao(llm) else quantize


def _tied(weights: Weights) -> bool:
    """Whether the output's weight is the embedding's, or has its values."""
    import torch

    if any(name not in weights.tensors for name in TIED):
        return True
    plain = [value if isinstance(value, torch.Tensor) else value.dequantize()
             for value in (weights.tensors[name] for name in TIED)]  # fmt: skip
    return bool(plain[0].shape == plain[1].shape and torch.equal(*plain))
