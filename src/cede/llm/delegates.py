"""The section `backend` in terms of a config's `backends` and `options`."""

from __future__ import annotations

from dataclasses import fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from cede.config.options import check_options
from cede.errors import CedeError, ConfigError
from cede.llm.data import data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cede.config import Config
    from cede.config.fit import Problems
    from cede.host import Host

ENABLED = "enabled"
HERE = "section"


def backends_of(
    llm: Any,
    config: Config,
    problems: Problems,
    notes: list[str],
    written: Mapping[str, Any],
) -> Config:
    """The config with the backends that are enabled.

    Args:
        llm: an instance of `LlmConfig`.
        config: the section `cede`; its `backends` says the order.
        problems: where problems are added: options that can't be had, backends that can't lower
            here.
        notes: where remarks are added.
        written: what the file says in `backend`.
    """
    table: Mapping[str, Mapping[str, Any]] = data("backends.json")["backends"]
    enabled, options = [], dict(config.options)
    for each in fields(llm.backend):
        section = getattr(llm.backend, each.name)
        if not getattr(section, ENABLED, False):
            continue
        known = table.get(each.name, {})
        name = known.get("backend", each.name)
        enabled.append(name)
        passed = _passed(written.get(each.name), known)
        if given := _options(section, each.name, name, known, passed, problems, notes):
            options[name] = given | dict(options.get(name) or {})
    for name in enabled if config.backends else ():
        if name not in config.backends:
            problems.add("cede.backends", f"lacks {name}, which the section backend enables")
    made = replace(config, backends=config.backends or enabled, options=options)
    if not made.backends:
        names = ", ".join(each.name for each in fields(llm.backend))
        problems.add("backend", f"none is enabled; enable one of {names}, or give cede.backends")
        return made
    own = llm.quantization.pt2e_quantize is None
    _available(made, problems, "cede.quantize.pt2e" if own else "quantization.pt2e_quantize")
    return made


def products(config: Config) -> bool:
    """Whether means and rotations become matrix products: the first backend wants it so.

    Not where a quantizer would take these products for layers.
    """
    wanted: list[str] = data("backends.json")["products"]
    return config.backends[:1] != [] and config.backends[0] in wanted and not config.quantize.pt2e


def plain_caches(config: Config) -> bool:
    """Whether a backend takes caches that are written by index alone, as `export_llm` has it."""
    wanted: list[str] = data("backends.json")["plain_caches"]
    return not set(config.backends).isdisjoint(wanted)


def _options(
    section: Any,
    key: str,
    name: str,
    known: Mapping[str, Any],
    passed: set[str],
    problems: Problems,
    notes: list[str],
) -> dict[str, Any]:
    """The options that a section means; fields of `passed` are so with their defaults too."""
    plain, made = type(section)(), {}
    for each in fields(section):
        value = getattr(section, each.name)
        path = f"backend.{key}.{each.name}"
        if each.name == ENABLED:
            continue
        if each.name in known.get("told", {}):
            if value != known["told"][each.name]["unless"]:
                notes.append(f"{path}: {known['told'][each.name]['note']}")
        elif value == getattr(plain, each.name) and each.name not in passed:
            continue
        elif each.name in known.get("options", {}):
            plain_value = value.value if isinstance(value, Enum) else value
            form = known.get("forms", {}).get(each.name)
            made[known["options"][each.name]] = form.format(value) if form else plain_value
        else:
            why = known.get("cant", {}).get(each.name, f"cede's options are cede.options.{name}")
            problems.add(path, f"can't be had; {why}")
    _needs(made, key, known, problems)
    return made


def _passed(section: Any, known: Mapping[str, Any]) -> set[str]:
    """Fields whose default is not cede's: always, or where the file gives them."""
    given = section if isinstance(section, dict) else {}
    written = {name for name in known.get("written", ()) if name in given}
    return {*known.get("always", ()), *written}


def _needs(
    given: Mapping[str, Any], key: str, known: Mapping[str, Any], problems: Problems
) -> None:
    """Add options that another one does not go with."""
    for name, (other, values) in known.get("needs", {}).items():
        if name in given and given.get(other, values[0]) not in values:
            problems.add(
                f"backend.{key}.{name}",
                f"needs {values[0]} or later, and it is to run on {given[other]}",
            )


def _available(config: Config, problems: Problems, path: str) -> None:
    from cede.host import Host
    from cede.host.problems import name_problems

    asked = replace(config, origins={"": HERE})  # the section's own paths begin with cede
    if lines := name_problems(asked):
        for line in lines:
            path, _, message = line.removeprefix(f"{HERE}: ").partition(": ")
            known = line.startswith(f"{HERE}: ")
            problems.add(f"cede.{path}" if known else "cede", message if known else line)
        return
    try:
        host = Host.load(config)
    except CedeError as error:
        problems.add("cede", str(error))
        return
    before = len(problems.lines)
    try:
        check_options(config, host.backends, host.backend)
    except ConfigError as error:
        problems.add("cede", str(error))
    for name in config.backends:
        if (why := host.availability(name).lower) is not None:
            problems.add("backend", f"{name} can't lower here: {why}")
    if config.quantize.pt2e and len(problems.lines) == before:
        _quantizers(host, config, problems, path)


def _quantizers(host: Host, config: Config, problems: Problems, path: str) -> None:
    """Add what is wrong with the quantizers that are asked for."""
    from cede.quant.pt2e.asked import insist, named

    asked = config.quantize
    try:
        records = named(asked.pt2e, host, config)
        insist(
            records, asked.pt2e_mode, {asked.pt2e_mode}, asked.per_channel, asked.guided, host,
            config,
        )  # fmt: skip
    except ConfigError as error:
        problems.add(path, str(error))
