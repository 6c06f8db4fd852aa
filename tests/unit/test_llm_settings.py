"""The YAML of `export_llm`: everything wrong with it is told at once, before any work."""

from __future__ import annotations

import json
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml

from cede.config import Config
from cede.config.fit import Problems
from cede.errors import ConfigError
from cede.llm import load_settings, ready_llm_configs
from cede.llm.data import data, params_names
from cede.llm.delegates import backends_of
from cede.llm.metadata import metadata_problems, read_metadata
from cede.llm.numbers import numbers_of
from cede.llm.upstream import config_module, schema

ON = ["backend.xnnpack.enabled=true"]
XNNPACK = {"xnnpack": {"enabled": True}}
RANDOM = {"model_class": "smollm2", "random_weights": True}


def file(folder: Path, **sections: Any) -> Path:
    path = folder / "llm.yaml"
    path.write_text(yaml.safe_dump(sections))
    return path


def told(folder: Path, *overrides: str, **sections: Any) -> list[str]:
    """The lines of the one error, without the name of the file."""
    path = file(folder, **{"base": RANDOM, "backend": XNNPACK, **sections})
    with pytest.raises(ConfigError) as error:
        load_settings(path, overrides)
    return [line.removeprefix(f"{path}: ") for line in str(error.value).splitlines()]


def test_half_precision_is_for_floats(tmp_path: Path) -> None:
    model = {"dtype_override": "fp16"}
    [line] = told(tmp_path, model=model, quantization={"qmode": "int8"})
    assert line.startswith("model.dtype_override: does not go with quantization")
    load_settings(file(tmp_path, base=RANDOM, backend=XNNPACK, model=model))


def test_every_problem_is_in_one_error_with_its_path(tmp_path: Path) -> None:
    lines = told(
        tmp_path,
        base={"model_clas": "llama3_2", "checkpoint": "/nope.pth", "params": "/nope.json"},
        modle={},
        model={"dtype_override": "fp8"},
        export={"max_seq_length": 2048, "max_context_length": 128},
        quantization={"qmode": "int3", "embedding_quantize": "4"},
        cede={"backend": ["xnnpack"]},
    )
    begins = [
        "modle: unknown section; did you mean model?",
        "base.model_clas: unknown key; did you mean base.model_class?",
        "model.dtype_override: got 'fp8' (str), expected one of fp32, fp16, bf16",
        "cede.backend: unknown key; did you mean cede.backends?",
        "export.max_context_length: is 128, less than export.max_seq_length (2048)",
        "base.params: /nope.json: no such file",
        "base.checkpoint: /nope.pth: no such file",
        "quantization.qmode: unknown mode 'int3'; did you mean int8?",
        "quantization.embedding_quantize: '4' is no BITS,GROUP",
    ]
    for begin in begins:
        assert any(line.startswith(begin) for line in lines), (begin, lines)
    assert len(lines) == len(begins), lines


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        ({"export": {"max_seq_length": "many"}}, "export.max_seq_length: got 'many'"),
        ({"quantization": {"qmode": "8da4w", "group_size": 33}}, "quantization.group_size: "),
        ({"quantization": {"qmode": "8da4w-gptq"}}, "quantization.qmode: can't be had"),
        ({"quantization": {"qmode": "torchao:fpa4w"}}, "quantization.qmode: "),
        ({"quantization": {"group_size": 32}}, "quantization.group_size: is of no use"),
        ({"quantization": {"embedding_quantize": "3,32"}}, "quantization.embedding_quantize: "),
        ({"quantization": {"pt2e_quantize": "vulkan_8w"}},
         "quantization.pt2e_quantize: the vulkan quantizer is for backend vulkan, and the plan"),
        ({"quantization": {"pt2e_quantize": "qnn_16a4w"}},
         "quantization.pt2e_quantize: can't be had: qnn_16a4w: its quantizer comes with Qualcomm"),
        ({"quantization": {"pt2e_quantize": "coreml_c4w"}},
         "quantization.pt2e_quantize: can't be had: coreml_c4w: Core ML's quantizer has no 4 bits"),
        ({"cede": {"quantize": {"pt2e": "xnnpack_qc4", "pt2e_mode": "static"}}},
         "cede.quantize.pt2e: the xnnpack_qc4 quantizer has no mode 'static'"),
        ({"quantization": {"use_qat": True}}, "quantization.use_qat: needs base.preq_mode"),
        ({"quantization": {"qmode": "int8"}, "cede": {"quantize": {"mode": "int8"}}},
         "cede.quantize.mode: quantization.qmode says it too"),
        ({"model": {"use_kv_cache": "maybe"}}, "model.use_kv_cache: got 'maybe'"),
        ({"model": {"quantize_kv_cache": True}}, "model.quantize_kv_cache: needs model.use_kv"),
        ({"model": {"use_sdpa_with_kv_cache": True}}, "model.use_sdpa_with_kv_cache: needs"),
        ({"model": {"use_kv_cache": True, "use_attention_sink": "4"}}, "model.use_attention_sink"),
        ({"model": {"use_kv_cache": True, "use_attention_sink": "4,2044"}},
         "model.use_attention_sink: keeps 2048 tokens"),
        ({"model": {"use_kv_cache": True, "use_attention_sink": "4,64"}},
         "model.use_attention_sink: has a window of 64, and a call up to 127 tokens: give 126"),
        ({"model": {"use_kv_cache": True, "local_global_attention": [0, 64]}},
         "model.local_global_attention[1]: has a window of 64"),
        ({"export": {"output_dir": "/nope"}}, "export.output_dir: the folder /nope does not exist"),
        ({"base": {"model_class": "smollm2"}}, "base.checkpoint: is missing; get one by"),
        ({"base": {**RANDOM, "model_class": "llama3_2"}}, "base.params: llama3_2 has several"),
        ({"base": {**RANDOM, "model_class": "bert"}}, "base.model_class: got 'bert'"),
        ({"base": {**RANDOM, "tokenizer_path": "/nope"}}, "base.tokenizer_path: /nope: no such"),
        ({"backend": {"xnnpack": {"enable": True}}}, "backend.xnnpack.enable: unknown key; did"),
        ({"cede": {"report": "report.pdf"}}, "cede.report: report.pdf: end it with one of"),
        ({"base": {**RANDOM, "preq_group_size": 64}}, "base.preq_group_size: is of no use"),
        ({"quantization": {"calibration_limit": 9}}, "quantization.calibration_limit: is of no"),
        ({"quantization": {"calibration_tasks": ["wikitext"]}},
         "quantization.calibration_tasks: can't be had: lm_eval reads its tasks"),
        ({"export": {"foundation_weights_file": "a/b"}}, "export.foundation_weights_file: is"),
        ({"backend": {}}, "backend: none is enabled; enable one of xnnpack"),
        ({"cede": {"backends": ["xnnpac"]}}, "cede.backends: unknown backend xnnpac"),
        ({"cede": {"backends": ["reference"]}, "backend": {"xnnpack": {"enabled": True}}},
         "cede.backends: lacks xnnpack"),
    ],
)  # fmt: skip
def test_a_problem(tmp_path: Path, sections: dict[str, Any], line: str) -> None:
    assert any(said.startswith(line) for said in told(tmp_path, **sections))


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"dim": 10, "n_heads": 3}, "dim 10 is no multiple of n_heads 3"),
        ({"dim": "big"}, "dim is 'big'; give a whole number above 0"),
        ({"n_layers": -1}, "n_layers is -1; give a whole number above 0"),
        ({"head_dim": 15}, "heads of 15 values can't be rotated"),
        ({"n_heads": 8, "n_kv_heads": 3}, "n_heads 8 is no multiple of n_kv_heads 3"),
        ({"n_head": 8}, "unknown key n_head; did you mean n_heads?"),
        ({"use_kv_cache": True}, "use_kv_cache: the config says it"),
    ],
)
def test_params_that_make_no_model(tmp_path: Path, params: dict[str, Any], line: str) -> None:
    path = tmp_path / "params.json"
    path.write_text(json.dumps(params))
    assert any(line in said for said in told(tmp_path, base={**RANDOM, "params": str(path)}))


def test_every_quantizer_of_executorch_is_had_or_refused_with_a_reason() -> None:
    table = data("backends.json")
    for each in config_module().Pt2eQuantize:
        refused = [begin for begin in table["pt2e_cant"] if each.value.startswith(begin)]
        assert each.value in table["pt2e"] or refused, each


@pytest.mark.parametrize("mode", ["int8", "4w", "8da4w", "8da8w"])
def test_every_mode_that_the_code_has_is_taken(tmp_path: Path, mode: str) -> None:
    made = load_settings(file(tmp_path, base=RANDOM), [f"quantization.qmode={mode}", *ON])
    assert made.config.quantize.mode == mode


def test_what_the_file_says_arrives(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        base={**RANDOM, "metadata": '{"get_bos_id": 1, "get_eos_ids": [2, 7]}'},
        export={"output_name": "tiny", "output_dir": str(tmp_path)},
        backend={"xnnpack": {"enabled": True, "extended_ops": True, "enable_bf16": True}},
        debug={"verbose": True},
        cede={"policy": {"fallback": "warn"}, "backends": ["xnnpack", "reference"]},
    )
    made = load_settings(path, ["+quantization.qmode=8da4w", "cede.policy.min_ops=2"])
    assert (made.config.backends, made.config.policy.min_ops) == (["xnnpack", "reference"], 2)
    assert made.config.options == {"xnnpack": {"enable_bf16": True}}
    assert made.config.quantize.group_size == 128  # the default of export_llm
    assert made.metadata == {"get_bos_id": 1, "get_eos_ids": [2, 7]}
    assert (made.output, made.report) == (tmp_path / "tiny.pte", tmp_path / "tiny.report.md")


def test_weights_go_to_a_file_of_their_own(tmp_path: Path) -> None:
    given = [*ON, f"export.output_name={tmp_path / 'a.pte'}"]
    path = file(tmp_path, base=RANDOM)
    assert load_settings(path, given).weights is None
    made = load_settings(path, [*given, "export.foundation_weights_file=base"])
    assert (made.weights, made.config.lowering.external_weights) == (tmp_path / "base.ptd", True)
    made = load_settings(path, [*given, "cede.lowering.external_weights=true"])
    assert made.weights == tmp_path / "a.ptd"


def test_backends_get_what_executorch_would_give_them(tmp_path: Path) -> None:
    core = {"coreml": {"enabled": True, "ios": 18}}
    made = load_settings(file(tmp_path, base=RANDOM, backend=core))
    assert made.config.options == {
        "coreml": {"compute_unit": "cpu_only", "minimum_deployment_target": "iOS18"}
    }


@pytest.mark.parametrize(
    ("name", "given", "options"),
    [
        ("coreml", {"quantize": "b4w"}, {"quantize": "b4w", "compute_unit": "cpu_only"}),
        ("coreml", {"ios": 15}, {"minimum_deployment_target": "iOS15", "compute_unit": "cpu_only"}),
        ("tosa", {"version": "TOSA-1.0+INT"}, {"version": "TOSA-1.0+INT"}),
        ("tosa", {}, {}),
        ("vgf", {"compile_spec": "TOSA-1.0+INT", "compiler_flags": ["a"]},
         {"version": "TOSA-1.0+INT", "compiler_flags": ["a"]}),
        ("ethosu", {"extra_flags": ["a"]}, {"target": "ethos-u85-128", "extra_flags": ["a"]}),
    ],
)  # fmt: skip
def test_a_backends_fields_are_its_options(
    name: str, given: dict[str, Any], options: dict[str, Any]
) -> None:
    """Also where the backend can't lower here."""
    llm = schema()()
    section = getattr(llm.backend, name)
    section.enabled = True
    for key, value in given.items():
        kind = type(getattr(section, key))
        setattr(section, key, kind(value) if issubclass(kind, Enum) else value)
    if "quantize" in given:
        section.quantize = config_module().CoreMLQuantize(given["quantize"])
    problems = Problems(origin=lambda _: "")
    made = backends_of(llm, Config(), problems, [], {name: given})
    assert (made.options.get(name) or {}) == options


@pytest.mark.parametrize(
    ("name", "fields", "quantizer", "note"),
    [
        ("openvino_4wo", [None, 32], "openvino_c4", ""),
        ("openvino_4wo", [64, 256], "openvino_c4_64", ""),
        ("openvino_4wo", [None, 256], "openvino_c4_256", ""),
        (
            "openvino_8wo",
            [64, 32],
            "openvino",
            "quantization.group_size: openvino_8wo has no groups",
        ),
    ],
)
def test_groups_of_openvino(name: str, fields: list[int | None], quantizer: str, note: str) -> None:
    llm, notes = schema()(), list[str]()
    llm.quantization.pt2e_quantize = config_module().Pt2eQuantize(name)
    llm.quantization.group_size, llm.backend.openvino.nncf_compression_group_size = fields
    problems = Problems(origin=lambda _: "")
    made = numbers_of(llm, Config(), problems, notes, {})
    assert (made.quantize.pt2e, notes, problems.lines) == (quantizer, [note] if note else [], [])


def test_int4_of_core_ml_needs_a_system_that_has_it(tmp_path: Path) -> None:
    backend = {"coreml": {"enabled": True, "quantize": "c4w", "ios": 17}}
    [line] = told(tmp_path, backend=backend)
    assert line.endswith("quantize: needs iOS18 or later, and it is to run on iOS17")


def test_paths_of_the_section_are_relative_to_the_file(tmp_path: Path) -> None:
    plugin = "import cede\n\n@cede.hookimpl\ndef cede_backends():\n    return ()\n"
    (tmp_path / "own.py").write_text(plugin)
    section = {"plugins": {"files": ["own.py"]}}
    made = load_settings(file(tmp_path, base=RANDOM, cede=section), ON)
    assert made.config.plugins.files == [str(tmp_path / "own.py")]


@pytest.mark.parametrize("name", ready_llm_configs())
def test_a_ready_config_loads(name: str) -> None:
    made = load_settings(name, ["base.checkpoint=null", "base.random_weights=true"])
    assert made.config.backends


def test_every_field_of_executorch_is_known() -> None:
    """Fails where another version of ExecuTorch has sections that nobody looked at."""
    assert [each.name for each in fields(schema())] == [
        "base", "model", "export", "debug", "multimethod", "quantization", "backend",
    ]  # fmt: skip
    enabled = [
        each.name
        for each in fields(config_module().BackendConfig)
        if hasattr(getattr(schema()().backend, each.name), "enabled")
    ]
    assert set(data("backends.json")["backends"]) <= set(enabled)
    assert {each.name for each in fields(schema()().base)} >= {"random_weights", "lora_config"}


def test_executorch_ready_yaml_is_read() -> None:
    from importlib.util import find_spec

    found = find_spec("executorch")
    assert found is not None
    [folder] = found.submodule_search_locations or ()
    path = Path(folder) / "examples/models/llama/config/llama_xnnpack.yaml"
    made = load_settings(path, ["base.params=llama3_2_1b", "base.random_weights=true"])
    assert made.config.quantize.embedding == "4,32"
    assert made.metadata == {"get_bos_id": 128000, "get_eos_ids": [128009, 128001]}


@pytest.mark.parametrize("name", params_names())
def test_ready_params_are_a_model(name: str) -> None:
    from cede.llm.upstream import params_known

    params = data(f"params/{name}.json")
    assert params.keys() <= params_known()
    assert params["n_heads"] % params["n_kv_heads"] == 0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"get_eos_ids": "2,7"}', "base.metadata.get_eos_ids: is '2,7'; give a list"),
        ('{"get_eos_ids": [2.5]}', "base.metadata.get_eos_ids: is [2.5]"),
        ('{"get_bos_id": null}', "base.metadata.get_bos_id: is None; give a whole number"),
        ('{"get_bos_id": true}', "base.metadata.get_bos_id: is True"),
        ('{"forward": 3}', "base.metadata.forward: can't be the name of a method"),
        ('{"get_eos_id": 1000000}', "base.metadata.get_eos_id: unknown name; did you mean get_eos"),
        ("{", "base.metadata: not JSON"),
        ("[1]", "base.metadata: got '[1]', expected names"),
    ],
)
def test_metadata_are_checked(text: str, line: str) -> None:
    problems = Problems(origin=lambda _: "x")
    read_metadata(text, problems)
    [said] = problems.lines
    assert said.startswith(f"x: {line}")


def test_metadata_are_held_against_the_model() -> None:
    problems = Problems(origin=lambda _: "x")
    given = {"get_bos_id": 32, "get_eos_ids": [2, 99], "get_max_seq_len": 7}
    metadata_problems(given, {"get_max_seq_len": 16}, 32, problems)
    assert problems.lines == [
        "x: base.metadata.get_bos_id: 32 is no token: the vocabulary has 32",
        "x: base.metadata.get_eos_ids: 99 is no token: the vocabulary has 32",
        "x: base.metadata.get_max_seq_len: is 7, but the program has 16",
    ]
