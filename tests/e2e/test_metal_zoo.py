"""Models of the zoo for Core ML and Metal: read back here, and run on Apple's systems."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.unit.apple_delegates import run
from tests.zoo import ZOO, exported

from cede import api
from cede.config import load_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.config import Config
    from cede.running.pte import Delegate

COREML = ("backends=[coreml]", "options.coreml.compute_precision=float32")
MLX = ("backends=[metal]", "options.metal.engine=mlx")
GPU = ("backends=[metal]", "options.metal.engine=coreml", "options.metal.compute_precision=float32")
apple = pytest.mark.skipif(
    sys.platform != "darwin", reason=f"Core ML and MLX run on macOS, this is {sys.platform}"
)


def mil(delegate: Delegate) -> Callable[..., list[torch.Tensor]]:
    from tests.unit.coreml_program import model_of

    model = model_of(delegate.data)
    return lambda *values: model(*values[: len(model.inputs)])


def mlx(delegate: Delegate) -> Callable[..., list[torch.Tensor]]:
    from tests.unit.mlx_program import program_of

    program = program_of(delegate)
    return lambda *values: program(*values[: len(program.inputs)])


def config(overrides: tuple[str, ...]) -> Config:
    tolerance = ["check.atol=1e-3", "check.rtol=1e-3"]
    return load_config(overrides=[*overrides, *tolerance])


@pytest.mark.metal
@apple
@pytest.mark.parametrize("engine", [COREML, MLX, GPU], ids=["coreml", "mlx", "gpu"])
@pytest.mark.parametrize("name", ["vit", "mobilenet", "llama"])
def test_it_runs_in_executorch_with_eager_numbers(name: str, engine: tuple[str, ...]) -> None:
    given = exported(name)
    chosen = config(engine)
    lowered = api.lower(given.program, config=chosen)
    assert lowered.plan.delegations
    check = api.check(lowered, [given.args], chosen)
    assert check.passed, check.message


@pytest.mark.metal
@apple
@pytest.mark.parametrize("name", ["coreml", "metal"])
def test_the_ready_config_runs(name: str) -> None:
    given = exported("vit")
    check = api.check(api.lower(given.program, config=name), [given.args], name)
    assert check.passed, check.message


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize(
    ("overrides", "reader"), [(COREML, mil), (MLX, mlx)], ids=["coreml", "mlx"]
)
def test_what_was_compiled_computes_eager_numbers(
    name: str, overrides: tuple[str, ...], reader: Any
) -> None:
    if reader is mlx:
        pytest.importorskip("mlx.core", reason="mlx has no wheel for this system")
    given = exported(name)
    lowered = api.lower(given.program, config=config(overrides))
    left = {row.op for row in lowered.plan.refusals}
    assert len(left) <= 1  # MLX has no gather
    with torch.no_grad():
        wanted = given.model(*given.args)
    [got] = run(lowered, given.args, reader)
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)
