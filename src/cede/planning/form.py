"""A plan as JSON, and back with every mistake named by its path."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NoReturn

from cede.errors import PlanError
from cede.planning.plan import SCHEMA, Plan, Source
from cede.types import Code, Delegation, Loss, Part, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")


def write_plan(plan: Plan) -> str:
    """JSON text of a plan; the same plan gives the same text."""
    return json.dumps(_plain(plan), indent=1, ensure_ascii=False) + "\n"


def read_plan(text: str, origin: str) -> Plan:
    """The plan in a JSON text.

    Raises:
        PlanError: no JSON, another schema, or a missing or wrong field, named by its path.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(
            f"{origin}: not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
        ) from None
    except RecursionError:
        raise PlanError(f"{origin}: not a plan (nested too deeply)") from None
    root = _Node(data, "$", origin)
    if (schema := root.number("schema")) != SCHEMA:
        root.fail("schema", f"is {schema}, this cede reads {SCHEMA}")
    return Plan(
        fingerprint=root.text("fingerprint"),
        method=root.text("method"),
        partitioners=root.rows("partitioners", _read_source),
        backends=root.rows("backends", _read_source),
        kept=root.texts("kept"),
        warnings=root.texts("warnings"),
        delegations=root.rows("delegations", _read_delegation),
        refusals=root.rows("refusals", _read_refusal),
        losses=root.rows("losses", _read_loss),
    )


class _Node:
    """One object of the JSON, knowing its path."""

    def __init__(self, value: Any, path: str, origin: str) -> None:
        self.value, self.path, self.origin = value, path, origin

    def fail(self, key: str, what: str) -> NoReturn:
        raise PlanError(f"{self.origin}: {self.path}.{key} {what}")

    def get(self, key: str, kind: type) -> Any:
        if not isinstance(self.value, dict):
            raise PlanError(
                f"{self.origin}: {self.path} should be an object, not {_json_name(self.value)}"
            )
        if key not in self.value:
            self.fail(key, "is missing")
        value = self.value[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            self.fail(key, f"should be {_json_name(kind())}, not {_json_name(value)}")
        return value

    def text(self, key: str) -> str:
        return str(self.get(key, str))

    def number(self, key: str) -> int:
        return int(self.get(key, int))

    def texts(self, key: str) -> tuple[str, ...]:
        found = self.get(key, list)
        if not all(isinstance(each, str) for each in found):
            self.fail(key, "should hold strings only")
        return tuple(found)

    def rows(self, key: str, read: Callable[[_Node], T]) -> tuple[T, ...]:
        found = self.get(key, list)
        return tuple(
            read(_Node(row, f"{self.path}.{key}[{i}]", self.origin)) for i, row in enumerate(found)
        )


_JSON_NAMES = {
    dict: "an object", list: "a list", str: "a string", int: "a number", float: "a fraction",
    bool: "true or false", type(None): "null",
}  # fmt: skip


def _json_name(value: object) -> str:
    return _JSON_NAMES[type(value)]


def _read_source(node: _Node) -> Source:
    return Source(
        name=node.text("name"), distribution=node.text("distribution"), version=node.text("version")
    )


def _read_delegation(node: _Node) -> Delegation:
    return Delegation(
        id=node.text("id"),
        backend=node.text("backend"),
        specs=_read_specs(node),
        marks=_read_marks(node),
        parts=node.rows("parts", _read_part),
    )


def _read_part(node: _Node) -> Part:
    return Part(partitioner=node.text("partitioner"), ops=node.texts("ops"))


def _read_marks(node: _Node) -> tuple[tuple[str, str, Any], ...]:
    found = []
    for i, row in enumerate(node.get("marks", list)):
        if not isinstance(row, list) or [type(part) for part in row[:2]] != [str, str]:
            node.fail(f"marks[{i}]", "should be [op, key, value]")
        if len(row) != 3 or isinstance(row[2], dict):
            node.fail(f"marks[{i}]", "should be [op, key, value]")
        value = tuple(row[2]) if isinstance(row[2], list) else row[2]
        found.append((row[0], row[1], value))
    return tuple(found)


def _read_specs(node: _Node) -> tuple[tuple[str, bytes], ...]:
    found = []
    for i, row in enumerate(node.get("specs", list)):
        pair = row if isinstance(row, list) else []
        if len(pair) != 2 or not all(isinstance(each, str) for each in pair):
            node.fail(f"specs[{i}]", "should be [key, base64]")
        try:
            found.append((pair[0], base64.b64decode(pair[1], validate=True)))
        except ValueError:
            node.fail(f"specs[{i}]", "should be [key, base64], but that is no base64")
    return tuple(found)


def _read_refusal(node: _Node) -> Refusal:
    return Refusal(
        op=node.text("op"), partitioner=node.text("partitioner"), reason=_read_reason(node)
    )


def _read_loss(node: _Node) -> Loss:
    return Loss(
        op=node.text("op"),
        partitioner=node.text("partitioner"),
        backend=node.text("backend"),
        reason=_read_reason(node),
    )


def _read_reason(node: _Node) -> Reason:
    code = node.text("code")
    if code not in {known.value for known in Code}:
        node.fail("code", f"is {code!r}; known: {', '.join(known.value for known in Code)}")
    return Reason(code=Code(code), detail=node.text("detail"))


def _plain(plan: Plan) -> dict[str, Any]:
    return {
        "schema": plan.schema,
        "method": plan.method,
        "fingerprint": plan.fingerprint,
        "partitioners": [_source(given) for given in plan.partitioners],
        "backends": [_source(given) for given in plan.backends],
        "kept": list(plan.kept),
        "warnings": list(plan.warnings),
        "delegations": [
            {
                "id": given.id,
                "backend": given.backend,
                "specs": [[key, base64.b64encode(value).decode()] for key, value in given.specs],
                "marks": [list(mark) for mark in given.marks],
                "parts": [
                    {"partitioner": part.partitioner, "ops": list(part.ops)} for part in given.parts
                ],
            }
            for given in plan.delegations
        ],
        "refusals": [
            {"op": given.op, "partitioner": given.partitioner, **_reason(given.reason)}
            for given in plan.refusals
        ],
        "losses": [
            {
                "op": given.op,
                "partitioner": given.partitioner,
                "backend": given.backend,
                **_reason(given.reason),
            }
            for given in plan.losses
        ],
    }


def _source(given: Source) -> dict[str, str]:
    return {"name": given.name, "distribution": given.distribution, "version": given.version}


def _reason(reason: Reason) -> dict[str, str]:
    return {"code": reason.code.value, "detail": reason.detail}
