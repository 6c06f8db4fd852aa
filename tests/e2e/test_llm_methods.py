"""Several methods in the program of an LLM, through the real runtime."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from click.testing import CliRunner
from executorch.runtime import Runtime
from safetensors.torch import save_file

from cede.cli import main
from cede.errors import ConfigError
from cede.llm import LlmProgram, export_llm, load_settings
from cede.llm.build import model_of, prepare
from cede.llm.generating import logits_of
from cede.running.pte import read_file

PAGE = Path(__file__).parents[2] / "docs" / "llm.md"
IDS = [3, 5, 8, 2, 9]
SIZES = {"dim": 64, "hidden_dim": 96, "n_layers": 1, "n_heads": 4, "vocab_size": 128}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The example of the page, for a small model, in a folder with what it names."""
    monkeypatch.chdir(tmp_path)
    text = re.findall(
        r"test: tests/e2e/test_llm_methods.py -->\n```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    made: dict[str, Any] = yaml.safe_load(text[0])
    made["base"] = {"model_class": "llama3_2", "random_weights": True, "params": "params.json"}
    made["export"] |= {"max_seq_length": 8, "max_context_length": 16}
    Path("params.json").write_text(json.dumps(SIZES))
    for seed, name in enumerate(("french", "short")):
        torch.manual_seed(seed)
        path = "base_model.model.model.layers.0.mlp.down_proj.lora_"
        held = {f"{path}A.weight": torch.randn(4, 96), f"{path}B.weight": torch.randn(64, 4)}
        save_file(held, f"{name}.safetensors")
        keys = {"r": 4, "lora_alpha": 4, "target_modules": ["down_proj"]}
        Path(f"{name}.json").write_text(json.dumps(keys))
    return made


def written(config: dict[str, Any], **sections: Any) -> str:
    Path("llm.yaml").write_text(yaml.safe_dump(config | sections))
    return "llm.yaml"


def eager(config: dict[str, Any], adapter: Any) -> torch.nn.Module:
    base = config["base"] | {"lora_config": adapter}
    path = written(
        config, base=base, multimethod={}, model={}, debug={"generate_full_logits": True}
    )
    settings = load_settings(path)
    return model_of(settings, prepare(settings)).source()


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


def test_methods_have_their_adapters_and_weights_stand_once(config: dict[str, Any]) -> None:
    methods = config["multimethod"]["methods"]
    names = [each["method_name"] for each in methods]
    command = ["export-llm", "--config", written(config), "debug.verbose=true"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    path = Path(config["export"]["output_name"])
    for name in names:
        assert f"{path}: {name}: " in done.stdout
        assert Path(f"{path.stem}.report.{name}.md").is_file()
    held = {each["method_name"]: each.get("lora_config") for each in methods}
    rows = {name: logits_of(LlmProgram(path, method=name), IDS) for name in names}
    for name, adapter in held.items():
        with torch.no_grad():
            [wanted] = eager(config, adapter)(torch.tensor([IDS]))
        assert distance(rows[name], wanted) < 1e-5, name
    assert distance(rows["french"], rows["forward"]) > 0.1
    assert distance(rows["french"], rows["short"]) > 0.1
    data, model = path.read_bytes(), eager(config, None)
    for part in ("tok_embeddings", "layers.0.attention.wq", "layers.0.feed_forward.w2", "output"):
        weight = model.get_parameter(f"{part}.weight").detach()
        assert data.count(weight.numpy().tobytes()) == 1, part

    again = export_llm(load_settings(written(config)))
    assert "prepared" not in vars(again.stages)  # from the cache
    assert path.read_bytes() == data
    for name, lowered in again.methods.items():
        assert (lowered.plan.method, lowered.buffer) == (name, data)
        assert len(lowered.plan.delegations) == 3
    with pytest.raises(ConfigError, match="no method frensh; it has forward, french, next, short"):
        LlmProgram(path, method="frensh")

    plans = [plan for plan in read_file(path).program.execution_plan if plan.inputs]
    cache = 2 * 16 * 64 * 4  # bytes of keys and values
    assert [plan.non_const_buffer_sizes[2:] for plan in plans] == [[cache]] * len(names)
    program = Runtime.get().load_program(data)
    first, following = program.load_method("forward"), program.load_method("next")
    first.execute([torch.tensor([IDS]), torch.tensor([0])])
    [found] = following.execute([torch.tensor([[7]]), torch.tensor([len(IDS)])])
    wanted = logits_of(LlmProgram(path), [*IDS, 7])[-1]
    assert distance(found[0], wanted) < 1e-5


@pytest.mark.slow
def test_methods_may_have_all_their_constants_in_files(config: dict[str, Any]) -> None:
    config["export"] |= {"foundation_weights_file": "weights", "lora_weights_file": "lora"}
    for options in ({}, {"quantization": {"qmode": "8da4w", "group_size": 32}}):
        made = export_llm(load_settings(written(config, **options)))
        names = [*made.methods]
        files = [Path("weights.ptd"), Path("lora.ptd")]
        held = files[0].read_bytes()
        apart = {n: logits_of(LlmProgram(made.path, files, method=n), IDS) for n in names}
        plain = {key: v for key, v in config["export"].items() if not key.endswith("_file")}
        made = export_llm(load_settings(written(config, export=plain, **options)))
        for name in names:
            found = logits_of(LlmProgram(made.path, method=name), IDS)
            assert torch.equal(found, apart[name]), name
        one = config["multimethod"]["methods"][1]["lora_config"]
        base = config["base"] | {"lora_config": one}
        export_llm(load_settings(written(config, base=base, multimethod={}, **options)))
        assert files[0].read_bytes() == held  # one adapter, or several: the model is the same
