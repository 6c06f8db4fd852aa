"""The quantizers that are asked for, and what can't be had of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.errors import ConfigError
from cede.nearest import suggestion
from cede.types import Quantizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cede.config import Config
    from cede.host import Host

AUTO = "auto"
"""In place of names: the quantizers of the backends that the config asks for."""


def named(
    given: str | Quantizer | Sequence[str | Quantizer], host: Host, config: Config
) -> tuple[Quantizer, ...]:
    """The records, in the order given or that of the backends.

    Raises:
        ConfigError: a name that nobody brings, one that comes twice, two for one backend, or
            "auto" where no backend has a quantizer.
    """
    if isinstance(given, str) and given.strip() == AUTO:
        return _of_backends(host, config)
    if isinstance(given, str):
        given = given.split(",")
    elif isinstance(given, Quantizer):
        given = [given]
    records = [_record(word, host) for word in given]
    if not records:
        raise ConfigError("no quantizer is named; give one, or auto")
    for i, record in enumerate(records):
        for other in records[:i]:
            if record.backend == other.backend:
                raise ConfigError(
                    f"the quantizers {other.name} and {record.name} are both of backend"
                    f" {record.backend}: name one of them"
                )
    return tuple(records)


def insist(
    records: Sequence[Quantizer],
    usual: str,
    modes: Iterable[str],
    per_channel: bool,
    guided: bool,
    host: Host,
    config: Config,
) -> None:
    """Refuse what can't be had, before any work.

    Raises:
        ConfigError: an unknown mode or granularity, a quantizer that can't be made here, several
            without a plan, or one whose backend is not planned for.
    """
    from cede.quant.pt2e.choice import NONE

    if usual == NONE:
        raise ConfigError(f"mode is {NONE!r}: nothing would be quantized")
    for mode in modes:
        if not any(mode in record.modes for record in records):
            known = suggestion(mode, sorted({m for record in records for m in record.modes}))
            raise ConfigError(f"{_the(records)} no mode {mode!r}; {known}")
    for record in records:
        if per_channel not in record.granularities:
            word = "per channel" if per_channel else "per tensor"
            raise ConfigError(f"the {record.name} quantizer has no weights {word}")
        if (why := record.available()) is not None:
            raise ConfigError(f"the {record.name} quantizer can't be had here: {why}")
    if not guided and len(records) > 1:
        raise ConfigError(
            f"several quantizers ({', '.join(r.name for r in records)}) share the ops by a plan:"
            " give a config with backends, and guided (quantize.guided) not false"
        )
    if guided:
        _insist_planned(records, host, config)


def _insist_planned(records: Sequence[Quantizer], host: Host, config: Config) -> None:
    planned = dict.fromkeys(given.backend for given in host.partitioners_for(config))
    for record in records:
        if record.backend not in planned:
            raise ConfigError(
                f"the {record.name} quantizer is for backend {record.backend}, and the plan is for"
                f" [{', '.join(planned)}]: add {record.backend} to backends, or quantize without a"
                " plan (quantize.guided=false)"
            )


def _the(records: Sequence[Quantizer]) -> str:
    names = ", ".join(record.name for record in records)
    return f"the {names} quantizer has" if len(records) == 1 else f"the quantizers {names} have"


def _of_backends(host: Host, config: Config) -> tuple[Quantizer, ...]:
    backends = list(dict.fromkeys(given.backend for given in host.partitioners_for(config)))
    found: dict[str, Quantizer] = {}
    for record in host.quantizers.values():
        found.setdefault(record.backend, record)
    records = tuple(found[name] for name in backends if name in found)
    if not records:
        raise ConfigError(
            f"no backend of [{', '.join(backends)}] has a quantizer; those there are:"
            f" {', '.join(sorted(host.quantizers)) or 'none'}"
        )
    return records


def _record(given: str | Quantizer, host: Host) -> Quantizer:
    if isinstance(given, Quantizer):
        return given
    name = given.strip()
    host.source("quantizer", name)  # raises for a name that nobody brings
    record: Quantizer = host.quantizers[name]
    return record
