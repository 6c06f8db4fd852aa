"""The report, made from a plan and its facts: who took or left each op and why, with totals."""

from cede.reporting.advice import Advice
from cede.reporting.comparison import Comparison, Rank
from cede.reporting.content import Coverage, Kernel, SharedConstant
from cede.reporting.data import json_schema
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
    "Advice",
    "Answer",
    "Comparison",
    "Coverage",
    "DelegateTotal",
    "Kernel",
    "LargeValue",
    "MemoryUse",
    "ModuleTotal",
    "Outcome",
    "Rank",
    "Report",
    "Row",
    "SharedConstant",
    "StateTotal",
    "Totals",
    "TypeTotal",
    "explain",
    "json_schema",
    "make_report",
    "require_whole",
]
