"""Options of an LLM's config that change numbers, through the runtime."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tokenizers import Tokenizer, models, pre_tokenizers

from cede.errors import ConfigError
from cede.llm import LlmProgram, LlmSettings, export_llm, load_settings, load_tokenizer
from cede.llm.build import model_of, prepare
from cede.llm.calls import calls_with
from cede.llm.generating import logits_of
from cede.quant.pt2e import AnnotationReport

SIZES = {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4, "vocab_size": 128}
IDS = [5, 17, 3, 99, 64, 2, 40, 8]


def asked(folder: Path, *overrides: str, **sizes: Any) -> LlmSettings:
    params, path = folder / "params.json", folder / "llm.yaml"
    params.write_text(json.dumps(SIZES | sizes))
    sections = {
        "base": {"random_weights": True, "params": str(params)},
        "model": {"use_kv_cache": True},
        "export": {"output_name": str(folder / "tiny.pte"), "max_seq_length": 16,
                   "max_context_length": 32},
        "debug": {"generate_full_logits": True},
        "backend": {"xnnpack": {"enabled": True}},
        "cede": {"lowering": {"cache": False}},
    }  # fmt: skip
    path.write_text(yaml.safe_dump(sections))
    return load_settings(path, overrides)


def told(settings: LlmSettings) -> str:
    with pytest.raises(ConfigError) as error:
        prepare(settings)
    return str(error.value)


def eager(settings: LlmSettings, ids: list[int] = IDS) -> torch.Tensor:
    """Logits of a model of a token a call."""
    model = model_of(settings, prepare(settings)).source()
    with torch.no_grad():
        rows = [model(torch.tensor([[id]]), {"input_pos": torch.tensor([i])})
                for i, id in enumerate(ids)]  # fmt: skip
    return torch.cat([row[0] for row in rows])


def ran(settings: LlmSettings, ids: list[int] = IDS) -> torch.Tensor:
    export_llm(settings)
    return logits_of(LlmProgram(settings.output), ids)


def words(folder: Path) -> str:
    """A tokenizer whose token 5 is w5."""
    made = Tokenizer(models.WordLevel({f"w{i}": i for i in range(128)}, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    return str(folder / "tokenizer.json")


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


def test_a_pruned_vocabulary(tmp_path: Path) -> None:
    kept, read = tmp_path / "out.json", tmp_path / "in.json"
    outputs = {0: 7, 1: 3, 2: 127, 3: 64}
    inputs = dict(enumerate(dict.fromkeys(IDS)))
    kept.write_text(json.dumps(outputs))
    read.write_text(json.dumps(inputs))
    maps = [f"model.output_prune_map={kept}", f"model.input_prune_map={read}"]
    whole = eager(asked(tmp_path))
    settings = asked(tmp_path, *maps)
    assert any("a call takes the new ids" in note for note in settings.notes)
    found = ran(settings, list(range(len(IDS))))
    assert found.shape == whole.shape
    rows = list(outputs.values())
    assert distance(found[:, rows], whole[:, rows]) < 1e-4
    others = [i for i in range(128) if i not in rows]
    assert bool((found[:, others] == -torch.inf).all())
    kept.write_text('{"0": 1, "1": 200}')
    assert "model.output_prune_map: 200 is no token" in told(asked(tmp_path, maps[0]))


@pytest.mark.slow
def test_a_table_for_every_head(tmp_path: Path) -> None:
    found = ran(asked(tmp_path, "model.expand_rope_table=true"))
    assert distance(found, eager(asked(tmp_path))) < 1e-4
    settings = asked(tmp_path, "model.expand_rope_table=true", n_kv_heads=2)
    assert "the model has 4 and 2" in told(settings)


@pytest.mark.slow
def test_a_cache_with_fixed_scales(tmp_path: Path) -> None:
    fixed = ["model.static_quantize_kv_cache=true", "model.enable_dynamic_shape=false"]
    settings = asked(tmp_path, *fixed, "model.static_quantize_kv_cache_scale=0.01")
    whole = eager(asked(tmp_path))
    found = ran(settings)
    assert distance(found, eager(settings)) < 1e-4
    assert 1e-5 < distance(found, whole) < 0.02
    small = [*fixed, "model.static_quantize_kv_cache_scale=1e-6"]
    assert distance(eager(asked(tmp_path, *small)), whole) > 0.02  # all is cut off
    text = " ".join(f"w{id}" for id in IDS)
    read = [f"base.tokenizer_path={words(tmp_path)}", f"quantization.calibration_data={text}"]
    assert distance(eager(asked(tmp_path, *small, *read)), whole) < 0.01


def test_a_text_is_read_by_a_pruned_vocabulary(tmp_path: Path) -> None:
    tokenizer, read = load_tokenizer(words(tmp_path)), tmp_path / "in.json"
    read.write_text('{"0": 3, "1": 99}')
    llm = asked(tmp_path, f"model.input_prune_map={read}").llm
    [[tokens, _]] = calls_with("w99 w5 w3 w3", tokenizer, llm)
    assert tokens.tolist() == [[1, 0, 0]]
    with pytest.raises(ConfigError, match="keeps none of its tokens"):
        calls_with("w5", tokenizer, llm)


def test_so_many_tokens_of_a_text_are_read(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(words(tmp_path))
    llm = asked(tmp_path, "quantization.calibration_seq_length=2").llm
    [[tokens, _]] = calls_with("w9 w5 w3 w3", tokenizer, llm)
    assert tokens.tolist() == [[9, 5]]
    with pytest.raises(ConfigError, match="calibration_seq_length: is 0, must be 1 or more"):
        asked(tmp_path, "quantization.calibration_seq_length=0")


def test_a_library_of_operators_is_loaded_before_the_model_is_built(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("executorch.kernels.quantized")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    [library] = Path(spec.submodule_search_locations[0]).glob("*quantized_ops_aot_lib*")
    prepare(asked(tmp_path, f"export.so_library={library}"))
    assert str(library.resolve()) in torch.ops.loaded_libraries
    other = tmp_path / "other.so"
    other.write_text("no library")
    assert f"{other} can't be loaded" in told(asked(tmp_path, f"export.so_library={other}"))
    with pytest.raises(ConfigError, match=r"export\.so_library: .*gone\.so: no such file"):
        asked(tmp_path, "export.so_library=gone.so")


def test_scales_are_searched_for_where_hqq_is_asked_for(tmp_path: Path) -> None:
    mode = ["quantization.qmode=8da4w", "quantization.group_size=32"]
    plain, settings = asked(tmp_path, *mode), asked(tmp_path, *mode, "quantization.use_hqq=true")
    assert any("searched for least squared error" in note for note in settings.notes)
    assert not any("use_hqq" in note for note in plain.notes)
    whole, rounded, found = eager(asked(tmp_path)), eager(plain), eager(settings)
    assert distance(found, whole) < 0.95 * distance(rounded, whole)
    wide = asked(tmp_path, "quantization.qmode=int8", "quantization.use_hqq=true")
    assert any("rounded to the nearest step" in note for note in wide.notes)


@pytest.mark.slow
def test_scales_that_were_searched_for_are_the_programs(tmp_path: Path) -> None:
    mode = ["quantization.qmode=8da4w", "quantization.group_size=32", "quantization.use_hqq=true"]
    settings = asked(tmp_path, *mode)
    assert distance(ran(settings), eager(settings)) < 0.02


@pytest.mark.slow
def test_linear_modules_alone_are_quantized(tmp_path: Path) -> None:
    static = ["cede.quantize.pt2e=xnnpack", "cede.quantize.pt2e_mode=static",
              "model.use_kv_cache=false", f"base.tokenizer_path={words(tmp_path)}",
              f"quantization.calibration_data={' '.join(f'w{id}' for id in IDS)}"]  # fmt: skip
    settings = asked(tmp_path, *static, "quantization.quantize_scope=linear")
    done = export_llm(settings)
    found = logits_of(LlmProgram(settings.output), IDS)
    assert isinstance(done.quantization, AnnotationReport)
    assert {row.op for row in done.quantization.rows if row.scheme} == {"aten.linear"}
    assert 1e-4 < distance(found, eager(asked(tmp_path))) < 0.05
    with pytest.raises(ConfigError, match=r"quantize_scope: is of no use without"):
        asked(tmp_path, "quantization.quantize_scope=linear")
    rule = "cede.quantize.layers=[{select: 'op:aten.add', mode: none}]"
    with pytest.raises(ConfigError, match=r"quantize_scope: does not go with"):
        asked(tmp_path, *static, rule, "quantization.quantize_scope=linear")
