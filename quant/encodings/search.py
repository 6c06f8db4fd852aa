"""Scales of a sub-block, by weighted least squares over a few candidate scales.

The method of ggml's k-quants (https://github.com/ggml-org/ggml, `src/ggml-quants.c`): each
candidate fixes the quantized values, for which the best scale (and minimum) is the solution of a
linear least squares problem; the candidate of least error stays. All arithmetic is float32, sums
go in the order of the elements, so that the bytes are those that ggml writes.

Arrays are (elements of a sub-block, sub-blocks): a sum over the first axis is one in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cede.quant.encodings.bits import ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]

EPSILON = 1e-15
"""Sub-blocks whose magnitudes are all below this are zero."""


def with_minimum(
    x: Floats, weights: Floats, top: int, first: float, steps: int
) -> tuple[Floats, Floats, Floats]:
    """The best x = scale * q - minimum, with q in 0..top and scale, minimum >= 0.

    Args:
        x: (elements, sub-blocks).
        weights: of each element's squared error.
        top: the largest quantized value.
        first: the candidates are (top + first + 0.1 i) steps for the range, i = 0..steps.
        steps: how many of them after the first.

    Returns:
        q as (elements, sub-blocks); scale and minimum as (sub-blocks,).
    """
    low, high = np.minimum(x.min(0), 0), x.max(0)
    flat = high == low
    low_at_start = low.copy()
    inverse = ratio(top, high - low)
    weighted = weights * x
    totals = weights.sum(0), weighted.sum(0)
    q, work = np.empty_like(x), np.empty_like(x)
    _round(x, low, inverse, top, q)
    scale = ratio(1, inverse)
    error = _error(x, weights, q, scale, low, work)
    trial = np.empty_like(x)
    with np.errstate(all="ignore"):  # a candidate without a solution has no error to compare
        for i in range(steps + 1):
            wanted = np.float32(first) + np.float32(0.1) * np.float32(i) + np.float32(top)
            _round(x, low, wanted / (high - low), top, trial)
            new_scale, new_low, solvable = _solve(weights, weighted, trial, totals, work)
            new_error = _error(x, weights, trial, new_scale, new_low, work)
            better = solvable & (new_error < error)
            np.copyto(q, trial, where=better)
            for kept, new in ((scale, new_scale), (low, new_low), (error, new_error)):
                np.copyto(kept, new, where=better)
    q[:, flat] = 0
    return q, np.where(flat, 0, scale), -np.where(flat, low_at_start, low)


def _round(x: Floats, low: Floats, inverse: Floats, top: int, out: Floats) -> None:
    np.subtract(x, low, out=out)
    out *= inverse
    np.rint(out, out=out)
    np.clip(out, 0, top, out=out)


def _error(
    x: Floats, weights: Floats, q: Floats, scale: Floats, low: Floats, work: Floats
) -> Floats:
    np.multiply(q, scale, out=work)
    work += low
    work -= x
    work *= work
    work *= weights
    total: Floats = work.sum(0)
    return total


def _solve(
    weights: Floats, weighted: Floats, q: Floats, totals: tuple[Floats, Floats], work: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Scale and (non-positive) minimum of least weighted error for given quantized values."""
    all_w, all_x = totals
    np.multiply(weights, q, out=work)
    sum_q = work.sum(0)
    work *= q
    sum_qq = work.sum(0)
    np.multiply(weighted, q, out=work)
    sum_xq = work.sum(0)
    determinant = all_w * sum_qq - sum_q * sum_q
    scale = (all_w * sum_xq - all_x * sum_q) / determinant
    low = (sum_qq * all_x - sum_q * sum_xq) / determinant
    above = low > 0  # a minimum is subtracted, and stored without a sign
    scale = np.where(above, sum_xq / sum_qq, scale)
    return scale, np.where(above, np.float32(0), low), determinant > 0


def symmetric(x: Floats, half: int) -> tuple[Floats, Floats]:
    """The best x = scale * (q - half), with q in 0..2 half - 1, errors weighted by x squared.

    Args:
        x: (elements, sub-blocks).
        half: the value of largest magnitude is tried at about -half steps.

    Returns:
        q as (elements, sub-blocks), scale as (sub-blocks,); both 0 where x vanishes.
    """
    extreme = np.take_along_axis(x, np.abs(x).argmax(0)[None], 0)[0]
    zero = np.abs(extreme) < EPSILON
    extreme = np.where(zero, np.float32(1), extreme)
    weights = x * x
    weighted = weights * x
    q, trial, work = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    scale, best = np.zeros_like(extreme), np.zeros_like(extreme)
    for i in (0, *range(-9, 0), *range(1, 10)):
        inverse = -(np.float32(half) + np.float32(0.1) * np.float32(i)) / extreme
        np.multiply(x, inverse, out=trial)
        np.rint(trial, out=trial)
        np.clip(trial, -half, half - 1, out=trial)
        np.multiply(weighted, trial, out=work)
        sum_xq = work.sum(0)
        np.multiply(weights, trial, out=work)
        work *= trial
        sum_qq = work.sum(0)
        if i == 0:
            better = np.ones(len(scale), np.bool_)
        else:
            with np.errstate(over="ignore"):  # then neither is larger, and the first one stays
                better = (sum_qq > 0) & (sum_xq * sum_xq > best * sum_qq)
        found = np.divide(sum_xq, sum_qq, out=np.zeros_like(sum_xq), where=sum_qq > 0)
        np.copyto(q, trial, where=better)
        np.copyto(scale, found, where=better)
        np.copyto(best, found * sum_xq, where=better)
    q += half
    q[:, zero] = 0
    return q, np.where(zero, 0, scale)
