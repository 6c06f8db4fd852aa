"""An LLM exported again: from the cache where nothing changed, anew where something did."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from cede.api import hosted
from cede.llm import Exported, LlmSettings, export_llm, load_settings
from cede.llm.key import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN = Path(__file__).parents[1] / "smollm2-8da4w.yaml"
SIZES = {"dim": 64, "hidden_dim": 96, "n_layers": 1, "n_heads": 4, "vocab_size": 128}


def asked(folder: Path, *overrides: str) -> LlmSettings:
    given = [
        f"base.checkpoint={folder / 'model.pth'}", f"base.params={folder / 'params.json'}",
        f"export.output_name={folder / 'made.pte'}", "export.max_seq_length=8",
        "export.max_context_length=16", f"cede.lowering.cache_folder={folder / 'kept'}", *overrides,
    ]  # fmt: skip
    return load_settings(PLAIN, given)


def made(settings: LlmSettings) -> tuple[Exported, list[str], bytes]:
    """What an export gave, the steps it took, and the program."""
    steps: list[str] = []

    @contextmanager
    def step(name: str) -> Iterator[Any]:
        steps.append(name)
        yield

    done = export_llm(settings, step=step)
    return done, steps, done.path.read_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    from cede.llm.build import model_of, prepare

    (tmp_path / "params.json").write_text(json.dumps(SIZES))
    plain = [f"quantization.{name}=null" for name in ("qmode", "group_size", "embedding_quantize")]
    random = ["base.checkpoint=null", "base.random_weights=true", "model.use_kv_cache=false",
              "model.use_sdpa_with_kv_cache=false",
              f"base.params={tmp_path / 'params.json'}"]  # fmt: skip
    settings = load_settings(PLAIN, [*random, *plain])
    model = model_of(settings, prepare(settings)).source()
    torch.save(dict(model.named_parameters()), tmp_path / "model.pth")
    return tmp_path


def test_an_llm_is_taken_from_the_cache_until_something_changes(folder: Path) -> None:
    first, steps, data = made(asked(folder))
    assert steps == ["load", "quantize", "export", "lower", "write"]
    again, steps, same = made(asked(folder, "debug.verbose=true"))
    assert steps == ["write"]
    assert same == data
    assert first.lowered is not None
    assert again.lowered is not None
    assert again.lowered.report().rows == first.lowered.report().rows
    assert (again.quantization, again.metadata) == (first.quantization, first.metadata)
    assert again.report is not None
    assert "8da4w" in again.report.read_text()
    assert len(list((folder / "kept").glob("program-*"))) == 1
    # who asks for what it was made from gets it
    wanted = first.lowered.source.graph_signature
    assert str(again.lowered.source.graph_signature) == str(wanted)


def test_the_key_is_that_of_all_that_an_llm_is_made_from(folder: Path) -> None:
    def key(*overrides: str) -> str | None:
        settings = asked(folder, *overrides)
        return key_of(settings, hosted(settings.config)[0])

    first = key()
    assert first is not None
    for same in ("debug.verbose=true", "export.output_name=x.pte", "cede.lowering.cache_bytes=9"):
        assert key(same) == first, same
    changes = ("export.max_context_length=32", "quantization.qmode=int8", "base.metadata={a: 1}",
               "cede.quantize.scales=fitted", "cede.policy.fallback=warn")  # fmt: skip
    found = [first, *map(key, changes)]
    sizes = json.dumps(SIZES | {"rope_theta": 500.0})
    (folder / "params.json").write_text(sizes)
    found.append(key())
    (folder / "model.pth").write_bytes(b"other")
    found.append(key())
    assert len({*found} - {None}) == len(found)


def test_the_key_reads_what_an_llm_is_made_from_and_nothing_beside_it(folder: Path) -> None:
    def key(*overrides: str) -> str | None:
        settings = asked(folder, *overrides)
        return key_of(settings, hosted(settings.config)[0])

    first = key()
    (folder / "report.json").write_text("{}")  # as an export itself may write it
    (folder / "broken.json").symlink_to(folder / "nowhere")
    assert key() == first is not None
    place = folder / "hf"
    place.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (place / name).write_text("{}")
    named = (f"base.checkpoint={place}", f"base.tokenizer_path={place / 'tokenizer.json'}")
    found = [key(*named)]
    for name in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json",
                 "generation_config.json", "more.safetensors"):  # fmt: skip
        (place / name).write_text('{"a": 1}')
        found.append(key(*named))
    assert None not in found
    assert len(set(found)) == len(found)


def test_nothing_is_kept_of_a_checkpoint_that_was_written_meanwhile(folder: Path) -> None:
    file = folder / "model.pth"
    old = file.read_bytes()
    torch.save({name: value + 1 for name, value in torch.load(file).items()}, folder / "new.pth")

    @contextmanager
    def step(name: str) -> Iterator[Any]:
        if name == "load":
            (folder / "new.pth").replace(file)
        yield

    other = export_llm(asked(folder), step=step)
    assert other.lowered is not None
    assert not list((folder / "kept").glob("program-*"))
    file.write_bytes(old)
    assert made(asked(folder))[2] != other.lowered.buffer
