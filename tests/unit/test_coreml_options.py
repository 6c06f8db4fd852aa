"""Core ML's options become ExecuTorch's compile specs, and what can be done here is told first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import coremltools as ct
import pytest
import torch
from executorch.backends.apple.coreml.compiler import CoreMLBackend
from executorch.exir.backend.compile_spec_schema import CompileSpec

import cede
from cede import api
from cede.backends.coreml.options import (
    ComputeUnit,
    CoreMLOptions,
    Precision,
    Quantize,
    Target,
    compile_specs,
)
from cede.config import load_config
from cede.errors import ConfigError

SOURCE = Path(__file__).parents[2] / "src"


def specs(options: CoreMLOptions) -> list[CompileSpec]:
    return [CompileSpec(key, value) for key, value in compile_specs(options)]


@pytest.mark.parametrize("unit", ComputeUnit)
def test_every_compute_unit_reaches_the_compiler(unit: ComputeUnit) -> None:
    read = CoreMLBackend.compute_unit_from_compile_specs(specs(CoreMLOptions(compute_unit=unit)))
    assert read.name.lower() == unit.value


def test_every_compute_unit_of_coremltools_is_an_option() -> None:
    assert {unit.name.lower() for unit in ct.ComputeUnit} == {unit.value for unit in ComputeUnit}


@pytest.mark.parametrize("precision", Precision)
def test_every_precision_reaches_the_compiler(precision: Precision) -> None:
    given = specs(CoreMLOptions(compute_precision=precision))
    read = CoreMLBackend.model_compute_precision_from_compile_specs(given)
    assert read.value == precision.value


@pytest.mark.parametrize("target", Target)
def test_every_target_reaches_the_compiler(target: Target) -> None:
    given = specs(CoreMLOptions(minimum_deployment_target=target))
    assert CoreMLBackend.min_deployment_target_from_compile_specs(given) is ct.target[target.value]
    assert target.needs_inputs == (ct.target[target.value] < ct.target.iOS18)


@pytest.mark.parametrize("asked", Quantize)
def test_weights_in_int4_reach_the_compiler(asked: Quantize) -> None:
    read = CoreMLBackend.op_linear_quantizer_config_from_compile_specs(
        specs(CoreMLOptions(quantize=asked))
    )
    assert (read is None) == (asked is Quantize.none)
    if read is not None:
        assert (read.granularity.name == "PER_BLOCK") == (asked is Quantize.b4w)
        with pytest.raises(ConfigError, match="needs iOS18 or macOS15"):
            compile_specs(CoreMLOptions(quantize=asked, minimum_deployment_target=Target.iOS17))


def test_int4_makes_a_delegate_smaller() -> None:
    program = torch.export.export(torch.nn.Linear(256, 256).eval(), (torch.randn(2, 256),))
    sizes = {}
    for asked in Quantize:
        given = [f"options.coreml.quantize={asked.value}", "backends=[coreml]"]
        sizes[asked] = len(cede.lower(program, config=load_config(overrides=given)).buffer)
    plain = sizes[Quantize.none]
    assert sizes[Quantize.b4w] < 0.5 * plain
    assert sizes[Quantize.c4w] < 0.5 * plain


def test_a_wrong_option_names_the_right_ones() -> None:
    config = load_config(overrides=["backends=[coreml]", "options.coreml.compute_precision=int8"])
    with pytest.raises(ConfigError, match=r"compute_precision.*one of float16, float32"):
        api.partitioner(config=config)


def told(*flags: str, site: str = "") -> list[str]:
    """What `available()` says in a process of its own, and what that imported."""
    script = (
        f"import sys; sys.path[:0] = [{str(SOURCE)!r}, {site!r}]\n"
        "from cede.backends.coreml.here import available\n"
        "found = available()\n"
        "heavy = {'torch', 'executorch', 'coremltools'} & set(sys.modules)\n"
        "print(found.claim, found.lower, found.run, sorted(heavy), sep='\\n')"
    )
    command = [sys.executable, *flags, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_availability_is_told_without_an_import() -> None:
    claim, lower, run, heavy = told()
    assert (claim, lower, heavy) == ("None", "None", "[]")
    assert run == "None" if sys.platform == "darwin" else "macOS" in run


def test_what_is_missing_is_said_with_what_to_install(tmp_path: Path) -> None:
    for entry in Path(ct.__file__).parents[1].iterdir():
        if not entry.name.startswith("coremltools"):
            (tmp_path / entry.name).symlink_to(entry)
    claim, lower, *_ = told("-S", "-I", site=str(tmp_path))  # without the installed packages
    assert claim == lower == "coremltools is not installed: pip install coremltools"
