"""The section `quantization` in terms of a config's section `quantize`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cede.config import LayerConfig
from cede.errors import ConfigError
from cede.llm.data import data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cede.config import Config, QuantizeConfig
    from cede.config.fit import Problems

DEFAULT_GROUPS = {"8da4w": 128, "4w": 256}
"""Group sizes of `export_llm` where none is given."""

GPTQ = "8da4w-gptq"
FITTED, NONE = "fitted", "none"
"""Of `quantize.scales`, and the mode of a rule for what stays as it is."""


def numbers_of(
    llm: Any,
    config: Config,
    problems: Problems,
    notes: list[str],
    written: Mapping[str, Any],
) -> Config:
    """The config with the numbers that the section `quantization` asks for.

    Args:
        llm: an instance of `LlmConfig`.
        config: the section `cede`; its own `quantize` adds rules and what to do with a misfit.
        problems: where problems are added.
        notes: where remarks are added.
        written: what the file says in `quantization`.
    """
    asked = llm.quantization
    _clashes(llm, config.quantize, problems)
    asked.use_hqq = bool(written.get("use_hqq"))  # true is the default of export_llm
    if asked.pt2e_quantize is not None:
        quantize = _pt2e(llm, config.quantize, problems, notes)
        return replace(config, quantize=_scoped(asked, quantize, problems))
    quantize = _scoped(asked, config.quantize, problems)
    if asked.qmode:
        quantize = _linear(llm, quantize, problems, notes)
    elif asked.group_size is not None:
        problems.add("quantization.group_size", "is of no use without quantization.qmode")
    if asked.embedding_quantize:
        quantize = _table(llm, quantize, problems)
    return replace(config, quantize=_searched(asked, quantize, notes))


def _searched(asked: Any, quantize: QuantizeConfig, notes: list[str]) -> QuantizeConfig:
    """With scales that are searched for in place of those that HQQ finds, if it is asked for."""
    asked.use_hqq = asked.use_hqq and quantize.scales != FITTED
    if not asked.use_hqq or not (asked.qmode or asked.embedding_quantize):
        return quantize
    if quantize.mode not in DEFAULT_GROUPS:
        notes.append("quantization.use_hqq: weights are rounded to the nearest step")
        asked.use_hqq = False
        return quantize
    notes.append(
        "quantization.use_hqq: scales of linear modules are searched for least squared error by"
        " cede; embeddings are rounded to the nearest step"
    )
    return replace(quantize, scales=FITTED)


def _scoped(asked: Any, quantize: QuantizeConfig, problems: Problems) -> QuantizeConfig:
    """With a backend's quantizer for linear modules alone, if it is asked for."""
    if asked.quantize_scope.value == "full":
        return quantize
    if not quantize.pt2e:
        problems.add(
            "quantization.quantize_scope",
            "is of no use without quantization.pt2e_quantize or cede.quantize.pt2e",
        )
        return quantize
    if quantize.layers:
        problems.add(
            "quantization.quantize_scope",
            "does not go with cede.quantize.layers: give a rule {select: 'op:*', mode: none} first"
            " and one for op:aten.linear there",
        )
    rules = [LayerConfig(select="op:*", mode=NONE),
             LayerConfig(select="op:aten.linear", mode=quantize.pt2e_mode)]  # fmt: skip
    return replace(quantize, layers=rules)


def _clashes(llm: Any, quantize: QuantizeConfig, problems: Problems) -> None:
    asked = llm.quantization
    pairs = (("qmode", "mode"), ("group_size", "group_size"), ("embedding_quantize", "embedding"),
             ("pt2e_quantize", "pt2e"))  # fmt: skip
    for key, own in pairs:
        if getattr(asked, key) is not None and getattr(quantize, own):
            problems.add(f"cede.quantize.{own}", f"quantization.{key} says it too; give one")
    if asked.pt2e_quantize is not None and (asked.qmode or asked.embedding_quantize):
        problems.add(
            "quantization.pt2e_quantize",
            "does not go with quantization.qmode or embedding_quantize; give one",
        )


def _linear(
    llm: Any, quantize: QuantizeConfig, problems: Problems, notes: list[str]
) -> QuantizeConfig:
    from cede.quant.source import MODES, read_mode

    mode, group = llm.quantization.qmode, llm.quantization.group_size
    path = "quantization.qmode"
    if llm.backend.torchao.use_torchao_kernels_linear and mode in ("8da4w", "8da8w"):
        path = "backend.torchao.use_torchao_kernels_linear"
        group = group if group is not None else DEFAULT_GROUPS["8da4w"]
        mode = f"torchao:{mode}"
    if mode == GPTQ:
        problems.add(path, f"can't be had: {GPTQ} needs calibration by lm_eval; take 8da4w")
        return quantize
    if mode in ("int8", "8da8w"):
        if group:
            notes.append(f"quantization.group_size: {mode} has one scale a row")
        group = None
    elif group is None:
        group = DEFAULT_GROUPS.get(mode)
    try:
        read_mode(mode, group, "mode")
    except ConfigError as error:
        said = str(error).removeprefix("mode: ")
        at = "quantization.group_size" if said.startswith("group_size") else path
        if mode not in MODES and said.startswith("unknown"):
            from cede.nearest import suggestion

            said = f"unknown mode {mode!r}; {suggestion(mode, MODES)}"
        problems.add(at, said)
        return quantize
    return replace(quantize, mode=mode, group_size=group)


def _table(llm: Any, quantize: QuantizeConfig, problems: Problems) -> QuantizeConfig:
    from cede.quant.source import read_embedding

    text = llm.quantization.embedding_quantize
    bits, comma, group = text.partition(",")
    if group.strip().lower() == "none":
        text = f"{bits}{comma}0"
    try:
        read_embedding(text, "embedding", shared=llm.model.use_shared_embedding)
    except ConfigError as error:
        problems.add("quantization.embedding_quantize", str(error).removeprefix("embedding: "))
        return quantize
    return replace(quantize, embedding=text)


def _pt2e(
    llm: Any, quantize: QuantizeConfig, problems: Problems, notes: list[str]
) -> QuantizeConfig:
    name = llm.quantization.pt2e_quantize.value
    table = data("backends.json")
    known: Mapping[str, Mapping[str, Any]] = table["pt2e"]
    if name not in known:
        why = next(text for begin, text in table["pt2e_cant"].items() if name.startswith(begin))
        problems.add("quantization.pt2e_quantize", f"can't be had: {name}: {why}")
        return quantize
    made = replace(quantize, **known[name])
    path, group = _group(llm, table["pt2e_groups"].get(name, {}))
    if group is None:
        return made
    if name not in table["pt2e_groups"]:
        notes.append(f"{path}: {name} has no groups")
        return made
    sizes = table["pt2e_groups"][name]["sizes"]
    if group not in sizes:
        problems.add(path, f"is {group}; give one of {', '.join(map(str, sizes))}")
    return replace(made, pt2e=f"{made.pt2e}_{group}")


def _group(llm: Any, known: Mapping[str, Any]) -> tuple[str, int | None]:
    """The group size that is asked for, None for none, and where."""
    group: int | None = llm.quantization.group_size
    if group is not None or not known:
        return "quantization.group_size", group
    section, name = known["field"]
    backend = getattr(llm.backend, section)
    value = getattr(backend, name)
    path = f"backend.{section}.{name}"
    return path, None if value == getattr(type(backend)(), name) else value
