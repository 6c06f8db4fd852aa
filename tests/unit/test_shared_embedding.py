"""An embedding and the output layer with one weight: in stock kernels, and in torchao's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
import yaml

from cede.errors import ConfigError
from cede.llm import LlmProgram, export_llm, load_settings
from cede.llm.build import model_of, prepare
from cede.llm.generating import logits_of

if TYPE_CHECKING:
    from pathlib import Path

    from cede.llm import LlmSettings

SIZES = {"dim": 64, "hidden_dim": 128, "n_layers": 1, "n_heads": 4, "vocab_size": 512}


def asked(folder: Path, *overrides: str) -> LlmSettings:
    """For a small model with random weights."""
    (folder / "params.json").write_text(json.dumps(SIZES))
    sections = {
        "base": {"random_weights": True, "params": str(folder / "params.json")},
        "model": {"use_kv_cache": True, "use_shared_embedding": True},
        "export": {"max_seq_length": 8, "max_context_length": 32,
                   "output_name": str(folder / "tiny.pte")},
        "backend": {"xnnpack": {"enabled": True}},
    }  # fmt: skip
    (folder / "llm.yaml").write_text(yaml.safe_dump(sections))
    return load_settings(folder / "llm.yaml", overrides)


def test_four_bits_lie_in_the_file_once_and_compute_as_in_eager(tmp_path: Path) -> None:
    numbers = ["quantization.qmode=8da4w", "quantization.group_size=32",
               "quantization.embedding_quantize='4,32'"]  # fmt: skip
    made = export_llm(asked(tmp_path, *numbers))
    assert made.lowered is not None
    assert not made.lowered.warnings
    model = made.model.source()
    table = model.get_submodule("tok_embeddings")
    raw = table.get_buffer("data").numpy().tobytes()
    assert made.path.read_bytes().count(raw) == 1
    ids = list(range(5, 15))
    with torch.no_grad():
        wanted = [model(torch.tensor([[t]]), {"input_pos": torch.tensor([i])}).reshape(-1)
                  for i, t in enumerate(ids)]  # fmt: skip
        weight = model.get_submodule("output").get_parameter("weight").dequantize()
        assert torch.equal(table(torch.tensor([3, 500])), weight[[3, 500]])
    got = logits_of(LlmProgram(made.path), ids)
    assert float((got - torch.stack(wanted)).norm() / torch.stack(wanted).norm()) < 0.02


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        (["qmode=8da4w"], "needs quantization.embedding_quantize too"),
        (["pt2e_quantize=xnnpack_dynamic"], "does not go with quantization.pt2e_quantize"),
        (
            ["qmode=8da4w", "embedding_quantize='4,32'"],
            "tok_embeddings is in 4,32 and output in 4,64",
        ),
        (["qmode=4w", "embedding_quantize='4,64'"], "4w in groups stores output in pieces"),
    ],
)
def test_numbers_in_which_nothing_is_shared(tmp_path: Path, numbers: list[str], line: str) -> None:
    group = ["quantization.group_size=64"] if numbers[0].startswith("qmode") else []
    with pytest.raises(ConfigError) as error:
        prepare(asked(tmp_path, *(f"quantization.{each}" for each in numbers), *group))
    assert f"model.use_shared_embedding: {line}" in str(error.value)


def test_a_checkpoint_has_to_have_one_weight(tmp_path: Path) -> None:
    plain = model_of(settings := asked(tmp_path), prepare(settings)).source()
    state = {name: value.detach().clone() for name, value in plain.named_parameters()}
    random = ["base.random_weights=false", f"base.checkpoint={tmp_path / 'model.pth'}"]
    torch.save(state, tmp_path / "model.pth")
    prepare(asked(tmp_path, *random))  # the same values
    state["output.weight"][0, 0] += 1
    torch.save(state, tmp_path / "model.pth")
    with pytest.raises(ConfigError, match=r"the checkpoint has an output.weight of its own"):
        prepare(asked(tmp_path, *random))


TORCHAO = '''
"""Operators of torchao's names that keep integers as they are, where torchao's pack them."""
import sys
import torch

library = torch.library.Library("torchao", "FRAGMENT")

def packed(qvals, scales, zeros, group, bias, form):
    zeros = torch.zeros_like(scales) if zeros is None else zeros
    parts = [qvals.float(), scales.reshape(qvals.shape[0], -1), zeros.reshape(qvals.shape[0], -1)]
    return torch.cat([part.float().reshape(-1) for part in parts])

def weight(data, group, n, k):
    cut = [n * k, n * k // group, n * k // group]
    q, scales, zeros = (part.reshape(n, -1) for part in data.split(cut))
    return (q - zeros.repeat_interleave(group, 1)) * scales.repeat_interleave(group, 1)

library.define("_pack_8bit_act_4bit_weight(Tensor q, Tensor s, Tensor? z, int g, Tensor? b,"
    " str? t) -> Tensor")
library.impl("_pack_8bit_act_4bit_weight", packed, "CompositeExplicitAutograd")
library.define("_linear_8bit_act_4bit_weight(Tensor x, Tensor w, int g, int n, int k) -> Tensor")
library.impl("_linear_8bit_act_4bit_weight",
    lambda x, w, g, n, k: x @ weight(w, g, n, k).T, "CompositeExplicitAutograd")
library.define("_shared_embedding_4bit(Tensor w, int g, int n, int k, Tensor i) -> Tensor")
library.impl("_shared_embedding_4bit",
    lambda w, g, n, k, i: weight(w, g, n, k)[i], "CompositeExplicitAutograd")

from cede.llm import load_settings
from cede.llm.build import model_of, prepare
settings = load_settings(sys.argv[1], sys.argv[2:])
made = model_of(settings, prepare(settings))
model = made.source()
table, output = model.tok_embeddings, model.output
assert type(table).__name__ == "QuantizedTiedEmbedding", table
assert type(output).__name__ == "QuantizedLinear", output
assert table.unembedding_packed_weights.data_ptr() == output.packed_weight.data_ptr()
asked = {row.module: row.scheme for row in made.quantization.rows if row.scheme}
assert asked["layers.0.attention.wq"] == "torchao:8da4w", asked
with torch.no_grad():
    x = torch.eye(64)
    assert torch.allclose(output(x).T[[5, 9]], table(torch.tensor([5, 9])), atol=1e-6)
    print(float(model(torch.tensor([[5]]), {"input_pos": torch.tensor([0])}).abs().sum()) > 0)
'''
"""torchao's kernels are for Arm; what cede asks of them is the same."""


def test_torchao_ties_the_two_where_its_kernels_are(tmp_path: Path) -> None:
    asked(tmp_path)
    script = tmp_path / "tied.py"
    script.write_text(TORCHAO)
    numbers = ["qmode=8da4w", "group_size=32", "embedding_quantize='torchao:4,32'"]
    kernels = ["backend.torchao.use_torchao_kernels_linear=true",
               "backend.torchao.use_torchao_kernels_tied_embedding=true"]  # fmt: skip
    overrides = [*(f"quantization.{each}" for each in numbers), *kernels]
    command = [sys.executable, str(script), str(tmp_path / "llm.yaml"), *overrides]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True"


def test_what_torchao_lacks_here_is_named(tmp_path: Path) -> None:
    numbers = ["quantization.qmode=8da4w", "quantization.embedding_quantize='torchao:4,32'",
               "backend.torchao.use_torchao_kernels_linear=true"]  # fmt: skip
    with pytest.raises(ConfigError) as error:
        asked(tmp_path, *numbers)
    text = str(error.value)
    assert "use_torchao_kernels_linear: torchao:8da4w needs torchao's CPU kernels" in text
    assert "torch.ops.torchao._shared_embedding_4bit); here 4,32 serves" in text
