"""cede's own backends pass the conformance tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cede.host import Host
from cede.host.records import BUILT_IN
from cede.testing import SAMPLES, Conformance
from cede.testing.checks import availability

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
    "metal-aoti": {"pytestmark": pytest.mark.filterwarnings("ignore:This API:Warning")},
}


class BuiltIn(Conformance):
    seconds = 300.0  # the machine may be busy
    hash_seeds = ()


class InAnotherProcess:
    hash_seeds = ("conv", "attention")


HOST = Host.load()
NAMES = [name for name in HOST.backends if HOST.source("backend", name).distribution == BUILT_IN]


def _title(name: str) -> str:
    return "Test" + name.title().replace("-", "").replace("_", "")


def _classes(name: str) -> dict[str, Any]:
    """One class for every run, with few programs of a slow backend, and one for slow runs."""
    quick = tuple(SAMPLES) if name in WHOLE else FEW
    slow = ("conv", "attention") if name in WHOLE else tuple(SAMPLES)
    given = {"backend": name, **SETTINGS.get(name, {}), "__module__": __name__}

    def made(title: str, bases: tuple[type, ...], programs: tuple[str, ...]) -> Any:
        chosen = {key: SAMPLES[key] for key in programs}
        found: Any = type(title, bases, {**given, "programs": chosen})
        why = HOST.availability(name).claim
        return found if why is None else pytest.mark.skip(reason=f"{name}: {why}")(found)

    first, second = _title(name), f"{_title(name)}Slowly"
    return {
        first: made(first, (BuiltIn,), quick),
        second: pytest.mark.slow(made(second, (InAnotherProcess, BuiltIn), slow)),
    }


for _name in NAMES:
    globals().update(_classes(_name))


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_can_do_here(name: str) -> None:
    assert availability(HOST.backends[name].available) == []


def test_the_built_in_backends_are_checked() -> None:
    assert {"xnnpack", "reference"} <= set(NAMES)
    assert {_title(name) for name in NAMES} <= globals().keys()
