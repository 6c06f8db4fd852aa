"""Checkpoints that are quantized already, in ExecuTorch's own form, through the runtime."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch
import yaml
from torch import Tensor

from cede.errors import ConfigError
from cede.llm import LlmProgram, LlmSettings, export_llm, load_settings
from cede.llm.build import model_of, prepare
from cede.llm.generating import logits_of
from cede.quant.source import QuantizationReport
from cede.quant.source.held import weight_of

if TYPE_CHECKING:
    from pathlib import Path

SIZES = {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4, "vocab_size": 128}
IDS = [5, 17, 3, 99, 64, 2, 40, 8]
ROWS = ("output", "tok_embeddings")


def asked(folder: Path, *overrides: str) -> LlmSettings:
    path = folder / "llm.yaml"
    sections = {
        "base": {"checkpoint": str(folder / "model.pth"), "params": str(folder / "params.json")},
        "model": {"use_kv_cache": True, "use_sdpa_with_kv_cache": True},
        "export": {"output_name": str(folder / "tiny.pte"), "max_seq_length": 16,
                   "max_context_length": 32},
        "debug": {"generate_full_logits": True},
        "backend": {"xnnpack": {"enabled": True}},
        "cede": {"lowering": {"cache": False}},
    }  # fmt: skip
    path.write_text(yaml.safe_dump(sections))
    return load_settings(path, overrides)


def integers(weight: Tensor, bits: int, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """int8 data, scales [out, groups] and the weight that they stand for."""
    half = 2 ** (bits - 1)
    parts = weight.reshape(weight.shape[0], -1, group)
    scale = parts.abs().amax(-1) / (half - 0.5)
    data = (parts / scale[..., None]).round().clamp(-half, half - 1)
    back = (data * scale[..., None]).reshape(weight.shape)
    return data.reshape(weight.shape).to(torch.int8), scale, back


@pytest.fixture
def checkpoint(tmp_path: Path) -> dict[str, Tensor]:
    """Writes the quantized checkpoint `model.pth`; gives the dequantized one."""
    (tmp_path / "params.json").write_text(json.dumps(SIZES))
    random = ["base.checkpoint=null", "base.random_weights=true"]
    module = prepare(asked(tmp_path, *random)).module
    made = torch.Generator().manual_seed(1)
    quantized: dict[str, Tensor] = {}
    plain: dict[str, Tensor] = {}
    for name, value in module.named_parameters():
        if value.dim() == 1:
            plain[name] = quantized[name] = torch.ones(value.shape)
            continue
        path = name.removesuffix(".weight")
        weight = torch.randn(value.shape, generator=made) * 0.1
        bits, group = (8, value.shape[1]) if path in ROWS else (4, 32)
        data, scale, plain[name] = integers(weight, bits, group)
        quantized[name], quantized[f"{path}.scales"] = data, scale.squeeze()
        quantized[f"{path}.zeros"] = torch.zeros_like(scale.squeeze())
    torch.save(quantized, tmp_path / "model.pth")
    return plain


def float_logits(folder: Path, plain: dict[str, Tensor]) -> Tensor:
    torch.save(plain, folder / "plain.pth")
    given = [f"base.checkpoint={folder / 'plain.pth'}", "model.use_sdpa_with_kv_cache=false"]
    settings = asked(folder, *given)
    model = model_of(settings, prepare(settings)).source()
    with torch.no_grad():
        found: Tensor = model(torch.tensor([IDS]), {"input_pos": torch.tensor([0])})[0]
    return found


def distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


def told(settings: LlmSettings) -> str:
    with pytest.raises(ConfigError) as error:
        prepare(settings)
    return str(error.value)


MODE = "base.preq_mode=preq_8da4w_out_8da8w"


def test_integers_of_the_checkpoint_are_computed_with(
    tmp_path: Path, checkpoint: dict[str, Tensor]
) -> None:
    settings = asked(tmp_path, MODE, "quantization.use_qat=true")
    made = export_llm(settings)
    found = logits_of(LlmProgram(settings.output), IDS)
    assert distance(found, float_logits(tmp_path, checkpoint)) < 0.04  # of int8 activations
    held = dict(made.model.source().named_modules())
    for name, wanted in checkpoint.items():
        if wanted.dim() == 2:
            path = name.removesuffix(".weight")
            weight = weight_of(held[path], wanted.shape[1])
            assert weight is not None
            near = 0 if path in ROWS else 2**-8  # scales of 4 bits are stored in bfloat16
            torch.testing.assert_close(weight, wanted, rtol=near, atol=0)
    assert isinstance(made.quantization, QuantizationReport)
    rows = {row.module: row for row in made.quantization.rows}
    assert (rows["output"].scheme, rows["tok_embeddings"].scheme) == ("8da8w", "8,0")
    assert {row.note for row in rows.values()} == {"quantized in the checkpoint"}
    assert len(rows) == 2 + 2 * 7
    assert made.lowered is not None
    taken = {op for each in made.lowered.plan.delegations for op in each.ops}
    assert all(op.id in taken for op in made.lowered.graph.ops if op.kind == "aten.linear")


@pytest.mark.slow
def test_rotations_of_spinquant_are_computed(tmp_path: Path, checkpoint: dict[str, Tensor]) -> None:
    settings = asked(tmp_path, MODE, "quantization.use_spin_quant=native")
    export_llm(settings)
    found = logits_of(LlmProgram(settings.output), IDS)
    assert distance(found, float_logits(tmp_path, checkpoint)) > 0.5
    turn = torch.ones(1, 1)
    while turn.shape[0] < 128:
        turn = torch.cat([torch.cat([turn, turn], 1), torch.cat([turn, -turn], 1)])
    for name in [name for name in checkpoint if name.endswith("w2.weight")]:
        checkpoint[name] = checkpoint[name] @ turn / 128**0.5  # the rotation is in the weight then
    assert distance(found, float_logits(tmp_path, checkpoint)) < 0.04


def test_what_does_not_fit_is_told_before_any_work(
    tmp_path: Path, checkpoint: dict[str, Tensor]
) -> None:
    assert "base.preq_mode: is not given, and the checkpoint is quantized" in told(asked(tmp_path))
    assert "w1: scales are [128, 2]" in told(asked(tmp_path, MODE, "base.preq_group_size=64"))
    assert "output: scales are [128]" in told(asked(tmp_path, "base.preq_mode=preq_8da4w"))
    given = "base.preq_embedding_quantize=4,0"
    assert "tok_embeddings: values are -128 to 127, which are no 4" in told(
        asked(tmp_path, MODE, given)
    )
    (tmp_path / "params.json").write_text(json.dumps(SIZES | {"hidden_dim": 96}))
    spun = asked(tmp_path, MODE, "quantization.use_spin_quant=native")
    assert "layers of this model have 96 values" in told(spun)
    torch.save(checkpoint, tmp_path / "model.pth")
    assert "no weight of the checkpoint has scales" in told(asked(tmp_path, MODE))
    with pytest.raises(ConfigError, match=r"use_qat: needs base.preq_mode"):
        asked(tmp_path, "quantization.use_qat=true")
    with pytest.raises(ConfigError, match=r"can.t be had: cuda .* take native"):
        asked(tmp_path, MODE, "quantization.use_spin_quant=cuda")
