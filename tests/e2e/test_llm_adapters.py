"""LoRA adapters beside an LLM's weights, through the real runtime."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from click.testing import CliRunner
from safetensors.torch import save_file

from cede.cli import main
from cede.errors import ConfigError, LoweringError
from cede.llm import LlmProgram, export_llm, load_settings
from cede.llm.build import model_of, prepare
from cede.llm.generating import logits_of

PAGE = Path(__file__).parents[2] / "docs" / "llm.md"
IDS = [3, 5, 8, 2, 9]
RANK, ALPHA = 4, 12
MODULES = {
    "q_proj": (64, 64), "k_proj": (64, 32), "v_proj": (64, 32), "o_proj": (64, 64),
    "gate_proj": (64, 96), "up_proj": (64, 96), "down_proj": (96, 64),
}  # fmt: skip
"""Inputs and outputs in the model of `hub`."""
OWN = {"q_proj": "wq", "k_proj": "wk", "v_proj": "wv", "o_proj": "wo", "gate_proj": "w1",
       "up_proj": "w3", "down_proj": "w2"}  # fmt: skip
ATTENTION = ("wq", "wk", "wv", "wo")
CONFIG: dict[str, Any] = {
    "base": {"model_class": "llama3_2"},
    "model": {"use_kv_cache": True, "use_sdpa_with_kv_cache": True},
    "export": {"max_seq_length": 8, "max_context_length": 16},
    "backend": {"xnnpack": {"enabled": True}},
}
QUANTIZED = {"qmode": "8da4w", "group_size": 32, "embedding_quantize": "4,32"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.nn.Module]:
    """A folder of Hugging Face with two layers of Llama, whose q and k lie in halves."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(LlamaConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=128, max_position_embeddings=64, pad_token_id=0,
    )).eval()  # fmt: skip
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    folder = tmp_path_factory.mktemp("hub")
    made.save_pretrained(folder)
    return folder, made


def inside(name: str) -> str:
    return (
        f"self_attn.{name}" if name in ("q_proj", "k_proj", "v_proj", "o_proj") else f"mlp.{name}"
    )


def matrices(names: list[str], seed: int, rank: int = RANK) -> dict[str, torch.Tensor]:
    """As peft names them."""
    made = torch.Generator().manual_seed(seed)
    found = {}
    for layer in range(2):
        for name in names:
            inputs, outputs = MODULES[name]
            path = f"base_model.model.model.layers.{layer}.{inside(name)}"
            found[f"{path}.lora_A.weight"] = torch.randn(rank, inputs, generator=made) * 0.2
            found[f"{path}.lora_B.weight"] = torch.randn(outputs, rank, generator=made) * 0.2
    return found


def adapter(
    folder: Path, name: str, names: list[str], seed: int = 1, **keys: Any
) -> dict[str, Any]:
    """A `lora_config` with files as peft writes them."""
    file, config = folder / f"{name}.safetensors", folder / f"{name}.json"
    save_file(matrices(names, seed), file)
    held = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": names,
            "bias": "none", "use_dora": False, "rank_pattern": {}, **keys}  # fmt: skip
    config.write_text(json.dumps(held))
    return {"adapter_checkpoint": str(file), "adapter_config": str(config)}


def written(folder: Path, **sections: dict[str, Any]) -> Path:
    merged = {key: CONFIG.get(key, {}) | sections.get(key, {}) for key in CONFIG | sections}
    path = folder / "llm.yaml"
    path.write_text(yaml.safe_dump(merged))
    return path


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


def eager(path: Path, overrides: list[str]) -> torch.nn.Module:
    more = ["model.use_sdpa_with_kv_cache=false", "model.use_kv_cache=false",
            "debug.generate_full_logits=true"]  # fmt: skip
    settings = load_settings(path, [*more, *overrides])
    return model_of(settings, prepare(settings)).source()


def told(path: Path) -> str:
    with pytest.raises(ConfigError) as error:
        prepare(load_settings(path))
    return str(error.value)


def test_a_program_with_an_adapter_is_the_model_with_it_merged(
    hub: tuple[Path, torch.nn.Module], tmp_path: Path
) -> None:
    folder, theirs = hub
    names = [*MODULES]
    given = adapter(tmp_path, "a", names, use_rslora=True, alpha_pattern={"q_proj": 5})
    base = {"checkpoint": str(folder), "lora_config": given}
    made = export_llm(written(tmp_path, base=base, export={"output_name": f"{tmp_path}/a.pte"}))
    held, state = matrices(names, 1), dict(theirs.named_parameters())
    with torch.no_grad():
        [before] = theirs(torch.tensor([IDS])).logits
        kept = {name: value.clone() for name, value in state.items()}
        for name in list(held):
            if name.endswith("lora_A.weight"):
                path = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
                product = held[name.replace("lora_A", "lora_B")] @ held[name]
                alpha = 5 if path.endswith("q_proj") else ALPHA
                state[f"{path}.weight"].add_(product * alpha / math.sqrt(RANK))
        [merged] = theirs(torch.tensor([IDS])).logits
        for name, value in kept.items():
            state[name].copy_(value)
    found = logits_of(LlmProgram(made.path), IDS)
    assert distance(found, merged) < 1e-5
    assert distance(found, before) > 0.1
    assert made.lowered is not None
    assert len(made.lowered.plan.delegations) == 4  # as without: one a layer, and two at the end


@pytest.mark.slow
@pytest.mark.parametrize("quant", [None, "int8"])
def test_programs_with_two_adapters_have_their_weights_in_one_file(
    hub: tuple[Path, torch.nn.Module], tmp_path: Path, quant: str | None
) -> None:
    names = ["q_proj", "down_proj"]
    foundations = []
    for seed, name in enumerate("ab", 1):
        given = adapter(tmp_path, name, names, seed) | {"adapter_quant": quant}
        base = {"checkpoint": str(hub[0]), "lora_config": given}
        path = written(
            tmp_path, base=base, quantization=QUANTIZED,
            export={"output_name": f"{tmp_path / name}.pte", "foundation_weights_file": "weights",
                    "lora_weights_file": f"lora-{name}.ptd"},
        )  # fmt: skip
        export_llm(path)
        foundations.append((tmp_path / "weights.ptd").read_bytes())
    assert foundations[0] == foundations[1]
    plain = eager(path, ["base.lora_config=null", "export.lora_weights_file=null"])
    outputs = []
    for seed, name in enumerate("ab", 1):
        files = [tmp_path / "weights.ptd", tmp_path / f"lora-{name}.ptd"]
        found = logits_of(LlmProgram(tmp_path / f"{name}.pte", files), IDS)
        with torch.no_grad(), _beside(plain, matrices(names, seed)):
            [wanted] = plain(torch.tensor([IDS]))
        assert distance(found, wanted) < (0.02 if quant else 0.01)
        outputs.append(found)
    assert distance(*outputs) > 0.1
    with pytest.raises(LoweringError, match="of an adapter"):
        LlmProgram(tmp_path / "a.pte", tmp_path / "weights.ptd")
    with pytest.raises(LoweringError, match="the data file of another program"):
        LlmProgram(tmp_path / "a.pte", [tmp_path / "weights.ptd", tmp_path / "lora-b.ptd"])
    files = [str(tmp_path / "weights.ptd"), str(tmp_path / "lora-a.ptd")]
    command = ["run", str(tmp_path / "a.pte")]
    for file in files:
        command += ["--external-weights", file]
    assert CliRunner().invoke(main, command).exit_code == 0


class _beside:
    """A context in which linear modules of a transformer have an adapter beside them."""

    def __init__(self, model: torch.nn.Module, held: dict[str, torch.Tensor]) -> None:
        modules, self._hooks = dict(model.named_modules()), []
        for name, a in held.items():
            if not name.endswith("lora_A.weight"):
                continue
            layer, _, module = name.split(".")[4:7]
            part = "attention" if OWN[module] in ATTENTION else "feed_forward"
            b = held[name.replace("lora_A", "lora_B")]
            if module in ("q_proj", "k_proj"):  # Meta's order: pairs beside each other
                heads = 4 if module == "q_proj" else 2
                b = b.reshape(heads, 2, -1, RANK).transpose(1, 2).reshape(b.shape)
            product = (b @ a).T * ALPHA / RANK
            own = modules[f"layers.{layer}.{part}.{OWN[module]}"]
            self._hooks.append(own.register_forward_hook(
                lambda _, inputs, output, product=product: output + inputs[0] @ product
            ))  # fmt: skip

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()


@pytest.mark.slow
def test_the_commands_of_the_page(
    hub: tuple[Path, torch.nn.Module], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (config, commands) = re.findall(
        r"test: tests/e2e/test_llm_adapters.py -->\n```\w+\n(.*?)```", PAGE.read_text(), re.DOTALL
    )[:2]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny-llama").symlink_to(hub[0])
    (tmp_path / "adapted.yaml").write_text(config)
    given = adapter(tmp_path, "a", ["q_proj", "v_proj"])
    for key, name in zip(given, ("adapter_model.safetensors", "adapter_config.json"), strict=True):
        (tmp_path / given[key]).rename(tmp_path / name)
    for line in commands.splitlines():
        done = CliRunner().invoke(main, line.split()[1:])
        assert done.exit_code == 0, done.output
    assert "float32[1,128]" in done.stdout


@pytest.mark.slow
def test_constants_of_an_adapter_stay_where_no_file_is_named(
    hub: tuple[Path, torch.nn.Module], tmp_path: Path
) -> None:
    given = adapter(tmp_path, "a", ["v_proj"])
    base = {"checkpoint": str(hub[0]), "lora_config": given}
    found = []
    for key in ("foundation_weights_file", "lora_weights_file"):
        export = {"output_name": f"{tmp_path}/{key}.pte", key: key}
        export_llm(written(tmp_path, base=base, export=export))
        assert [each.stem for each in tmp_path.glob("*.ptd")] == [key]
        (file,) = tmp_path.glob("*.ptd")
        found.append(logits_of(LlmProgram(tmp_path / f"{key}.pte", file), IDS))
        first = next(iter(matrices(["v_proj"], 1).values())).numpy().tobytes()
        held = {".ptd": file.read_bytes(), ".pte": (tmp_path / f"{key}.pte").read_bytes()}
        assert [first in data for data in held.values()] == [key[:4] == "lora", key[:4] != "lora"]
        file.unlink()
    assert torch.equal(*found)


def test_adapters_of_fused_modules_and_of_the_output(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, Phi3Config

    torch.manual_seed(0)
    theirs = AutoModelForCausalLM.from_config(Phi3Config(
        hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=128, max_position_embeddings=64, pad_token_id=0,
    )).eval()  # fmt: skip
    theirs.save_pretrained(tmp_path / "model")
    names, held = ["qkv_proj", "gate_up_proj", "lm_head"], {}
    for name, module in theirs.named_modules():
        if name.rpartition(".")[2] not in names:
            continue
        outputs, inputs = module.weight.shape
        a, b = torch.randn(2, inputs), torch.randn(outputs, 2)
        held |= {
            f"base_model.model.{name}.lora_{side}.weight": m
            for side, m in zip("AB", (a, b), strict=True)
        }
        module.weight.data += b @ a * 3 / 2
    save_file(held, tmp_path / "a.safetensors")
    given = {"adapter_checkpoint": f"{tmp_path}/a.safetensors", "lora_rank": 2, "lora_alpha": 3,
             "target_modules": names}  # fmt: skip
    base = {"checkpoint": f"{tmp_path}/model", "lora_config": given}
    ids = torch.tensor([IDS])
    with torch.no_grad():
        assert distance(eager(written(tmp_path, base=base), [])(ids), theirs(ids).logits) < 1e-5


def test_names_of_torchtune_and_adapters_in_the_checkpoint(tmp_path: Path) -> None:
    sizes = {"dim": 64, "hidden_dim": 96, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2,
             "vocab_size": 128}  # fmt: skip
    (tmp_path / "params.json").write_text(json.dumps(sizes))
    base: dict[str, Any] = {"params": f"{tmp_path}/params.json", "random_weights": True}
    held = matrices(["v_proj", "down_proj"], 1)
    tune, own = {}, {}
    for name, value in held.items():
        layer, _, module = name.split(".")[4:7]
        side = name.split(".")[-2]
        mid = "attn.v_proj" if module == "v_proj" else "mlp.w2"
        tune[f"layers.{layer}.{mid}.{side.lower()}.weight"] = value
        mid = "attention.wv" if module == "v_proj" else "feed_forward.w2"
        own[f"layers.{layer}.{mid}.adaptor.{side[-1]}.weight"] = value.to(torch.bfloat16)
    torch.save(tune, tmp_path / "tune.pt")
    values = {"lora_rank": RANK, "lora_alpha": 2 * RANK}
    files = {
        "a": {"target_modules": ["v_proj", "down_proj"]},
        "b": {"target_modules": ["wv", "w2"]},
    }
    save_file(held, tmp_path / "a.safetensors")
    torch.save(tune, tmp_path / "b.pth")
    ids, found = torch.tensor([IDS]), []
    for name, suffix in (("a", "safetensors"), ("b", "pth")):
        given = {"adapter_checkpoint": f"{tmp_path / name}.{suffix}", **values, **files[name]}
        model = eager(written(tmp_path, base=base | {"lora_config": given}), [])
        found.append(model(ids))
    assert torch.equal(*found)
    path = written(tmp_path, base=base)
    state = dict(eager(path, []).named_parameters())
    torch.save({**state, **own}, tmp_path / "whole.pth")
    inside = {"params": base["params"], "checkpoint": f"{tmp_path}/whole.pth"}
    with torch.no_grad():
        one = eager(written(tmp_path, base=inside | {"use_lora": RANK}), [])(ids)
    assert distance(one, found[0]) < 0.01  # of bfloat16
    said = told(written(tmp_path, base=inside | {"use_lora": 8}))
    assert "base.use_lora: layers.0.attention.wv: lora_A is [4, 64], but rank 8" in said
    del inside["checkpoint"]
    torch.save(state, tmp_path / "plain.pth")
    said = told(written(tmp_path, base=inside | {"checkpoint": f"{tmp_path}/plain.pth",
                                                 "use_lora": 4}))  # fmt: skip
    assert "base.use_lora: the checkpoint has no adapters" in said


def test_what_does_not_fit_the_model_is_told_at_once(
    hub: tuple[Path, torch.nn.Module], tmp_path: Path
) -> None:
    given = adapter(tmp_path, "a", ["q_proj", "down_proj"])
    held = matrices(["q_proj", "v_proj"], 1)
    begin = "base_model.model.model.layers"
    del held[f"{begin}.0.self_attn.q_proj.lora_B.weight"]
    del held[f"{begin}.1.self_attn.q_proj.lora_A.weight"]
    del held[f"{begin}.1.self_attn.q_proj.lora_B.weight"]
    held[f"{begin}.0.self_attn.v_proj.lora_A.weight"] = torch.ones(3, 64)
    held[f"{begin}.7.self_attn.v_proj.lora_A.weight"] = torch.ones(4, 64)
    held[f"{begin}.0.self_attn.q_proj.lora_magnitude_vector"] = torch.ones(64)
    save_file(held, given["adapter_checkpoint"])
    base = {"checkpoint": str(hub[0]), "lora_config": given}
    lines = told(written(tmp_path, base=base, quantization={"qmode": "8da4w", "group_size": 64}))
    for begins in (
        "adapter_checkpoint: has 1 tensors that are no lora_A or lora_B",
        "adapter_checkpoint: model.layers.0.self_attn.q_proj: lora_B is missing",
        "adapter_checkpoint: model.layers.0.self_attn.v_proj: lora_A is [3, 64], but rank 4",
        "adapter_checkpoint: model.layers.7.self_attn.v_proj: the transformer has no linear",
        "target_modules: has down_proj, and a.safetensors has no tensors for it",
        "adapter_checkpoint: lacks lora_A and lora_B of 1 modules: layers.1.attention.wq",
        "target_modules: lacks what a.safetensors has tensors for: layers.0.attention.wv",
    ):
        assert f"base.lora_config.{begins}" in lines
    assert "quantization: " in lines  # groups of 64 don't divide 96: told with the rest
