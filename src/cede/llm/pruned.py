"""Vocabularies with fewer tokens: the maps of `model.input_prune_map` and `output_prune_map`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cede.config.fit import Problems

KEYS = ("input_prune_map", "output_prune_map")


def check_pruned(llm: Any, problems: Problems, notes: list[str]) -> None:
    """Add what is wrong with the maps, before any vocabulary is known."""
    for key in KEYS:
        if path := getattr(llm.model, key):
            token_map(path, f"model.{key}", problems)
            if llm.model.use_shared_embedding:
                problems.add(
                    f"model.{key}",
                    "does not go with model.use_shared_embedding: it leaves one of the two whole",
                )
    if llm.model.input_prune_map:
        notes.append("model.input_prune_map: a call takes the new ids, those before the colons")


def token_map(path: str, where: str, problems: Problems) -> dict[int, int]:
    """New id -> id in the whole vocabulary, {} where it can't be used.

    The form is ExecuTorch's (`examples/models/llama/model.py`, 1.5.1): a JSON object whose keys are
    the new ids as texts. They count from 0; no token stands twice.
    """
    try:
        read = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problems.add(where, f"{path}: can't be read as JSON: {error}")
        return {}
    if not isinstance(read, dict) or not read or not all(map(_is_id, read.values())):
        problems.add(where, f'{path}: expected new ids with ids, such as {{"0": 17, "1": 3}}')
        return {}
    wanted = {str(i) for i in range(len(read))}
    if strange := sorted(read.keys() - wanted):
        problems.add(where, f"{path}: {strange[0]!r} is none of the new ids 0 to {len(read) - 1}")
        return {}
    found = {int(new): old for new, old in read.items()}
    if len(set(found.values())) < len(found):
        problems.add(where, f"{path}: an id stands twice")
        return {}
    return dict(sorted(found.items()))


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def maps_of(llm: Any, vocabulary: int, problems: Problems) -> dict[str, Mapping[int, int]]:
    """The maps by the transformer's argument, of ids that the vocabulary has."""
    made: dict[str, Mapping[int, int]] = {}
    for key in KEYS:
        path = getattr(llm.model, key)
        if not path:
            continue
        made[key] = found = token_map(path, f"model.{key}", problems)
        if found and (most := max(found.values())) >= vocabulary:
            problems.add(f"model.{key}", f"{most} is no token: the vocabulary has {vocabulary}")
    return made
