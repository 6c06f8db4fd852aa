"""Lowering with less work, as far as the config allows and the versions are known."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from cede.lowering.inside_executorch import shortcuts, unknown_version
from cede.lowering.inside_executorch.delegates import through

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.config import Config
    from cede.host import Host


@contextmanager
def quickly(host: Host, config: Config) -> Iterator[None]:
    """A context to lower in; with `lowering.stock`, and for unknown versions, ExecuTorch's own."""
    if config.lowering.stock or unknown_version():
        yield
        return
    names = dict.fromkeys(each.backend for each in host.partitioners_for(config))
    records = [host.backend(name) for name in names]
    with ExitStack() as stack:
        stack.enter_context(shortcuts())
        for record in records:
            if host.availability(record.name).lower is None:
                stack.enter_context(record.shortcuts())
        stack.enter_context(through(None, {each.delegate_id for each in records if each.pure}))
        yield


def remarks(config: Config) -> list[str]:
    """What the user should know of how it was lowered."""
    if config.lowering.stock or not (name := unknown_version()):
        return []
    return [f"lowered by ExecuTorch's own steps, for cede has no shortcuts for {name}"]
