"""A profile: what `cede calibrate` measured on one machine, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.costs.fields import Node, plain, rates_of
from cede.errors import ConfigError
from cede.files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cede.types import Costs, Rates

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What could not be measured, and why; backend "" is the fallback."""

    backend: str
    case: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Measured rates of one machine.

    Attributes:
        machine: what was measured on, in words by name ("cpu", "cores", "torch", ...).
        fallback: rates of ExecuTorch's portable kernels.
        backends: rates by backend name.
        skipped: what could not be measured.
    """

    machine: Mapping[str, str]
    fallback: Rates
    backends: Mapping[str, Rates] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()

    def over(self, costs: Costs, origin: str) -> Costs:
        """Those costs with this profile's rates in place of the defaults."""
        return replace(
            costs,
            fallback=self.fallback,
            backends={**costs.backends, **self.backends},
            origin=origin,
        )


def load_profile(path: Path | str) -> Profile:
    """A profile from a file.

    Raises:
        ConfigError: it can't be read, is no JSON, has another schema, or a field is missing or
            wrong; names the file and the field.
    """
    return read_profile(read_text(Path(path)), str(path))


def read_profile(text: str, origin: str = "profile") -> Profile:
    """A profile from JSON. Raises ConfigError as `load_profile` does."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{origin}: not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
        ) from None
    except RecursionError:
        raise ConfigError(f"{origin}: not a profile (nested too deeply)") from None
    root = Node(data, "$", origin)
    if (schema := root.get("schema")) != SCHEMA:
        root.fail("schema", f"is {schema!r}, this cede reads {SCHEMA}; calibrate again")
    root.known("schema", "machine", "fallback", "backends", "skipped")
    machine = Node(root.get("machine"), "$.machine", origin)
    backends = Node(root.get("backends"), "$.backends", origin)
    return Profile(
        machine={key: machine.text(key) for key in machine.value},
        fallback=rates_of(Node(root.get("fallback"), "$.fallback", origin)),
        backends={
            name: rates_of(Node(value, f"$.backends.{name}", origin))
            for name, value in backends.value.items()
        },
        skipped=tuple(
            Skipped(backend=row.text("backend"), case=row.text("case"), reason=row.text("reason"))
            for row in root.nodes("skipped")
        ),
    )


def write_profile(profile: Profile) -> str:
    """JSON text of a profile, sorted; the same profile gives the same text."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "machine": dict(profile.machine),
        "fallback": plain(profile.fallback),
        "backends": {name: plain(rates) for name, rates in profile.backends.items()},
        "skipped": [
            {"backend": row.backend, "case": row.case, "reason": row.reason}
            for row in sorted(profile.skipped, key=lambda row: (row.backend, row.case))
        ],
    }
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
