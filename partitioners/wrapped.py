"""A partitioner around another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cede.types import Claim, Keep, Partitioner, Program, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """Answers as another partitioner does, under its name; a subclass says where it differs.

    Attributes:
        inner: the partitioner that is asked.
    """

    inner: Partitioner

    @property
    def name(self) -> str:
        """The inner partitioner's name."""
        return self.inner.name

    @property
    def backend(self) -> str:
        """The inner partitioner's backend."""
        return self.inner.backend

    def keeps(self, program: Program) -> Keep:
        """What `inner` wants whole."""
        return self.inner.keeps(program)

    def claim(self, program: Program) -> Iterable[Claim | Refusal]:
        """What `inner` answers."""
        return self.inner.claim(program)
