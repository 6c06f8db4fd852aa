"""A plan is a value: it survives JSON, and damage is named by its path."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.errors import LoweringError, PlanError
from cede.planning import Plan, Source
from cede.types import Code, Delegation, Loss, Part, Reason, Refusal

if TYPE_CHECKING:
    from pathlib import Path

text = st.text(max_size=8)
texts = st.lists(text, max_size=3).map(tuple)
sources = st.lists(st.builds(Source, name=text, distribution=text, version=text), max_size=2).map(
    tuple
)
reasons = st.builds(Reason, code=st.sampled_from(Code), detail=text)
values = st.one_of(text, st.booleans(), st.integers(), st.none(), texts)
parts = st.builds(Part, partitioner=text, ops=texts)
delegations = st.builds(
    Delegation,
    id=text,
    backend=text,
    parts=st.lists(parts, max_size=2).map(tuple),
    specs=st.lists(st.tuples(text, st.binary(max_size=9)), max_size=2).map(tuple),
    marks=st.lists(st.tuples(text, text, values), max_size=2).map(tuple),
)
plans = st.builds(
    Plan,
    fingerprint=text,
    delegations=st.lists(delegations, max_size=2).map(tuple),
    refusals=st.lists(
        st.builds(Refusal, partitioner=text, op=text, reason=reasons), max_size=2
    ).map(tuple),
    losses=st.lists(
        st.builds(Loss, partitioner=text, backend=text, op=text, reason=reasons), max_size=2
    ).map(tuple),
    kept=texts,
    partitioners=sources,
    backends=sources,
    warnings=texts,
    method=text,
)

PLAN = Plan(
    fingerprint="f" * 64,
    delegations=(
        Delegation(
            id="d0",
            backend="metal",
            parts=(Part(partitioner="mine", ops=("a", "b")),),
            specs=(("key", b"\x00\xff"),),
        ),
    ),
    refusals=(Refusal(partitioner="mine", op="c", reason=Reason(code=Code.DTYPE, detail="é")),),
    losses=(
        Loss(
            partitioner="other",
            backend="metal",
            op="a",
            reason=Reason(code=Code.OUTBID, detail="mine comes first"),
        ),
    ),
    kept=("linear",),
    partitioners=(Source(name="mine", distribution="cede-mine", version="1"),),
    backends=(Source(name="metal", distribution="cede-metal", version="2"),),
    warnings=("careful",),
)


@given(plans)
def test_round_trip(plan: Plan) -> None:
    written = plan.to_json()
    again = Plan.from_json(written)
    assert again == plan
    assert again.to_json() == written


def test_text_is_stable_and_readable() -> None:
    written = PLAN.to_json()
    assert written == copy.deepcopy(PLAN).to_json()
    assert written.endswith("}\n")
    assert '"é"' in written
    assert json.loads(written)["delegations"][0]["specs"] == [["key", "AP8="]]
    assert list(json.loads(written))[:3] == ["schema", "method", "fingerprint"]


def edited(*path: Any, to: Any = None, drop: bool = False) -> str:
    data = json.loads(PLAN.to_json())
    where = data
    for key in path[:-1]:
        where = where[key]
    if drop:
        del where[path[-1]]
    else:
        where[path[-1]] = to
    return json.dumps(data)


def every_object(value: Any, path: str = "$") -> Any:
    """Paths and keys of every object in a plan."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield path, key
            yield from every_object(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from every_object(inner, f"{path}[{i}]")


KEYS = list(every_object(json.loads(PLAN.to_json())))


def steps(path: str) -> list[Any]:
    found: list[Any] = []
    for name in path.split(".")[1:]:
        head, *numbers = name.replace("]", "").split("[")
        found += [head, *map(int, numbers)]
    return found


def test_the_table_of_keys_is_the_whole_schema() -> None:
    assert len(KEYS) == 10 + 3 + 3 + 5 + 2 + 4 + 5
    assert ("$.delegations[0].parts[0]", "ops") in KEYS


@pytest.mark.parametrize(("path", "key"), KEYS)
def test_a_missing_key_is_named(path: str, key: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan.from_json(edited(*steps(path), key, drop=True), "my.json")
    assert str(caught.value) == f"my.json: {path}.{key} is missing"


@pytest.mark.parametrize(("path", "key"), KEYS)
@pytest.mark.parametrize(
    ("wrong", "name"), [(True, "true or false"), (None, "null"), ({}, "an object")]
)
def test_a_wrong_type_is_named(path: str, key: str, wrong: Any, name: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan.from_json(edited(*steps(path), key, to=wrong), "my.json")
    assert str(caught.value).startswith(f"my.json: {path}.{key} should be ")
    assert str(caught.value).endswith(f", not {name}")


@pytest.mark.parametrize(
    ("damaged", "sentence"),
    [
        (edited("schema", to=2), "$.schema is 2, this cede reads 1"),
        (edited("kept", to=["a", 1]), "$.kept should hold strings only"),
        (edited("delegations", to=[3]), "$.delegations[0] should be an object, not a number"),
        (edited("losses", 0, "code", to="bad"), "$.losses[0].code is 'bad'; known: unknown-op, "),
        (edited("delegations", 0, "specs", to=["ab"]), "$.delegations[0].specs[0] should be ["),
        (edited("delegations", 0, "specs", to=[["a", 1]]), "$.delegations[0].specs[0] should be "),
        (edited("delegations", 0, "specs", to=[["a", "?"]]), "$.delegations[0].specs[0] should be"),
        (edited("delegations", 0, "specs", to=[["a", "é"]]), "$.delegations[0].specs[0] should be"),
        (
            edited("delegations", 0, "marks", to=[["a", 1, 2]]),
            "$.delegations[0].marks[0] should be",
        ),
        (edited("delegations", 0, "marks", to=[["a", "k"]]), "$.delegations[0].marks[0] should be"),
        (
            edited("delegations", 0, "marks", to=[["a", "k", {}]]),
            "$.delegations[0].marks[0] should",
        ),
        ("[]", "$ should be an object, not a list"),
        ("null", "$ should be an object, not null"),
        ('{"schema": 1,\n "x"}', "not JSON (line 2, column 5: "),
        ("", "not JSON (line 1, column 1: "),
        ("[" * 100_000, "not a plan (nested too deeply)"),
    ],
)
def test_damage_is_named(damaged: str, sentence: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan.from_json(damaged, "my.json")
    assert str(caught.value).startswith(f"my.json: {sentence}")


def test_save_is_whole_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json"
    PLAN.save(path)
    assert Plan.from_json(path.read_text(encoding="utf-8")) == PLAN

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "replace", full)
    with pytest.raises(LoweringError, match="No space left"):
        PLAN.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
    assert Plan.from_json(path.read_text(encoding="utf-8")) == PLAN
