"""The plugin host: finds plugins, loads each on its own, and hands out what they bring."""

from cede.host.host import Host
from cede.host.records import Conflict, Failure, Loaded

__all__ = ["Conflict", "Failure", "Host", "Loaded"]
