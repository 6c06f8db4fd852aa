"""cede's own backends pass the conformance tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cede.host import Host
from cede.host.records import BUILT_IN
from cede.testing import SAMPLES, Conformance

if TYPE_CHECKING:
    from collections.abc import Mapping

WHOLE = ("xnnpack", "reference")
"""Those that every program is tried on by default."""

FEW = ("conv", "split")
"""What the others are tried on by default: some take seconds for a toy."""

# What a backend needs beyond its name.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    # coremltools leaves temporary folders to the garbage collector
    "coreml": {"pytestmark": pytest.mark.filterwarnings("ignore:Implicitly:ResourceWarning")},
}


class BuiltIn(Conformance):
    seconds = 300.0  # the machine may be busy
    hash_seeds = ()


class InAnotherProcess:
    hash_seeds = ("conv", "attention")


def _names() -> list[str]:
    host = Host.load()
    return [name for name in host.backends if host.source("backend", name).distribution == BUILT_IN]


def _classes() -> dict[str, type]:
    found: dict[str, type] = {}
    for name in _names():
        title = name.title().replace("-", "").replace("_", "")
        given = {"backend": name, **SETTINGS.get(name, {}), "__module__": __name__}
        few = {key: SAMPLES[key] for key in FEW}
        found[f"Test{title}"] = type(
            f"Test{title}", (BuiltIn,), {**given, "programs": SAMPLES if name in WHOLE else few}
        )
        rest = FEW if name in WHOLE else tuple(SAMPLES)
        slow = type(
            f"Test{title}Slowly",
            (InAnotherProcess, BuiltIn),
            {**given, "programs": {key: SAMPLES[key] for key in (*rest, "attention")}},
        )
        found[slow.__name__] = pytest.mark.slow(slow)
    return found


globals().update(_classes())


def test_the_built_in_backends_are_checked() -> None:
    assert {"TestXnnpack", "TestReference"} <= globals().keys()
