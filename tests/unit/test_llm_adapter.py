"""What a config says about adapters and methods, before any file of tensors is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cede.errors import ConfigError
from cede.llm import load_settings

if TYPE_CHECKING:
    from pathlib import Path

PEFT = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"]}


def told(folder: Path, lora: dict[str, Any], **sections: Any) -> list[str]:
    """The lines of the one error, without the name of the file."""
    (folder / "a.safetensors").touch()
    base = {"model_class": "smollm2", "random_weights": True, **sections.pop("base", {})}
    base["lora_config"] = {"adapter_checkpoint": str(folder / "a.safetensors")} | lora
    held = {"base": base, "backend": {"xnnpack": {"enabled": True}}, **sections}
    path = folder / "llm.yaml"
    path.write_text(yaml.safe_dump(held))
    with pytest.raises(ConfigError) as error:
        load_settings(path)
    return [line.removeprefix(f"{path}: ") for line in str(error.value).splitlines()]


def peft(folder: Path, **keys: Any) -> dict[str, Any]:
    (folder / "a.json").write_text(json.dumps(PEFT | keys))
    return {"adapter_config": str(folder / "a.json")}


def test_every_problem_of_an_adapter_is_told_at_its_path(tmp_path: Path) -> None:
    lines = told(
        tmp_path,
        {"adapter_checkpoint": "/nope.safetensors", "lora_rank": -1, "target_modules": ["q_prj"],
         "adapter_quant": "int4"},
        export={"lora_weights_file": "../x"},
    )  # fmt: skip
    begins = [
        "base.lora_config.adapter_checkpoint: /nope.safetensors: no such file",
        "base.lora_config.adapter_quant: unknown 'int4'; did you mean int8?",
        "base.lora_config.lora_rank: is -1; give a number above 0, or adapter_config",
        "base.lora_config.lora_alpha: is 0; give a number above 0, or adapter_config",
        "base.lora_config.target_modules: unknown module 'q_prj'; did you mean q_proj?",
        "export.lora_weights_file: is '../x'; give a name",
    ]
    for begin in begins:
        assert any(line.startswith(begin) for line in lines), (begin, lines)
    assert len(lines) == len(begins), lines


@pytest.mark.parametrize(
    ("keys", "given", "line"),
    [
        ({}, {"lora_rank": 4}, "lora_rank: is 4, but adapter_config has 8"),
        ({}, {"lora_alpha": 4}, "lora_alpha: is 4, but adapter_config has 16"),
        ({}, {"target_modules": ["v_proj"]}, "target_modules: is ['v_proj'], but adapter_config"),
        ({"use_dora": True}, {}, "adapter_config: {}: use_dora can't be had"),
        ({"bias": "all"}, {}, "adapter_config: {}: bias all can't be had"),
        ({"modules_to_save": ["lm_head"]}, {}, "adapter_config: {}: modules_to_save can't be had"),
        ({"peft_type": "IA3"}, {}, "adapter_config: {}: peft_type IA3 can't be had"),
        ({"r": "8"}, {}, "lora_rank: r is '8' in adapter_config"),
        ({"target_modules": []}, {}, "target_modules: is missing"),
        ({"target_modules": ["embed_tokens"]}, {}, "target_modules: unknown module 'embed_tokens'"),
        ({"rank_pattern": {"q_proj": "x"}}, {}, "adapter_config: {}: rank_pattern is"),
        ({}, {"adapter_quant": "fp16"}, "adapter_quant: is fp16, but the model computes in fp32"),
    ],
)
def test_what_contradicts_or_can_not_be_had(
    keys: dict[str, Any], given: dict[str, Any], line: str, tmp_path: Path
) -> None:
    [found] = told(tmp_path, peft(tmp_path, **keys) | given)
    assert found.startswith(f"base.lora_config.{line.format(tmp_path / 'a.json')}"), found


def test_a_config_that_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    given = {"adapter_config": str(tmp_path / "a.json")}
    [line] = told(tmp_path, given)
    assert line.startswith(f"base.lora_config.adapter_config: {tmp_path}/a.json: not JSON")


def test_what_adapters_go_with(tmp_path: Path) -> None:
    lines = told(
        tmp_path,
        peft(tmp_path),
        base={"use_lora": 4},
        export={"lora_weights_file": "x.ptd", "foundation_weights_file": "x"},
    )
    assert "base.use_lora: needs base.checkpoint: the adapters stand in it" in lines
    assert "base.use_lora: does not go with base.lora_config; give one" in lines
    assert "export.lora_weights_file: is export.foundation_weights_file; give another" in lines
    assert len(lines) == 3


def test_what_methods_go_with(tmp_path: Path) -> None:
    lora = {"adapter_checkpoint": "/nope.pt", "lora_rank": 4, "lora_alpha": 4,
            "target_modules": ["q_proj"]}  # fmt: skip
    methods = [{"method_name": "forward", "export_seq_len": 500, "lora_config": lora},
               {"method_name": "forward"}, {"method_name": "get_eos_ids"},
               {"method_name": "a-b"}]  # fmt: skip
    lines = told(
        tmp_path,
        peft(tmp_path),
        multimethod={"methods": methods, "share_mutable_buffers": True},
        quantization={"pt2e_quantize": "xnnpack_dynamic"},
        debug={"generate_etrecord": True},
        export={"export_only": True},
    )
    begins = [
        "base.lora_config: does not go with multimethod.methods",
        "quantization.pt2e_quantize: does not go with multimethod.methods",
        "export.export_only: does not go with multimethod.methods",
        "debug.generate_etrecord: does not go with multimethod.methods",
        "multimethod.share_mutable_buffers: needs model.use_kv_cache",
        "multimethod.methods[0].export_seq_len: is 500; give 1 to 127",
        "multimethod.methods[0].lora_config.adapter_checkpoint: /nope.pt: no such file",
        "multimethod.methods: 2 methods are called 'forward'",
        "multimethod.methods[2].method_name: 'get_eos_ids' can't be the name of a method",
        "multimethod.methods[3].method_name: 'a-b' can't be the name of a method",
    ]
    for begin in begins:
        assert any(line.startswith(begin) for line in lines), (begin, lines)
    assert len(lines) == len(begins), lines
