"""Writes a distribution with a plugin that works as it stands."""

from cede.kit.names import Names, insist_free, names_for
from cede.kit.write import write_plugin

__all__ = ["Names", "insist_free", "names_for", "write_plugin"]
