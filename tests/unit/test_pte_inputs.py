"""Inputs that don't fit a method, and those that do in another memory layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cede.errors import LoweringError
from cede.running.signature import Signature, ValueMeta, fit, laid_out, strides_of

IMAGE = ValueMeta(dtype=torch.float32, shape=(1, 3, 4, 4), dim_order=(0, 2, 3, 1))
TOKENS = ValueMeta(dtype=torch.int64, shape=(1, 8), dim_order=(0, 1), dynamic=True)
SCALE = ValueMeta(number=float)
COUNT = ValueMeta(number=int)


def one(meta: ValueMeta, value: Any) -> Any:
    return fit(Signature(method="forward", inputs=(meta,), outputs=()), [value], "m.pte")[0]


def test_count_is_checked_first() -> None:
    signature = Signature(method="forward", inputs=(IMAGE, SCALE), outputs=())
    with pytest.raises(LoweringError) as caught:
        fit(signature, [1.0], "m.pte")
    assert str(caught.value) == (
        "m.pte: forward takes 2 inputs (float32[1, 3, 4, 4], float), 1 given"
    )


@pytest.mark.parametrize(
    ("meta", "value", "says"),
    [
        (IMAGE, torch.ones(1, 3, 4, 5), "float32[1, 3, 4, 5] given, float32[1, 3, 4, 4] expected"),
        (IMAGE, torch.ones(3, 4, 4), "float32[3, 4, 4] given, float32[1, 3, 4, 4] expected"),
        (
            IMAGE,
            torch.ones(1, 3, 4, 4, dtype=torch.float16),
            "float16[1, 3, 4, 4] given, float32[1, 3, 4, 4] expected",
        ),
        (IMAGE, 3.0, "float given, float32[1, 3, 4, 4] expected"),
        (
            TOKENS,
            torch.ones(1, 9, dtype=torch.int64),
            "int64[1, 9] given, at most int64[1, 8] expected",
        ),
        (SCALE, torch.ones(()), "float32[] given, float expected"),
        (COUNT, 1.5, "float given, int expected"),
        (COUNT, True, "bool given, int expected"),
    ],
)
def test_misfits_name_the_input_and_both_facts(meta: ValueMeta, value: Any, says: str) -> None:
    with pytest.raises(LoweringError) as caught:
        one(meta, value)
    assert str(caught.value) == f"m.pte: forward input 0: {says}"


def test_what_fits_is_passed_on() -> None:
    tokens = torch.ones(1, 5, dtype=torch.int64)
    assert one(TOKENS, tokens).data_ptr() == tokens.data_ptr()
    assert one(SCALE, 2) == 2.0
    assert type(one(SCALE, 2)) is float


def test_another_layout_is_copied_with_the_same_values() -> None:
    image = torch.arange(48.0).reshape(1, 3, 4, 4)
    given = one(IMAGE, image)
    assert given.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(given, image)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_strides_follow_the_dim_order(order: tuple[int, ...]) -> None:
    value = laid_out(torch.arange(24.0).reshape(2, 3, 4), order)
    assert value.stride() == strides_of((2, 3, 4), order)
    assert value.dim_order() == order
