"""The plan: which ops go to which delegate, and why every other answer lost. A value with JSON."""

from cede.planning.plan import SCHEMA, Plan, Source

__all__ = ["SCHEMA", "Plan", "Source"]
