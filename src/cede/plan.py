"""The plan: which ops go to which delegate, and why every other answer lost. A value with JSON."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cede.errors import PlanError
from cede.types import Code, Delegation, Loss, OpGraph, Part, Reason, Refusal

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The distribution that a record of this plan came from."""

    name: str
    distribution: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every answer to every op, settled.

    Each pair of op and asked partitioner is in exactly one place: a part of a delegation, a
    refusal, or a loss.

    Attributes:
        fingerprint: of the graph it was made for; lowering refuses another graph.
        delegations: in execution order.
        refusals: what partitioners left, with reasons.
        losses: what they claimed and did not get, with reasons.
        kept: names of the ATen nodes that were kept whole for a claim.
        partitioners: those that were asked, in priority order, with where they came from.
        backends: those that got or may get a delegate, with where they came from.
        warnings: what the user should know about the plan as a whole.
        method: name of the method it is for.
        graph: the facts it was made from; not part of the JSON, None after loading.
    """

    fingerprint: str
    delegations: tuple[Delegation, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    losses: tuple[Loss, ...] = ()
    kept: tuple[str, ...] = ()
    partitioners: tuple[Source, ...] = ()
    backends: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()
    method: str = "forward"
    schema: int = SCHEMA
    graph: OpGraph | None = field(default=None, compare=False, repr=False)

    def delegation_of(self) -> dict[str, Delegation]:
        """Map each delegated op's id to its delegation."""
        return {op: given for given in self.delegations for op in given.ops}

    def to_json(self) -> str:
        """JSON text, stable: the same plan gives the same text."""
        return json.dumps(_plain(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, origin: str = "plan") -> Plan:
        """Read a plan back.

        Args:
            text: what `to_json` wrote, perhaps edited by hand.
            origin: what error messages call it, such as the file's path.

        Raises:
            PlanError: no JSON, another schema, or a missing or wrong field, named by its path.
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise PlanError(
                f"{origin}: not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
            ) from None
        return _read(data, origin)

    def save(self, path: Path) -> None:
        """Write the JSON to a file, whole or not at all."""
        from cede.files import write_whole

        write_whole(path, self.to_json().encode())


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


def _read(data: Any, origin: str) -> Plan:
    where = ["$"]

    def get(node: Any, key: str, kind: type, at: str) -> Any:
        where[0] = f"{at}.{key}"
        if not isinstance(node, dict) or key not in node:
            raise PlanError(f"{origin}: {where[0]} is missing")
        if not isinstance(node[key], kind) or isinstance(node[key], bool):
            raise PlanError(
                f"{origin}: {where[0]} should be {kind.__name__}, not {type(node[key]).__name__}"
            )
        return node[key]

    def rows(key: str) -> list[tuple[Any, str]]:
        return [(row, f"$.{key}[{i}]") for i, row in enumerate(get(data, key, list, "$"))]

    def words(node: Any, key: str, at: str) -> tuple[str, ...]:
        found = get(node, key, list, at)
        if not all(isinstance(word, str) for word in found):
            raise PlanError(f"{origin}: {at}.{key} should hold strings only")
        return tuple(found)

    def reason(node: Any, at: str) -> Reason:
        code = get(node, "code", str, at)
        try:
            return Reason(code=Code(code), detail=get(node, "detail", str, at))
        except ValueError:
            raise PlanError(
                f"{origin}: {at}.code is {code!r}; known: {', '.join(c.value for c in Code)}"
            ) from None

    def specs(node: Any, at: str) -> tuple[tuple[str, bytes], ...]:
        try:
            return tuple((key, base64.b64decode(v, validate=True)) for key, v in node["specs"])
        except (KeyError, TypeError, ValueError):
            raise PlanError(f"{origin}: {at}.specs should be [[key, base64], ...]") from None

    def source(node: Any, at: str) -> Source:
        return Source(**{key: get(node, key, str, at) for key in ("name", "distribution", "version")})

    if get(data, "schema", int, "$") != SCHEMA:
        raise PlanError(f"{origin}: $.schema is {data['schema']}, this cede reads {SCHEMA}")
    return Plan(
        fingerprint=get(data, "fingerprint", str, "$"),
        method=get(data, "method", str, "$"),
        partitioners=tuple(source(*row) for row in rows("partitioners")),
        backends=tuple(source(*row) for row in rows("backends")),
        kept=words(data, "kept", "$"),
        warnings=words(data, "warnings", "$"),
        delegations=tuple(
            Delegation(
                id=get(row, "id", str, at),
                backend=get(row, "backend", str, at),
                specs=specs(row, at),
                parts=tuple(
                    Part(
                        partitioner=get(part, "partitioner", str, f"{at}.parts[{j}]"),
                        ops=words(part, "ops", f"{at}.parts[{j}]"),
                    )
                    for j, part in enumerate(get(row, "parts", list, at))
                ),
            )
            for row, at in rows("delegations")
        ),
        refusals=tuple(
            Refusal(
                op=get(row, "op", str, at),
                partitioner=get(row, "partitioner", str, at),
                reason=reason(row, at),
            )
            for row, at in rows("refusals")
        ),
        losses=tuple(
            Loss(
                op=get(row, "op", str, at),
                partitioner=get(row, "partitioner", str, at),
                backend=get(row, "backend", str, at),
                reason=reason(row, at),
            )
            for row, at in rows("losses")
        ),
    )
