"""From settings and a checkpoint to a model with example inputs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cede.config.fit import Problems
from cede.errors import ConfigError
from cede.llm.adapters import adapters_for
from cede.llm.delegates import products
from cede.llm.fits import context_fits, fits, heads_fit
from cede.llm.inputs import example_inputs
from cede.llm.library import load_library
from cede.llm.metadata import metadata_of
from cede.llm.models import checkpoint_path, params_of
from cede.llm.prequantized import sizes_fit, taken_apart, without
from cede.llm.pruned import maps_of
from cede.llm.rework import annotated, fits_scales, quantized, reworked
from cede.llm.shared import check_shared, with_one_weight, without_table
from cede.llm.upstream import quiet, transformer, with_attention_sink
from cede.llm.weights import LAYOUT, TIED, Weights, read_weights
from cede.model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from cede.llm.adapter_file import Adapter
    from cede.llm.methods import Method
    from cede.llm.settings import LlmSettings
    from cede.llm.tokens import Tokenizer
    from cede.quant.source.given import Integers

SEED = 0
UNREAD = (
    "fitted reads quantization.calibration_data, and there is no tokenizer: give"
    " base.tokenizer_path, or calls as cede.quantize.calibration"
)
SPREAD = 0.02
"""Standard deviation of random weights, as Llama's configs have it (`initializer_range`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A model on the meta device that its checkpoint fits, and all that was found out about it.

    Attributes:
        module: ExecuTorch's transformer; its weights are on the meta device.
        params: what it was made from.
        weights: None for random ones.
        metadata: for the program.
        tokenizer: that was named, or that the checkpoint has; None for none.
        integers: weights that the checkpoint has in integers, by module.
        maps: of a pruned vocabulary, by the transformer's argument.
        adapters: by the name of the method that has it.
        notes: where metadata came from, and what was left in the checkpoint.
    """

    module: torch.nn.Module
    params: Mapping[str, Any]
    weights: Weights | None
    metadata: Mapping[str, Any]
    tokenizer: Tokenizer | None = None
    maps: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    adapters: Mapping[str, Adapter] = field(default_factory=dict)
    integers: Mapping[str, Integers] = field(default_factory=dict)
    notes: tuple[str, ...] = field(default=())


def prepare(settings: LlmSettings) -> Prepared:
    """Read the checkpoint's header and tensors and hold params, names, shapes and numbers together.

    Raises:
        ConfigError: every contradiction there is.
        CheckpointError: a checkpoint that can't be read or converted.
    """
    llm = settings.llm
    problems = Problems(origin=settings.config.origin)
    load_library(llm, problems)
    weights = None
    if not llm.base.random_weights:
        path = checkpoint_path(llm.base.checkpoint)
        assert path is not None  # noqa: S101  (checked with the settings)
        weights = read_weights(path)
    weights, integers = taken_apart(weights, llm, problems)
    params = _params(llm, weights, problems)
    if problems.lines:
        raise ConfigError("\n".join(problems.lines))
    maps = maps_of(llm, params["vocab_size"], problems)
    heads_fit(llm, params, settings.config, problems)
    module = _module(llm, {**params, **maps})
    notes: list[str] = []
    adapters, weights = adapters_for(settings, module, params, weights, problems)
    if weights is not None:
        fits(module, weights, params, problems, notes)
    context_fits(weights, params, llm, problems, notes)
    sizes_fit(llm, params, module, problems)
    _numbers(module, settings, weights, problems)
    tokenizer, source = _tokenizer(settings, weights, problems)
    if tokenizer is None and fits_scales(settings):
        problems.add("cede.quantize.scales", UNREAD)
    metadata = metadata_of(settings, params, tokenizer, source, problems, notes)
    if problems.lines:
        raise ConfigError("\n".join(problems.lines))
    return Prepared(
        module=module, params=params, weights=without(weights, integers), metadata=metadata,
        tokenizer=tokenizer, maps=maps, adapters=adapters, integers=integers, notes=tuple(notes),
    )  # fmt: skip


def model_of(settings: LlmSettings, prepared: Prepared) -> Model:
    """The model of the first method, as `method_model` gives it."""
    return method_model(settings, prepared, base_model(settings, prepared), settings.methods[0])


def base_model(settings: LlmSettings, prepared: Prepared) -> Model:
    """The model with its weights, without adapters, quantized where its source is rewritten.

    Raises:
        ConfigError: numbers that can't be had.
    """
    from cede.llm.transforms import pruned

    llm, module = settings.llm, prepared.module
    _load(module, prepared.weights, tied=llm.model.use_shared_embedding)
    module = pruned(module, prepared.maps).eval().requires_grad_(False)
    args, shapes = example_inputs(llm)
    made = Model(name=llm.base.model_class.value, args=args, module=module, dynamic_shapes=shapes)
    if settings.config.quantize.pt2e:
        return made
    with quiet():
        return with_one_weight(quantized(made, settings, prepared), llm)


def method_model(settings: LlmSettings, prepared: Prepared, base: Model, method: Method) -> Model:
    """What a method computes: the model with its adapter, rewritten, and example inputs.

    Args:
        settings: of the export.
        prepared: from them.
        base: from `base_model`; its weights are not copied.
        method: of those of the settings.

    Raises:
        LoweringError: a backend's quantizer fails on the exported program.
    """
    import torch

    from cede.llm.adapted import adapted
    from cede.llm.upstream import dtype_of

    llm, config = settings.llm, settings.config
    args, shapes = example_inputs(llm, method.tokens)
    made = adapted(replace(base, args=args, dynamic_shapes=shapes), prepared.adapters, method.name)
    with quiet():
        module = reworked(made.source(), settings, prepared)
        dtype = dtype_of(llm)
        # sums of squares in half precision overflow; the transformer's own norms sum in float32
        if products(config) and dtype == torch.float32:
            from cede.llm.products import as_products

            module = as_products(module)
        # weights that torchao packed can't be converted; numbers that are asked for are of float32
        made = replace(made, module=module if dtype == torch.float32 else module.to(dtype))
        return annotated(made, settings, prepared) if config.quantize.pt2e else made


def _params(llm: Any, weights: Weights | None, problems: Problems) -> dict[str, Any]:
    found = dict(weights.params) if weights is not None else {}
    given = params_of(llm.base)
    if llm.base.params and weights is not None:
        for key in sorted((given.keys() & found.keys()) - LAYOUT):
            if given[key] != found[key]:
                problems.add(
                    "base.params", f"{key} is {given[key]}, but the checkpoint has {found[key]}"
                )
    made = given | found if llm.base.params or not found else found
    if made.get("use_scaled_rope"):
        first = llm.base.model_class.value in ("llama3", "llama3_1")
        made.setdefault("rope_scale_factor", 8 if first else 32)
    for key in ("dim", "n_layers", "n_heads", "vocab_size"):
        if key not in made:
            problems.add("base.params", f"{key} is missing")
    pattern = llm.model.local_global_attention
    if pattern and made.get("n_layers", 0) % len(pattern):
        problems.add(
            "model.local_global_attention",
            f"has {len(pattern)} windows, which don't divide {made['n_layers']} layers",
        )
    return made


def _module(llm: Any, params: Mapping[str, Any]) -> torch.nn.Module:
    whole = dict(
        params,
        max_seq_len=llm.export.max_seq_length,
        max_context_len=llm.export.max_context_length,
        use_kv_cache=llm.model.use_kv_cache,
        use_sdpa_with_kv_cache_op=llm.model.use_sdpa_with_kv_cache,
        generate_full_logits=llm.debug.generate_full_logits,
        enable_dynamic_shape=llm.model.enable_dynamic_shape,
    )
    with quiet():
        made = transformer(whole)
        if llm.model.use_attention_sink:
            sink, window = map(int, llm.model.use_attention_sink.split(","))
            made = with_attention_sink(made, whole, sink, window)
    return made


def _numbers(
    module: torch.nn.Module, settings: LlmSettings, weights: Weights | None, problems: Problems
) -> None:
    """Add what the numbers have against the model's sizes, before weights are decoded."""
    from cede.quant.source.layers import layers

    if settings.config.quantize.pt2e:
        return
    try:
        asked = layers(module, without_table(settings.config.quantize, settings.llm), values=False)
    except ConfigError as error:
        problems.add("quantization", str(error).removeprefix("quantize: "))
    else:
        check_shared(settings.llm, asked, weights, problems)


def _tokenizer(
    settings: LlmSettings, weights: Weights | None, problems: Problems
) -> tuple[Tokenizer | None, str]:
    """The tokenizer that was named, or that the checkpoint has, and what to call it."""
    from cede.llm.tokens import from_gguf, load_tokenizer

    named, own = settings.llm.base.tokenizer_path, "the checkpoint's tokenizer"
    try:
        if named:
            return load_tokenizer(named), named
        if weights is not None and "tokenizer.ggml.tokens" in weights.metadata:
            return from_gguf(weights.metadata, own), own
    except ConfigError as error:
        problems.add("base.tokenizer_path", str(error))
    return None, ""


def _load(module: torch.nn.Module, weights: Weights | None, tied: bool) -> None:
    import torch

    if weights is not None:
        module.load_state_dict(weights.plain(), strict=False, assign=True)
        return
    made = torch.Generator().manual_seed(SEED)
    state = {
        name: torch.ones(value.shape)
        if value.dim() == 1 and name.endswith("weight")
        else torch.randn(value.shape, generator=made) * SPREAD
        for name, value in module.named_parameters()
    }
    if tied:
        state[TIED[0]] = state[TIED[1]]
    module.load_state_dict(state, strict=False, assign=True)
