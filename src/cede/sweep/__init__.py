"""Many models by many configs, in parallel, into one table that survives a kill."""

from cede.sweep.engines import check_engine, rows_from
from cede.sweep.results import Results
from cede.sweep.row import Outcome, Row
from cede.sweep.settings import SweepConfig, read_sweep
from cede.sweep.show import parquet, shown
from cede.sweep.tasks import Task, tasks

__all__ = [
    "Outcome",
    "Results",
    "Row",
    "SweepConfig",
    "Task",
    "check_engine",
    "parquet",
    "read_sweep",
    "rows_from",
    "shown",
    "tasks",
]
