"""Lowering with less work, as far as the config allows and the versions are known."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from cede.lowering.apart import Apart
from cede.lowering.inside_executorch import shortcuts, unknown_version
from cede.lowering.inside_executorch.delegates import through
from cede.lowering.kept import Kept
from cede.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.config import Config
    from cede.host import Host


class _Said(threading.local):
    """What the lowering of this thread has said so far, None outside of one."""

    lines: list[str] | None = None


_said = _Said()


@contextmanager
def quickly(host: Host, config: Config, store: Store | None = None) -> Iterator[list[str]]:
    """A context to lower in; with `lowering.stock`, and for unknown versions, ExecuTorch's own.

    Within itself it does nothing. Gives the list of what the user should know, filled meanwhile.

    Args:
        host: has the backends.
        config: may ask for less.
        store: keeps delegates, and its own warnings; None is the one that the config asks for, and
            its warnings are among what is given.
    """
    if _said.lines is not None:
        yield _said.lines
        return
    said: list[str] = []
    _said.lines = said
    try:
        apart = Apart.of(config.lowering, said)
        with ExitStack() as stack:
            if config.lowering.stock:
                pass
            elif name := unknown_version():
                text = f"lowered by ExecuTorch's own steps, for cede has no shortcuts for {name}"
                said.append(text)
            else:
                given = _store(config, said) if store is None else store
                _enter(stack, host, config, given, apart)
                apart = None
            if apart is not None:
                apart.unheld("ExecuTorch's own steps")
            yield said
    finally:
        _said.lines = None


def _store(config: Config, said: list[str]) -> Store:
    given = config.lowering
    store = Store.at(given.cache_folder, given.cache_bytes)
    store.warnings = said
    return store


def _enter(stack: ExitStack, host: Host, config: Config, store: Store, apart: Apart | None) -> None:
    names = dict.fromkeys(each.backend for each in host.partitioners_for(config))
    records = [host.backend(name) for name in names]
    stack.enter_context(shortcuts())
    for record in records:
        if host.availability(record.name).lower is None:
            stack.enter_context(record.shortcuts())
    kept = Kept(store) if config.lowering.cache else None
    pure = {each.delegate_id for each in records if each.pure}
    stack.enter_context(through(kept, pure, apart))
