"""How often a program stores the bytes of a constant: in which of its places they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from executorch.exir import ExecutorchProgramManager
    from executorch.exir.lowered_backend_module import LoweredBackendModule

PROGRAM = "the program"
"""The holder that stands for all ops outside of delegates."""


class Places:
    """Where the bytes of constants lie in a program."""

    def __init__(
        self,
        delegates: Mapping[str, LoweredBackendModule],
        constants: Iterable[object],
        initial: Iterable[object] = (),
        named: Iterable[object] = (),
        once: bool = False,
    ) -> None:
        """Take the bytes of each place.

        Args:
            delegates: by holder.
            constants: of the ops outside of delegates.
            initial: values that states start from.
            named: data that delegates have by name.
            once: whether named data that equals a constant of the program lies over it.
        """
        self._constants, self._initial = _by_size(constants), _by_size(initial)
        self._named = _by_size(named)
        self._payloads = {
            holder: bytes(module.processed_bytes) for holder, module in delegates.items()
        }
        self._delegates, self._once = delegates, once

    def copies(self, raw: bytes, holders: Sequence[str]) -> tuple[int, bool]:
        """How often a constant is stored for its holders, and whether that is certain.

        Some compilers store a form of their own, which is not found.
        """
        size = len(raw)
        plain = PROGRAM in holders and raw in self._constants.get(size, ())
        initial = PROGRAM in holders and raw in self._initial.get(size, ())
        named = raw in self._named.get(size, ())
        payloads, other = self._in_payloads(raw, holders)
        sure = not other or named or bool(self._common(other, size))
        # named data that equals a constant of the program lies over it
        beside = other and not (named and plain and self._once)
        return int(plain) + int(initial) + payloads + int(bool(beside)), sure

    def _in_payloads(self, raw: bytes, holders: Sequence[str]) -> tuple[int, list[str]]:
        """How often it lies in their payloads, and the delegates that have it elsewhere."""
        found, other = 0, []
        seen: set[bytes] = set()
        for holder in holders:
            payload = self._payloads.get(holder)
            if payload is None:
                continue
            often = _count(payload, raw)
            if not often:
                other.append(holder)
            elif payload not in seen:  # equal payloads are stored once
                seen.add(payload)
                found += often
        return found, other

    def _common(self, holders: Sequence[str], size: int) -> set[str]:
        """Keys of named data of that size that all of these delegates have: the same, laid out."""
        keys = [
            {
                key
                for key, entry in store.pte_data.items()
                if len(store.buffers[entry.buffer_index]) == size
            }
            if (store := self._delegates[holder].named_data_store_output) is not None
            else set()
            for holder in holders
        ]
        return set.intersection(*keys)


def _count(payload: bytes, raw: bytes) -> int:
    if len(payload) < len(raw):
        return 0
    if raw.count(raw[:1]) == len(raw):  # any run of zeros has it many times
        return int(raw in payload)
    return payload.count(raw)


def _by_size(blobs: Iterable[object]) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for blob in blobs:
        if isinstance(blob, bytes):
            found.setdefault(len(blob), []).append(blob)
    return found


def of_emitted(
    executorch: ExecutorchProgramManager, delegates: Mapping[str, LoweredBackendModule], once: bool
) -> Places:
    """The places of an emitted program."""
    emitted, named = executorch._emitter_output, executorch._named_data
    inside = [each.storage for each in emitted.program.constant_buffer]
    outside = list(emitted.external_constant_buffer or ())
    return Places(
        delegates,
        [*inside, *outside],
        [each.storage for each in emitted.mutable_data or ()],
        named.buffers if named is not None else (),
        once,
    )
