"""The report, made from a plan and its facts: who took or left each op and why, with totals."""

from cede.report.explain import explain
from cede.report.make import make_report
from cede.report.records import (
    Answer,
    DelegateTotal,
    ModuleTotal,
    Outcome,
    Report,
    Row,
    Totals,
    TypeTotal,
)
from cede.report.strict import require_whole

__all__ = [
    "Answer",
    "DelegateTotal",
    "ModuleTotal",
    "Outcome",
    "Report",
    "Row",
    "Totals",
    "TypeTotal",
    "explain",
    "make_report",
    "require_whole",
]
