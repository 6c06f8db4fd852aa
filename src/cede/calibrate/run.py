"""Calibrating: every case on every target that runs here."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.calibrate.cases import CASES, interrupted, negations, products, single_ops
from cede.calibrate.clock import Clock, refused
from cede.calibrate.fit import Borders, backend_rates, fallback_rates
from cede.calibrate.machine import describe
from cede.costs import Profile, Skipped
from cede.errors import ConfigError
from cede.running.runtime import registered

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.calibrate.fit import Sample
    from cede.config import Config
    from cede.host import Host
    from cede.types import Rates

    Step = Callable[[str], AbstractContextManager[None]]

MANY = 33
"""Tiny ops in a chain, to tell one from the rest."""

SOME = 9
"""Delegates in a chain."""

VALUES = 8
LARGE = 2**15
"""Elements of a large value at a border."""


def steps_of(host: Host, config: Config) -> int:
    """How many steps `calibrate` takes. Raises as it does."""
    return (1 + len(_targets(host, config)[0])) * (1 + CASES)


def calibrate(host: Host, config: Config, step: Step = lambda _: nullcontext()) -> Profile:
    """Measure ExecuTorch's own kernels and every backend that its runtime has here.

    Args:
        host: brings the backends.
        config: its plugins and options; its backends, where it names some, are the only ones
            measured.
        step: entered around each case, with its name.

    Raises:
        ConfigError: a backend that the config names can't run here.
    """
    names, skipped = _targets(host, config)
    machine = describe()  # before it is busy with this
    clock = Clock(host, config, "")
    with step("kernels"):
        kernels = _kernels(clock)
    samples, more = _samples(clock, "", step)
    skipped += more
    backends: dict[str, Rates] = {}
    for name in names:
        clock = Clock(host, config, name)
        with step(name):
            try:
                borders = _borders(clock, kernels)
            except Exception as error:  # a backend may fail in any way; the others go on
                skipped.append(Skipped(backend=name, case="borders", reason=refused(error)))
                continue
        found, more = _samples(clock, name, step)
        skipped += more
        if found:
            backends[name] = backend_rates(found, kernels.runtime, borders)
    return Profile(
        machine=machine,
        fallback=fallback_rates(samples, kernels.runtime, kernels.op),
        backends=backends,
        skipped=tuple(skipped),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernels:
    """Seconds without delegates.

    Attributes:
        runtime: of a call in which nothing happens.
        op: that one more tiny op adds.
        large: that one more op on a large value adds.
        inputs: that `VALUES` inputs instead of one add.
    """

    runtime: float
    op: float
    large: float
    inputs: float


def _kernels(clock: Clock) -> _Kernels:
    one = clock.seconds(negations(1))
    op = (clock.seconds(negations(MANY)) - one) / (MANY - 1)
    far = clock.seconds(negations(SOME, LARGE)) - clock.seconds(negations(1, LARGE))
    return _Kernels(
        runtime=max(one - op, 0.0),
        op=op,
        large=far / (SOME - 1),
        inputs=clock.seconds(products(MANY, VALUES)) - clock.seconds(products(MANY)),
    )


def _targets(host: Host, config: Config) -> tuple[list[str], list[Skipped]]:
    names, skipped = [], []
    known = registered()
    for name in config.backends or sorted(host.backends):
        record = host.backend(name)
        why = host.availability(name).run
        if why is None and record.delegate_id not in known:
            why = f"ExecuTorch's runtime here has no delegate {record.delegate_id}"
        if why is None:
            names.append(name)
        elif config.backends:
            raise ConfigError(f"backend {name} can't be measured here: {why}")
        else:
            skipped.append(Skipped(backend=name, case="all", reason=why))
    return names, skipped


def _samples(clock: Clock, backend: str, step: Step) -> tuple[list[Sample], list[Skipped]]:
    found: list[Sample] = []
    skipped: list[Skipped] = []
    for case in single_ops():
        with step(case.name):
            try:
                found.append(clock.sample(case))
            except Exception as error:  # told in the profile
                skipped.append(Skipped(backend=backend, case=case.name, reason=refused(error)))
    return found, skipped


def _borders(clock: Clock, kernels: _Kernels) -> Borders:
    """What delegates add."""
    few, many = clock.seconds(products(1)), clock.seconds(products(MANY))
    wide = clock.seconds(products(MANY, VALUES)) - kernels.inputs
    apart = clock.seconds(interrupted(SOME), SOME) - clock.seconds(interrupted(1))
    far = clock.seconds(interrupted(SOME, LARGE), SOME) - clock.seconds(interrupted(1, LARGE))
    near = clock.seconds(products(SOME, size=LARGE)) - clock.seconds(products(1, size=LARGE))
    return Borders(
        op=(many - few) / (MANY - 1),
        delegates=apart / (SOME - 1) - kernels.op,
        value=(wide - many) / (VALUES - 1),
        bytes=4 * LARGE,
        large=(far - near) / (SOME - 1) - kernels.large,
    )
