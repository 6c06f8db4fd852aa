"""A minimum cut: which nodes are in and which are out, so that the least is paid.

By max-flow (L. R. Ford and D. R. Fulkerson, 1956), with Dinitz's algorithm of SciPy, which took a
hundredth of the time of networkx's on such graphs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 2**29
"""Prices are scaled to whole numbers whose sum stays below this: SciPy counts in 32 bits."""

NEVER = 2**30
"""Dearer than everything else together."""


class Cut:
    """Nodes 0 to count - 1, a source that is in, and a sink that is out.

    Args:
        count: the number of nodes.
    """

    def __init__(self, count: int) -> None:
        self.source, self.sink = count, count + 1
        self._count = count + 2
        self._prices: dict[tuple[int, int], float] = {}

    def pay(self, inside: int, outside: int, price: float) -> None:
        """Pay where the first is in and the second out; `math.inf` forbids it."""
        if inside != outside and inside != self.sink and outside != self.source and price > 0:
            edge = inside, outside
            self._prices[edge] = self._prices.get(edge, 0.0) + price

    def pay_if_any_out(self, inside: int, others: Sequence[int], price: float) -> None:
        """Pay once where the first is in and any of the others out."""
        if len(others) == 1:
            self.pay(inside, others[0], price)
        elif others and price > 0:
            joint = self._joint()
            self.pay(inside, joint, price)
            for other in others:
                self.pay(joint, other, math.inf)

    def pay_if_any_in(self, others: Sequence[int], outside: int, price: float) -> None:
        """Pay once where any of the others is in and the last out."""
        if len(others) == 1:
            self.pay(others[0], outside, price)
        elif others and price > 0:
            joint = self._joint()
            self.pay(joint, outside, price)
            for other in others:
                self.pay(other, joint, math.inf)

    def _joint(self) -> int:
        self._count += 1
        return self._count - 1

    def solve(self) -> list[bool]:
        """For each node and the source and sink whether it is in; of equal cuts the largest."""
        import numpy as np
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        size = self._count
        ends = np.array(list(self._prices), dtype=np.int32).reshape(-1, 2)
        shape = (size, size)
        network: Any = csr_matrix((self._whole_prices(), (ends[:, 0], ends[:, 1])), shape=shape)
        flow = maximum_flow(network, self.source, self.sink, method="dinic").flow
        left = (network - flow).tocsr()
        left.eliminate_zeros()
        reaching = breadth_first_order(
            left.T.tocsr(), self.sink, directed=True, return_predecessors=False
        )
        inside = [True] * size
        for node in reaching.tolist():
            inside[node] = False
        return inside[: self.sink + 1]

    def _whole_prices(self) -> Any:
        import numpy as np

        prices = np.array(list(self._prices.values()), dtype=np.float64)
        finite = np.isfinite(prices)
        total = float(prices[finite].sum())
        # A power of ten, so that costs in whole nanoseconds stay exact.
        scale = 10.0 ** math.floor(math.log10(MOST / total)) if total > 0 else 1.0
        whole = np.full(len(prices), NEVER, dtype=np.int32)
        whole[finite] = np.rint(prices[finite] * scale).astype(np.int32)
        return whole
