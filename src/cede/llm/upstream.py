"""What is taken from inside ExecuTorch's LLM export (1.5.1): config, transformer and rewrites.

`extension/llm/export/config/llm_config.py` (the dataclasses of `export_llm`'s YAML), and of
`examples/models/llama`: `model_args.py`, `llama_transformer.py`, `source_transformation/`.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from dataclasses import field, fields, is_dataclass, make_dataclass
from enum import Enum
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import torch
    from torch.export import ExportedProgram

CONFIG = "extension/llm/export/config/llm_config.py"
CONFIG_MODULE = "cede.llm._executorch_config"
MORE = ("phi_3_mini",)
"""Models whose params its transformer can have, and for which it has no name."""


@cache
def config_module() -> Any:
    """ExecuTorch's module of config dataclasses, with nothing of the package around it.

    The package imports torch and torchao, the file only the standard library. The checks that its
    dataclasses run when they are made are taken off, so that all problems can be told at once;
    `own_checks` runs them.
    """
    file = _folder() / CONFIG
    spec = spec_from_file_location(CONFIG_MODULE, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ConfigError(f"{file}: no such file; cede takes export_llm's config of executorch 1.5")
    module = module_from_spec(spec)
    sys.modules[CONFIG_MODULE] = module  # where dataclasses look up types
    spec.loader.exec_module(module)
    for kind in list(vars(module).values()):
        if isinstance(kind, type) and is_dataclass(kind) and "__post_init__" in vars(kind):
            kind.own_checks = kind.__post_init__  # type: ignore[attr-defined]
            kind.__post_init__ = _nothing  # type: ignore[attr-defined]
    return module


@cache
def schema() -> type:
    """`LlmConfig` with what cede adds: `base.random_weights`, and models that `MORE` has."""
    module = config_module()
    names = {each.name: each.value for each in module.ModelType}
    make: Any = Enum  # whose members a type checker would want to know
    models = make("ModelType", names | {name: name for name in MORE}, type=str)
    base = make_dataclass(
        "BaseConfig",
        [
            ("model_class", models, field(default=models(module.BaseConfig().model_class.value))),
            ("random_weights", bool, field(default=False)),
        ],
        bases=(module.BaseConfig,),
    )
    return make_dataclass(
        "LlmConfig",
        [("base", base, field(default_factory=base))],
        bases=(module.LlmConfig,),
    )


def own_checks(section: object) -> str:
    """What ExecuTorch's dataclass says against its own values, "" for nothing."""
    check: Callable[[], None] | None = getattr(section, "own_checks", None)
    try:
        if check is not None:
            check()
    except ValueError as error:
        return str(error)
    return ""


def dtype_of(llm: Any) -> torch.dtype:
    """The dtype that `model.dtype_override` of an `LlmConfig` names."""
    import torch

    known = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    return known[llm.model.dtype_override.value]


def params_known() -> frozenset[str]:
    """Keys that a params file may have: the fields of `ModelArgs`. Imports torch."""
    from executorch.examples.models.llama.model_args import ModelArgs

    return frozenset(each.name for each in fields(ModelArgs))


def transformer(params: Mapping[str, Any]) -> torch.nn.Module:
    """ExecuTorch's transformer on the meta device, with its tables computed.

    Args:
        params: arguments of `ModelArgs`.

    Raises:
        ConfigError: values that make no model.
    """
    import torch
    from executorch.examples.models.llama.llama_transformer import construct_transformer
    from executorch.examples.models.llama.model_args import ModelArgs

    try:
        with torch.device("meta"):
            made: torch.nn.Module = construct_transformer(ModelArgs(**params))
    except (TypeError, ValueError, AssertionError, ZeroDivisionError, RuntimeError) as error:
        raise ConfigError(f"base.params: these make no model: {error}") from error
    return made


def with_attention_sink(
    model: torch.nn.Module, params: Mapping[str, Any], sink: int, window: int
) -> torch.nn.Module:
    """The transformer with a cache that keeps the first tokens and a window of the last."""
    from executorch.examples.models.llama.model_args import ModelArgs
    from executorch.examples.models.llama.source_transformation.attention_sink import (
        enable_attention_sink,
    )

    made: torch.nn.Module = enable_attention_sink(
        module=model, params=ModelArgs(**params), sink_size=sink, window_size=window
    )
    return made


def rewritten(
    model: torch.nn.Module,
    *,
    custom_sdpa: bool,
    sdpa_mask: bool,
    quantized_cache: bool,
    rings: Sequence[int] | None,
) -> torch.nn.Module:
    """The transformer with the attention and caches asked for, in ExecuTorch's own order.

    Args:
        model: from `transformer`, with weights.
        custom_sdpa: attention is `llama::custom_sdpa`, caches are written by `llama::update_cache`.
        sdpa_mask: the custom attention gets a mask, as an attention sink needs; layers with a ring
            do in any case.
        quantized_cache: caches are int8, one scale a token.
        rings: window of each layer's cache, repeated over the layers; 0 keeps all.
    """
    from executorch.examples.models.llama.source_transformation import custom_kv_cache, sdpa

    if custom_sdpa:
        model = sdpa.replace_sdpa_with_custom_op(model, sdpa_mask)
        model = custom_kv_cache.replace_kv_cache_with_custom_kv_cache(model)
    if quantized_cache:
        model = custom_kv_cache.replace_kv_cache_with_quantized_kv_cache(model)
        model = sdpa.replace_sdpa_with_quantized_sdpa(model)
    if rings:
        model = custom_kv_cache.replace_kv_cache_with_ring_kv_cache(model, list(rings))
    for module in model.modules():
        if isinstance(module, sdpa.QuantizedSDPA):
            # it holds the attention's cache: torch.export takes no buffer that has two names
            held = module._modules.pop("kv_cache")
            object.__setattr__(module, "kv_cache", held)
    return model


def norms(model: torch.nn.Module) -> list[tuple[torch.nn.Module, str, Any]]:
    """Each RMSNorm of a transformer: the module it is in, its name there, and itself."""
    from executorch.examples.models.llama.norm import RMSNorm, ScalelessRMSNorm

    return [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, RMSNorm | ScalelessRMSNorm)
    ]


def rotary(model: torch.nn.Module) -> list[Any]:
    """The modules with tables of the rotary embedding, each once."""
    from executorch.examples.models.llama.rope import Rope

    return [module for module in model.modules() if isinstance(module, Rope)]


def without_transposes(program: ExportedProgram) -> ExportedProgram:
    """The program, changed in place: without transposes that undo one another."""
    from executorch.extension.llm.export.export_passes import RemoveRedundantTransposes

    RemoveRedundantTransposes()(program.graph_module)
    return program


@contextmanager
def quiet() -> Iterator[None]:
    """A context without ExecuTorch's warnings about torch functions that it still calls."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield


def _folder() -> Path:
    spec = PathFinder.find_spec("executorch")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        if (Path(place) / CONFIG).is_file():
            return Path(place)
    raise ConfigError("executorch with export_llm's config is not there: pip install executorch")


def _nothing(_: object) -> None:
    """In place of a check."""
