"""Options and limits of a config against the backends that there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import pytest

from cede.config import check_options, load_config
from cede.errors import ConfigError, PluginError
from cede.types import Backend, NoOptions


class Speed(Enum):
    SLOW = 1
    FAST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    depth: int = field(default=2, metadata={"least": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    threads: int = 1
    names: tuple[str, ...] = ()
    speed: Speed = Speed.SLOW
    scale: float | None = None
    tuning: Tuning = field(default_factory=Tuning)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needy:
    sdk: str


BACKENDS = {
    "fast": Backend(name="fast", delegate_id="Fast", options=Options),
    "plain": Backend(name="plain", delegate_id="Plain"),
    "needy": Backend(name="needy", delegate_id="Needy", options=Needy),
}


def problems(*overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        check_options(load_config("default", ["backends=[]", *overrides]), BACKENDS)
    return str(caught.value).splitlines()


def test_defaults_where_nothing_is_given() -> None:
    found = check_options(load_config(None, ["backends=[plain]"]), BACKENDS)
    assert found == {"fast": Options(), "plain": NoOptions()}


def test_values_get_the_types_of_the_dataclass() -> None:
    config = load_config(
        None,
        [
            "backends=[fast]",
            "options.fast.threads='3'",
            "options.fast.names=[a,b]",
            "options.fast.speed=FAST",
            "options.fast.scale=2",
            "options.fast.tuning.depth=0",
            "options.needy.sdk=here",
        ],
    )
    assert check_options(config, BACKENDS) == {
        "fast": Options(
            threads=3, names=("a", "b"), speed=Speed.FAST, scale=2.0, tuning=Tuning(depth=0)
        ),
        "plain": NoOptions(),
        "needy": Needy(sdk="here"),
    }


def test_all_mistakes_at_once() -> None:
    assert problems(
        "backends=[fats,plain]",
        "options.plane.x=1",
        "options.fast.thread=1",
        "options.fast.threads=many",
        "options.fast.speed=MEDIUM",
        "options.fast.tuning.depth=-1",
        "options.plain.x=1",
        "limits.fasd.min_ops=1",
    ) == [
        "override: backends: unknown backend fats; did you mean fast?",
        "override: options.plane: unknown backend; did you mean options.plain?",
        "override: limits.fasd: unknown backend; did you mean limits.fast?",
        "override: options.fast.thread: unknown key; did you mean options.fast.threads?",
        "override: options.fast.threads: got 'many' (str), expected a whole number",
        "override: options.fast.speed: got 'MEDIUM' (str), expected one of SLOW, FAST",
        "override: options.fast.tuning.depth: is -1, must not be below 0",
        "override: options.plain.x: unknown key; there are none",
    ]


def test_options_that_are_no_keys() -> None:
    assert problems("options.fast=3") == [
        "override: options.fast: got 3 (int), expected keys with values"
    ]


def test_an_option_that_must_be_given() -> None:
    assert problems("backends=[needy]") == [
        "default.yaml: options.needy.sdk: is missing; give a text"
    ]


def test_a_mandatory_option_of_a_wrong_type_is_told_once() -> None:
    assert problems("options.needy.sdk=[a]") == [
        "override: options.needy.sdk: got ['a'] (list), expected a text"
    ]


def test_options_that_no_config_can_hold_are_the_plugin_s_fault() -> None:
    backends = {"odd": Backend(name="odd", delegate_id="Odd", options=int)}
    with pytest.raises(PluginError, match="backend odd: its options can't be read"):
        check_options(load_config(None, ["backends=[odd]"]), backends)


def test_a_backend_whose_plugin_failed_is_told_as_that() -> None:
    def find(name: str) -> Backend:
        raise PluginError(f"the plugin of {name} failed") if name == "broken" else ConfigError("no")

    config = load_config(None, ["backends=[broken]"])
    with pytest.raises(PluginError, match="the plugin of broken failed"):
        check_options(config, BACKENDS, find)
    with pytest.raises(ConfigError, match="override: backends: unknown backend typo"):
        check_options(load_config(None, ["backends=[typo]"]), BACKENDS, find)


def test_backends_of_a_policy_are_checked() -> None:
    config = "policy.pin=['op:a,backend:fats', 'op:b,backend:plain']"
    assert problems(config) == [
        "override: policy.pin[0].backend: unknown backend fats; did you mean fast?"
    ]
