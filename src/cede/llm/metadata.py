"""What a program says about itself: methods that return constants, read by runners."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cede.config.fit import Problems
    from cede.llm.settings import LlmSettings
    from cede.llm.tokens import Tokenizer

PATH = "base.metadata"
BOS, EOS = "get_bos_id", "get_eos_ids"
KNOWN = (
    BOS, EOS, "get_max_seq_len", "get_max_context_len", "get_n_layers", "get_vocab_size",
    "use_kv_cache", "use_sdpa_with_kv_cache", "enable_dynamic_shape",
)  # fmt: skip
"""What ExecuTorch's runners ask for."""


def read_metadata(text: str | None, problems: Problems) -> dict[str, Any]:
    """Method name -> value, of a JSON text; problems are added.

    Numbers of tokens are whole numbers; `get_eos_ids` is a list of them.
    """
    if not text:
        return {}
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        problems.add(PATH, f"not JSON: {error}")
        return {}
    if not isinstance(found, dict):
        problems.add(PATH, f"got {text[:60]!r}, expected names with values")
        return {}
    for name, value in found.items():
        if wrong := _wrong(name, value):
            problems.add(f"{PATH}.{name}", wrong)
    return found


def _wrong(name: str, value: Any) -> str:
    if not name.isidentifier() or name == "forward":
        return "can't be the name of a method that returns a constant"
    if name not in KNOWN and name.startswith(("get_bos", "get_eos")):
        return f"unknown name; {suggestion(name, KNOWN)}"
    if name == EOS:
        if not isinstance(value, list) or not value or not all(map(_is_id, value)):
            return f"is {value!r}; give a list of whole numbers, such as [2, 7]"
    elif name == BOS or name.startswith("get_"):
        whole = isinstance(value, list) and value and all(map(_is_id, value))
        if not (_is_id(value) or (whole and name not in KNOWN)):
            return f"is {value!r}; give a whole number"
    elif name in KNOWN:
        return "" if isinstance(value, bool) else f"is {value!r}; give true or false"
    elif not isinstance(value, bool | int | float | str):
        return f"is {value!r}; give a number, a text, true or false"
    return ""


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def metadata_problems(
    given: Mapping[str, Any], facts: Mapping[str, Any], vocabulary: int, problems: Problems
) -> None:
    """Add where given values contradict what the program is.

    Args:
        given: from `read_metadata`.
        facts: what `facts_of` says.
        vocabulary: size of the model's.
        problems: where problems are added.
    """
    for name in (BOS, EOS):
        value = given.get(name, ())
        for token in value if isinstance(value, list) else [value] if name in given else []:
            if _is_id(token) and token >= vocabulary:
                problems.add(
                    f"{PATH}.{name}", f"{token} is no token: the vocabulary has {vocabulary}"
                )
    for name in given.keys() & facts.keys():
        if given[name] != facts[name]:
            problems.add(
                f"{PATH}.{name}", f"is {given[name]!r}, but the program has {facts[name]!r}"
            )


def facts_of(llm: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """What `export_llm` stores about every program."""
    return {
        "get_max_seq_len": llm.export.max_seq_length,
        "get_max_context_len": llm.export.max_context_length,
        "get_n_layers": params["n_layers"],
        "get_vocab_size": params["vocab_size"],
        "use_kv_cache": llm.model.use_kv_cache,
        "use_sdpa_with_kv_cache": llm.model.use_sdpa_with_kv_cache,
        "enable_dynamic_shape": llm.model.enable_dynamic_shape,
    }


def from_tokenizer(bos: int | None, eos: Iterable[int]) -> dict[str, Any]:
    """The begin and the ends that a tokenizer has."""
    ends = list(dict.fromkeys(eos))
    return ({} if bos is None else {BOS: bos}) | ({EOS: ends} if ends else {})


def metadata_of(
    settings: LlmSettings,
    params: Mapping[str, Any],
    tokenizer: Tokenizer | None,
    source: str,
    problems: Problems,
    notes: list[str],
) -> dict[str, Any]:
    """The whole metadata of a program: of the config, of the tokenizer, of the model.

    Args:
        settings: of the export.
        params: what the model is made from.
        tokenizer: None for none.
        source: what to call it.
        problems: where contradictions are added.
        notes: where it is told what came from the tokenizer.
    """
    facts = facts_of(settings.llm, params)
    metadata_problems(settings.metadata, facts, params["vocab_size"], problems)
    read: dict[str, Any] = {}
    if tokenizer is not None:
        if tokenizer.size > params["vocab_size"]:
            problems.add(
                "base.tokenizer_path",
                f"{source} has {tokenizer.size} tokens, the model {params['vocab_size']}",
            )
        read = from_tokenizer(tokenizer.bos, tokenizer.eos)
        for name in read.keys() - settings.metadata.keys():
            notes.append(f"{name} is {read[name]}, from {source}")
    return {**facts, **read, **settings.metadata}
