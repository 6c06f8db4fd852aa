"""The report, made from a plan and its facts: who took or left each op and why, with totals."""

from cede.reporting.explain import explain
from cede.reporting.make import make_report
from cede.reporting.memory import LargeValue, MemoryUse, StateTotal
from cede.reporting.records import (
    Answer,
    DelegateTotal,
    ModuleTotal,
    Outcome,
    Report,
    Row,
    Totals,
    TypeTotal,
)
from cede.reporting.strict import require_whole

__all__ = [
    "Answer",
    "DelegateTotal",
    "LargeValue",
    "MemoryUse",
    "ModuleTotal",
    "Outcome",
    "Report",
    "Row",
    "StateTotal",
    "Totals",
    "TypeTotal",
    "explain",
    "make_report",
    "require_whole",
]
