"""A transformer with its weights, in other numbers and with other attention and caches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cede.llm.calls import calls_with, program_calls
from cede.llm.delegates import plain_caches
from cede.llm.numbers import FITTED
from cede.llm.prequantized import put_in, told_of
from cede.llm.shared import tied_by_torchao, without_table
from cede.llm.upstream import rewritten

if TYPE_CHECKING:
    import torch

    from cede.llm.build import Prepared
    from cede.llm.settings import LlmSettings
    from cede.model import Model


def reworked(module: torch.nn.Module, settings: LlmSettings, prepared: Prepared) -> torch.nn.Module:
    """With the tables, attention and caches of the config; scales of caches are by its text."""
    from cede.llm.transforms import calibrate_caches, with_expanded_tables, with_static_caches

    llm = settings.llm
    asked, text = llm.model, llm.quantization.calibration_data
    if asked.expand_rope_table:
        module = with_expanded_tables(module)
    module = rewritten(
        module,
        custom_sdpa=asked.use_sdpa_with_kv_cache,
        sdpa_mask=bool(asked.use_attention_sink),
        quantized_cache=asked.quantize_kv_cache,
        rings=asked.local_global_attention,
    )
    if asked.static_quantize_kv_cache:
        scale = asked.static_quantize_kv_cache_scale
        plain = plain_caches(settings.config)
        module = with_static_caches(module, scale, custom_update=not plain)
        given = text != type(llm.quantization)().calibration_data  # the default is four words
        if text and given and prepared.tokenizer is not None:
            calibrate_caches(module, program_calls(text, prepared.tokenizer, llm))
    return module


def quantized(made: Model, settings: LlmSettings, prepared: Prepared) -> Model:
    """In the numbers of the config and of the checkpoint; scales may be fitted to the text."""
    done = _quantized(put_in(made, prepared.integers, settings.llm), settings, prepared)
    return told_of(done, prepared.integers)


def _quantized(made: Model, settings: LlmSettings, prepared: Prepared) -> Model:
    config, llm = settings.config, settings.llm
    tokenizer, made = prepared.tokenizer, tied_by_torchao(made, llm)
    quantize = without_table(config.quantize, llm)
    alike = llm.quantization.use_hqq and not quantize.calibration
    if not alike and (tokenizer is None or not fits_scales(settings)):
        return made.quantized(quantize, config)
    from cede.quant.source import quantize_model

    text = llm.quantization.calibration_data
    calls = None if alike or tokenizer is None else calls_with(text, tokenizer, llm)
    module, rows = quantize_model(made.source(), quantize, calls)
    return replace(made, module=module.eval(), quantization=rows)


def annotated(made: Model, settings: LlmSettings, prepared: Prepared) -> Model:
    """By a backend's quantizer; scales of activations are those of the config's text."""
    config, llm = settings.config, settings.llm
    text, tokenizer = llm.quantization.calibration_data, prepared.tokenizer
    asked = config.quantize
    static = "static" in (asked.pt2e_mode, *(rule.mode for rule in asked.layers))
    if tokenizer is None or not text or asked.calibration or not static:
        return made.quantized(asked, config)
    from cede.quant.pt2e import quantize_as_configured

    calls = program_calls(text, tokenizer, llm)
    program, rows = quantize_as_configured(
        made.source(), made.args, made.kwargs, config, made.dynamic_shapes, calls
    )
    return replace(made, exported=program, module=None, quantization=rows)


def fits_scales(settings: LlmSettings) -> bool:
    """Whether scales are fitted to the config's text."""
    quantize, asked = settings.config.quantize, settings.llm.quantization
    return quantize.scales == FITTED and not quantize.calibration and not asked.use_hqq
