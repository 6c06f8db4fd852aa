"""Which quantizer and mode each op is for: by the plan of the float program, then by selectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.errors import ConfigError
from cede.facts.places import module_of
from cede.lowering.guide import Place
from cede.quant.pt2e.choice import NONE, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch.fx import Node

    from cede.quant.pt2e.choice import Choice
    from cede.types import Quantizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What is asked for one op: a quantizer and its mode, or neither and why."""

    quantizer: str = ""
    mode: str = ""
    why: str = ""


class Assignment:
    """The share of every op.

    Args:
        records: quantizers, each of another backend.
        choose: the mode of an op.
        places: of nodes in a plan of the float program, by name; None gives the one quantizer all.
    """

    def __init__(
        self, records: Sequence[Quantizer], choose: Choice, places: Mapping[str, Place] | None
    ) -> None:
        self.choose = choose
        self.guided = places is not None
        self._places = places or {}
        self._of = {record.backend: record for record in records}
        blind = [record for record in records if places is None or not record.floats]
        self._rest = blind[0] if blind else None
        self._known: dict[Node, Share] = {}

    def __call__(self, node: Node) -> Share:
        """The share of an op.

        Raises:
            ConfigError: a rule asks for a mode that the op's quantizer does not have.
        """
        if node not in self._known:
            self._known[node] = self._share(node)
        return self._known[node]

    def quantizer(self, node: Node) -> str:
        """Name of the quantizer that an op is for, whatever the rules say of it; "" for none."""
        record, _ = self._record(node)
        return record.name if record is not None else ""

    def place(self, node: Node) -> Place:
        """Where the plan puts an op; one that a quantizer inserted goes with its neighbours."""
        for known in _around(node):
            if known.name in self._places:
                return self._places[known.name]
        return Place(why="" if self._places else "no plan")

    def parted(self, node: Node, other: Node) -> bool:
        """Whether the plan puts two ops of one backend in different delegates."""
        one, two = self.place(node).delegates, self.place(other).delegates
        return bool(self.guided and one and two and set(one) != set(two))

    def _share(self, node: Node) -> Share:
        record, why = self._record(node)
        if record is None:
            return Share(why=why)
        mode, why = self.choose(node, record.backend)
        if mode == NONE:
            return Share(why=why)
        if mode not in record.modes:
            raise ConfigError(
                f"{why or 'quantize.pt2e_mode'} asks for {mode!r} on {node.name}"
                f" ({kind_of(node)}{_in(module_of(node))}), and the {record.name} quantizer has"
                f" {', '.join(record.modes)}: give a rule in quantize.layers with one of these, or"
                " none"
            )
        return Share(quantizer=record.name, mode=mode)

    def _record(self, node: Node) -> tuple[Quantizer | None, str]:
        place = self.place(node)
        record = self._of.get(place.backend)
        if record is not None:
            return record, ""
        if place.backend:
            return None, f"the plan gives it to {place.backend}, whose quantizer was not asked for"
        if self._rest is not None:
            return self._rest, ""
        return None, f"the plan leaves it ({place.why or 'it becomes no op'})"


def _in(module: str) -> str:
    return f" in module {module}" if module else ""


def _around(node: Node) -> Iterator[Node]:
    """The op, then those that read it, then those that it reads."""
    yield node
    yield from node.users
    yield from node.all_input_nodes
