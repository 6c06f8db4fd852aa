"""The plans of real models, against what they were.

A change that is meant is written down with `CEDE_UPDATE_GOLDEN=1 python -m pytest tests/e2e/
test_golden.py`; the difference is then a part of the commit.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.zoo import ZOO, exported

import cede

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cede.types import Loss, Refusal

FOLDER = Path(__file__).parents[1] / "golden"

CASES = [(model, "xnnpack-fp32") for model in ZOO]
CASES += [(model, "reference") for model in ("torchcrepe", "vit")]
CASES += [(model, "two-backends") for model in ("bert", "llama")]


def counts(rows: Iterable[Refusal | Loss]) -> dict[str, dict[str, int]]:
    """By partitioner and code."""
    found = Counter((row.partitioner, row.reason.code.value) for row in rows)
    made: dict[str, dict[str, int]] = {}
    for (partitioner, code), count in sorted(found.items()):
        made.setdefault(partitioner, {})[code] = count
    return made


def summary(plan: cede.Plan) -> dict[str, Any]:
    graph = plan.graph
    assert graph is not None
    return {
        "delegations": [
            {
                "id": each.id,
                "backend": each.backend,
                "partitioners": [part.partitioner for part in each.parts],
                "ops": len(each.ops),
                "first": min(each.ops, key=graph.position),
                "last": max(each.ops, key=graph.position),
            }
            for each in plan.delegations
        ],
        "refusals": counts(plan.refusals),
        "losses": counts(plan.losses),
        "ops": {"all": len(graph.ops), "delegated": len(plan.delegation_of())},
        "left": dict(sorted(left(plan).items())),
        "kept": len(plan.kept),
        "warnings": list(plan.warnings),
    }


def left(plan: cede.Plan) -> Counter[str]:
    """Targets of the ops that no delegate has."""
    assert plan.graph is not None
    taken = plan.delegation_of()
    return Counter(op.target for op in plan.graph.ops if op.id not in taken)


def lines(made: dict[str, Any]) -> list[str]:
    """A line for each fact, so that a difference names what changed and nothing else."""
    told = [
        f"{each['backend']} by {'+'.join(each['partitioners'])}: {each['ops']} ops,"
        f" {each['first']} .. {each['last']}"
        for each in made["delegations"]
    ]
    for name in ("refusals", "losses"):
        for partitioner, codes in made[name].items():
            told += [f"{name} of {partitioner}: {count} {code}" for code, count in codes.items()]
    told += [f"ops {kind}: {count}" for kind, count in made["ops"].items()]
    told += [f"left: {count} {target}" for target, count in made["left"].items()]
    return [*told, f"kept: {made['kept']}", *(f"warning: {text}" for text in made["warnings"])]


def written(made: dict[str, Any]) -> str:
    """JSON with a line for each delegation."""
    rows = ",\n".join(f"  {json.dumps(each)}" for each in made["delegations"])
    text = json.dumps({**made, "delegations": []}, indent=1) + "\n"
    return text.replace('"delegations": []', f'"delegations": [\n{rows}\n ]', 1)


def difference(was: dict[str, Any], now: dict[str, Any]) -> str:
    return "\n".join(unified_diff(lines(was), lines(now), "stored", "planned", lineterm="", n=1))


@pytest.mark.parametrize(("model", "config"), CASES)
def test_the_plan_is_what_it_was(model: str, config: str) -> None:
    now = summary(cede.plan(exported(model).program, config))
    stored = FOLDER / f"{model}-{config}.json"
    if os.environ.get("CEDE_UPDATE_GOLDEN") == "1":
        stored.write_text(written(now))
    assert stored.exists(), f"{stored.name} is not stored yet; CEDE_UPDATE_GOLDEN=1 writes it"
    was = json.loads(stored.read_text())
    if now != was:
        changed = difference(was, now) or "only the numbering of the delegations"
        told = f"the plan of {model} with {config} changed; CEDE_UPDATE_GOLDEN=1 stores it if meant"
        pytest.fail(f"{told}:\n{changed}", pytrace=False)


def test_every_stored_plan_is_compared() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {"-".join(case) for case in CASES}


def test_a_difference_names_the_delegation_that_changed() -> None:
    stored = FOLDER / "vit-xnnpack-fp32.json"
    was, now = json.loads(stored.read_text()), json.loads(stored.read_text())
    changed = now["delegations"][1]
    changed["ops"] += 1
    removed = now["delegations"].pop(0)
    said = difference(was, now).splitlines()
    assert any(line.startswith("-") and removed["last"] in line for line in said)
    assert any(line.startswith("+") and f"{changed['ops']} ops" in line for line in said)
    assert len([line for line in said if line[0] in "+-"]) == 2 + 3
    assert difference(was, was) == ""
