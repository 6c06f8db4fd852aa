"""How the next token is chosen."""

from __future__ import annotations

import pytest
import torch

from cede.llm import Sampling

LOGITS = torch.tensor([0.0, 2.0, 1.0, -torch.inf, 1.9])
FLAT = torch.zeros(1000)


def drawn(sampling: Sampling, logits: torch.Tensor, times: int) -> list[int]:
    choose = sampling.chooser()
    return [choose(logits) for _ in range(times)]


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(temperature=5.0, top_k=1), Sampling(temperature=5.0, top_p=0.05)],
)
def test_one_token_is_left(sampling: Sampling) -> None:
    assert set(drawn(sampling, LOGITS, 50)) == {1}


def test_only_the_likeliest_are_drawn() -> None:
    assert set(drawn(Sampling(temperature=1.0, top_k=2), LOGITS, 200)) == {1, 4}
    assert set(drawn(Sampling(temperature=1.0), LOGITS, 500)) == {0, 1, 2, 4}  # never the masked


def test_the_fewest_that_have_the_probability_together() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    assert set(drawn(Sampling(temperature=1.0, top_p=0.75), logits, 300)) == {0, 1}
    assert set(drawn(Sampling(temperature=1.0, top_p=0.9), logits, 300)) == {0, 1, 2}


def test_seeds_decide() -> None:
    one, same, other = (drawn(Sampling(temperature=1.0, seed=s), FLAT, 20) for s in (3, 3, 4))
    assert one == same != other


def test_heat_evens_the_chances() -> None:
    cold, hot = (
        drawn(Sampling(temperature=heat), torch.tensor([0.0, 3.0]), 400).count(0)
        for heat in (0.5, 50.0)
    )
    assert cold < 20 < 100 < hot
