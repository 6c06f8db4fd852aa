"""The plugin that is checked: loaded once, asked once about each program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cede.config import Config, PluginsConfig, check_options
from cede.errors import CedeError, ConfigError
from cede.host import Host
from cede.lowering import lower_program, scout
from cede.testing.asking import Asked, Watching
from cede.types import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from torch.export import ExportedProgram

    from cede.lowering import Lowered
    from cede.testing.sample import Sample
    from cede.types import Availability, Backend


class Subject:
    """A backend with the partitioners that claim for it.

    Args:
        backend: its name, "" takes the partitioner's.
        partitioner: the only one to ask, "" asks all that claim for the backend.
        plugin: a `.py` plugin that isn't installed, None if it is.
        options: the backend's options.
        seconds: how long one partitioner may take.

    Raises:
        ConfigError: nobody brings it, or options that don't fit.
        PluginError: the plugin failed to load.
    """

    def __init__(
        self,
        *,
        backend: str,
        partitioner: str,
        plugin: Path | str | None,
        options: Mapping[str, Any],
        seconds: float,
    ) -> None:
        if not (backend or partitioner):
            raise ConfigError("say which backend or which partitioner is checked")
        files = [str(plugin)] if plugin is not None else []
        config = Config(plugins=PluginsConfig(files=files))
        self.host = Host.load(config)
        name = backend or self.host.partitioner(partitioner).backend
        self.backend: Backend = self.host.backend(name)
        self.seconds = seconds
        self.config = replace(
            config,
            backends=[name],
            partitioners=[partitioner] if partitioner else [],
            options={name: dict(options)} if options else {},
            # what is watched has a limit of its own, and is asked twice
            seconds=4 * seconds + 60,
        )
        self.options = check_options(self.config, self.host.backends, self.host.backend)

    @cached_property
    def availability(self) -> Availability:
        """What the backend can do here."""
        return self.host.availability(self.backend.name)


@dataclass
class Case:
    """One program, and what the plugin does with it."""

    subject: Subject
    name: str
    make: Callable[[], Sample]

    @cached_property
    def sample(self) -> Sample:
        """The program's model and calls."""
        return self.make()

    @cached_property
    def program(self) -> ExportedProgram:
        """The exported program."""
        return self.sample.export()

    @cached_property
    def _outcome(self) -> tuple[tuple[Asked, ...], Lowered | None, str]:
        given = self.subject
        watching = Watching(given.host, given.seconds)
        arguments = (self.program, watching.host, given.config, given.options)
        lowered, trouble = None, ""
        try:
            if given.availability.lower is None:
                lowered = lower_program(*arguments)
            else:
                scout(*arguments)
        except CedeError as error:
            trouble = str(error)
        return tuple(watching.asked.values()), lowered, trouble

    @property
    def asked(self) -> tuple[Asked, ...]:
        """What each partitioner did; none where the program didn't get that far."""
        return self._outcome[0]

    @property
    def lowered(self) -> Lowered | None:
        """The lowered program, None where that failed or can't be done here."""
        return self._outcome[1]

    @property
    def trouble(self) -> str:
        """Why asking or lowering failed, "" if neither did."""
        return self._outcome[2]

    @property
    def claimed(self) -> frozenset[str]:
        """The ops in claims."""
        answers = (answer for one in self.asked for answer in one.answers)
        return frozenset(op for one in answers if isinstance(one, Claim) for op in one.ops)

    @property
    def unmet(self) -> tuple[str, ...]:
        """Ops that the program can't do without and that nobody claims."""
        return tuple(
            op.where
            for op in (self.asked[0].graph.ops if self.asked else ())
            if op.kind in self.sample.needs and op.id not in self.claimed
        )
