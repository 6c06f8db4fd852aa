"""The plan: which ops go to which delegate, and why every other answer lost. A value with JSON."""

from cede.planning.plan import SCHEMA, UNASKED, Plan, Source

__all__ = ["SCHEMA", "UNASKED", "Plan", "Source"]
