"""Every error that cede raises on purpose, with the exit code the command line gives it."""

from __future__ import annotations


class CedeError(Exception):
    """Something a user can mend. The message says what is wrong, where, and what to do.

    Attributes:
        exit_code: what `cede` exits with when this error ends a command.
    """

    exit_code = 1


class ConfigError(CedeError):
    """A config, an option or a command line that can't be used.

    Attributes:
        partial: the config without what is wrong in it, where the error is about a config.
    """

    exit_code = 2

    def __init__(self, message: str, partial: object = None) -> None:
        super().__init__(message)
        self.partial = partial


class PluginError(CedeError):
    """A plugin that failed to load, clashes with another, or broke its contract."""

    exit_code = 3


class PlanError(CedeError):
    """A plan that doesn't fit the program, or isn't a valid plan."""

    exit_code = 2


class PolicyError(CedeError):
    """A policy or `--strict` that the plan doesn't meet."""

    exit_code = 4


class LoweringError(CedeError):
    """A program that can't be lowered, checked or run."""

    exit_code = 5


class EncodingError(CedeError):
    """A weight that can't be encoded or decoded."""

    exit_code = 2


class CheckpointError(CedeError):
    """A checkpoint that can't be read or written."""

    exit_code = 2
