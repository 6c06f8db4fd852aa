"""The policy of a config, with where each rule came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cede.types import Limits

if TYPE_CHECKING:
    from cede.config import Config, SelectorConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One selector of a policy.

    Attributes:
        selector: which ops, and for which backend.
        path: where it stands in the config ("policy.exclude[0]").
        origin: the file or "override" that the config has it from.
    """

    selector: SelectorConfig
    path: str
    origin: str

    def __str__(self) -> str:
        return f"{self.path} of {self.origin} ({self.selector})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All rules of a config; see `PolicyConfig` for what each means.

    Attributes:
        fuel: where `max_claims` stands, for messages.
        overall: bounds on the delegates of all backends together.
    """

    exclude: tuple[Rule, ...] = ()
    pin: tuple[Rule, ...] = ()
    require: tuple[Rule, ...] = ()
    fallback: str = "ignore"
    fallback_for: tuple[Rule, ...] = ()
    max_claims: int | None = None
    fuel: str = "policy.max_claims"
    place: str = "policy.fallback"
    overall: Limits = field(default_factory=Limits)

    @property
    def filters(self) -> bool:
        """Whether it can take ops from a backend that claims them."""
        return bool(
            self.exclude or self.pin or self.max_claims is not None or self.overall != Limits()
        )

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule, in the order of the sections."""
        return (*self.exclude, *self.pin, *self.require, *self.fallback_for)


def read_policy(config: Config) -> Policy:
    """The policy of a checked config."""
    given = config.policy

    def rules(section: str) -> tuple[Rule, ...]:
        return tuple(
            Rule(selector=selector, path=path, origin=config.origin(path))
            for i, selector in enumerate(getattr(given, section))
            for path in (f"policy.{section}[{i}]",)
        )

    def named(key: str) -> str:
        return f"policy.{key} of {config.origin(f'policy.{key}')}"

    return Policy(
        exclude=rules("exclude"),
        pin=rules("pin"),
        require=rules("require"),
        fallback=given.fallback,
        fallback_for=rules("fallback_for"),
        max_claims=given.max_claims,
        fuel=named("max_claims"),
        place=named("fallback"),
        overall=Limits(min_ops=given.min_ops, max_delegates=given.max_delegates),
    )
