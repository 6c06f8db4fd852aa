"""Which mode each op is to be quantized in, by selectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.config import SelectorConfig
from cede.errors import ConfigError
from cede.facts.places import layer_of, module_of
from cede.policy import selects_module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Node

    from cede.config import LayerConfig

NONE = "none"
"""The mode of ops that stay in float."""


class Choice:
    """The mode of every op: the general one, unless a rule says otherwise.

    Args:
        mode: of all ops that are selected.
        select: short selectors; ops that match none of them are left. Empty selects all.
        layers: rules that go before; the last that matches stands.

    Raises:
        ConfigError: a selector that can't be read.
    """

    def __init__(self, mode: str, select: Sequence[str], layers: Sequence[LayerConfig]) -> None:
        self.mode = mode
        self._select = [_read(text, f"select[{i}]") for i, text in enumerate(select)]
        self._rules = [
            (_read(rule.select, f"quantize.layers[{i}].select"), rule.mode)
            for i, rule in enumerate(layers)
        ]
        self.modes = tuple(dict.fromkeys((mode, *(m for _, m in self._rules if m != NONE))))
        self._used: set[str] = set()

    def __call__(self, node: Node, backend: str = "") -> tuple[str, str]:
        """The mode of an op that goes to a backend, and the rule; "none" and why."""
        mode, why = self.mode, ""
        if self._select:
            found = [
                i for i, selector in enumerate(self._select) if _matches(selector, node, backend)
            ]
            self._used.update(f"select[{i}]" for i in found)
            if not found:
                mode, why = NONE, "not selected"
        for i, (selector, asked) in enumerate(self._rules):
            if _matches(selector, node, backend):
                self._used.add(f"quantize.layers[{i}]")
                mode, why = asked, f"quantize.layers[{i}]"
        return mode, why

    def insist(self) -> None:
        """Refuse selectors that selected nothing.

        Raises:
            ConfigError: there is one.
        """
        given = {f"select[{i}]": s for i, s in enumerate(self._select)}
        given.update({f"quantize.layers[{i}]": s for i, (s, _) in enumerate(self._rules)})
        for where, selector in given.items():
            if where not in self._used:
                raise ConfigError(f"{where}: no op of the program is {selector}")


def kind_of(node: Node) -> str:
    """ "aten.conv2d": the operator without its overload."""
    return ".".join(str(node.target).split(".")[:2])


def _read(text: str, where: str) -> SelectorConfig:
    try:
        return SelectorConfig(**SelectorConfig.read(text))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def _matches(selector: SelectorConfig, node: Node, backend: str) -> bool:
    if selector.backend not in ("", backend):
        return False
    value = node.meta.get("val")
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    path = module_of(node)
    return any(
        selects_module(selector, path, op, dtype, layer_of(node))
        for op in {kind_of(node), str(node.target)}
    )
