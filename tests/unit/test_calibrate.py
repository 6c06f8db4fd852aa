"""The fit of measured calls, and profiles as JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from cede.calibrate.fit import LEAST, Borders, Sample, backend_rates, fallback_rates
from cede.cli import main
from cede.costs import Profile, Skipped, default_costs, load_profile, read_profile, write_profile
from cede.errors import ConfigError
from cede.types import Measured, Rates

if TYPE_CHECKING:
    from pathlib import Path

US = 1e-6


def sample(kind: str, flops: int, moved: int, seconds: float) -> Sample:
    return Sample(
        kind=kind, dtype="float32", flops=flops, moved=moved, crossed=moved, seconds=seconds
    )


def profile() -> Profile:
    measured = Measured(kind="aten.addmm", dtype="float32", points=((10.0, 1e-6), (20.0, 3e-6)))
    rates = Rates(
        flops_per_second=1e9,
        bytes_per_second=2e9,
        op_seconds=1e-7,
        dim_order=(0, 2, 3, 1),
        dtypes=("float32",),
        measured=(measured,),
    )
    return Profile(
        machine={"cpu": "some", "cores": "2"},
        fallback=Rates(flops_per_second=1e8, bytes_per_second=1e8),
        backends={"b": rates},
        skipped=(Skipped(backend="b", case="mean large", reason="shape: no"),),
    )


def test_the_runtime_is_taken_off_each_call():
    rates = fallback_rates(
        [
            sample("aten.addmm", 1000, 100, 15 * US),
            sample("aten.addmm", 100_000, 1000, 105 * US),
            sample("aten.add", 1000, 12_000, 17 * US),
        ],
        runtime=5 * US,
        op=0.2 * US,
    )
    assert rates.flops_per_second == pytest.approx(1e9)
    assert rates.bytes_per_second == pytest.approx(1e9)
    assert (rates.op_seconds, rates.launch_seconds) == (pytest.approx(0.2 * US), 0.0)
    add, addmm = rates.measured
    assert (add.kind, addmm.kind) == ("aten.add", "aten.addmm")
    assert addmm.points == ((1000, pytest.approx(10 * US)), (100_000, pytest.approx(100 * US)))


def test_launch_and_borders_are_told_apart():
    # launch 10 us, 2 us a value, 1 GB/s at the border, 1 us an op
    borders = Borders(op=1 * US, delegates=15 * US, value=2 * US, bytes=1000, large=16 * US)
    rates = backend_rates([sample("aten.add", 10, 1000, 21 * US)], 5 * US, borders)
    assert rates.op_seconds == pytest.approx(1 * US)
    assert rates.launch_seconds == pytest.approx(10 * US)
    assert rates.border_seconds == pytest.approx(2 * US)
    assert rates.border_bytes_per_second == pytest.approx(1e9)
    ((_, took),) = rates.measured[0].points
    assert took == pytest.approx(21 * US - 5 * US - 14 * US - 1 * US)


def test_noise_gives_no_negative_seconds():
    borders = Borders(op=-1 * US, delegates=-2 * US, value=-1 * US, bytes=1000, large=-9 * US)
    rates = backend_rates([sample("aten.add", 10, 1000, 1 * US)], 5 * US, borders)
    assert min(rates.op_seconds, rates.launch_seconds, rates.border_seconds) >= 0
    assert rates.border_bytes_per_second == math.inf
    assert rates.measured[0].points[0][1] == pytest.approx(LEAST)


def test_of_two_calls_of_the_same_work_the_faster_counts():
    samples = [sample("aten.addmm", 10, 1, 3 * US), sample("aten.addmm", 10, 1, 2 * US)]
    assert fallback_rates(samples, 0.0, 0.0).measured[0].points == ((10, pytest.approx(2 * US)),)


def test_a_profile_survives_its_json():
    given = profile()
    text = write_profile(given)
    assert read_profile(text) == given
    assert write_profile(read_profile(text)) == text
    assert json.loads(text)["schema"] == 1
    assert list(json.loads(text)) == sorted(json.loads(text))


def test_a_point_that_more_work_undercuts_was_disturbed():
    def took(count: int, seconds: float, dtype: str = "float32") -> Sample:
        return Sample(
            kind="aten.mul", dtype=dtype, flops=count, moved=12 * count, crossed=0, seconds=seconds
        )

    found = fallback_rates(
        [took(10, 1e-6), took(1000, 9e-3), took(100_000, 2e-4), took(10, 5e-7, "float16")], 0.0, 0.0
    )
    assert {(m.dtype, m.points) for m in found.measured} == {
        ("float32", ((10.0, 1e-6), (1000.0, 2e-4), (100_000.0, 2e-4))),
        ("float16", ((10.0, 5e-7),)),
    }
    assert found.bytes_per_second == pytest.approx(1.2e6 / 2e-4)


def test_a_profile_goes_over_the_defaults():
    costs = profile().over(default_costs({"b": None, "c": None}), "mine.json")
    assert costs.fallback == profile().fallback
    assert costs.backends["b"] == profile().backends["b"]
    assert costs.backends["c"] == default_costs({"c": None}).backends["c"]
    assert costs.origin == "mine.json"


def changed(*path: object, to: object = None) -> str:
    data = json.loads(write_profile(profile()))
    at = data
    for key in path[:-1]:
        at = at[key]
    if to is None:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON (line 1"),
        ("[]", "$ should be an object"),
        ("{}", "$.schema is missing"),
        (changed("schema", to=9), "$.schema is 9, this cede reads 1"),
        (changed("machine"), "$.machine is missing"),
        (changed("other", to=1), "$.other is unknown"),
        (changed("fallback", "flops_per_second"), "$.fallback.flops_per_second is missing"),
        (changed("fallback", "flops_per_second", to=0.0), "is 0, should be above 0"),
        (changed("fallback", "op_seconds", to=-1), "$.fallback.op_seconds is -1"),
        (changed("fallback", "op_seconds", to="1"), "$.fallback.op_seconds should be a number"),
        (changed("fallback", "flops", to=1), "$.fallback.flops is unknown"),
        (changed("backends", "b", "dim_order", to=[1, 2]), "$.backends.b.dim_order is [1, 2]"),
        (changed("backends", "b", "measured", 0, "kind"), "$.backends.b.measured[0].kind"),
        (changed("backends", "b", "measured", 0, "points", to=[]), "measured[0].points should be"),
        (changed("backends", "b", "measured", 0, "points", 0, to=[1]), "points[0] should be"),
        (changed("skipped", 0, to=3), "$.skipped[0] should be an object"),
    ],
)
def test_a_bad_profile_is_told_by_file_and_path(tmp_path: Path, text: str, message: str):
    file = tmp_path / "profile.json"
    file.write_text(text)
    with pytest.raises(ConfigError) as told:
        load_profile(file)
    assert str(told.value).startswith(f"{file}: ")
    assert message in str(told.value)


def test_a_missing_profile_is_told():
    with pytest.raises(ConfigError, match=r"nowhere\.json: can't be read"):
        load_profile("nowhere.json")


def test_the_command_finds_a_bad_output_before_it_measures(tmp_path: Path):
    done = CliRunner().invoke(main, ["calibrate", "-o", str(tmp_path / "no" / "p.json")])
    assert done.exit_code == 2
    assert "does not exist" in done.output


@pytest.mark.slow
def test_calibrating_for_real(tmp_path: Path):
    file = tmp_path / "profile.json"
    done = CliRunner().invoke(main, ["calibrate", "-b", "xnnpack", "-o", str(file)])
    assert done.exit_code == 0, done.output
    found = load_profile(file)
    assert found.machine["torch"]
    kinds = {measured.kind for measured in found.fallback.measured}
    assert {"aten.addmm", "aten.convolution", "aten.bmm", "aten.add", "aten.mean"} <= kinds
    assert all(len(measured.points) == 3 for measured in found.fallback.measured)
    assert {measured.dtype for measured in found.fallback.measured} == {"float32", "float16"}
    taken = {measured.kind for measured in found.backends["xnnpack"].measured}
    assert {"aten.linear", "aten.convolution", "aten.add"} <= taken
    assert any(row.case.startswith("layer_norm") for row in found.skipped)
