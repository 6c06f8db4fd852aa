"""How the next token is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is chosen.

    Attributes:
        temperature: logits are divided by it; 0 takes the likeliest token.
        top_k: only the so many likeliest; 0 for all.
        top_p: only the fewest likeliest that have this probability together (Holtzman et al.,
            "The curious case of neural text degeneration", 2020).
        seed: of the random numbers.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def chooser(self) -> Callable[[Tensor], int]:
        """A function from logits, float32 [vocabulary], to a token."""
        import torch

        if self.temperature <= 0:
            return lambda logits: int(logits.argmax())
        random = torch.Generator().manual_seed(self.seed)

        def choose(logits: Tensor) -> int:
            values, order = (logits / self.temperature).sort(descending=True)
            if self.top_k:
                values, order = values[: self.top_k], order[: self.top_k]
            chances = values.softmax(-1)
            before = chances.cumsum(-1) - chances
            chances = torch.where(before < self.top_p, chances, torch.zeros(()))
            return int(order[torch.multinomial(chances, 1, generator=random)])

        return choose
