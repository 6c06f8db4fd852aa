"""Two saved plans or reports side by side, and a report against what a project demands of it."""

from cede.diffing.diff import Diff, Moved, diff
from cede.diffing.gate import Demands, gate
from cede.diffing.saved import Saved, SavedOp, read_saved
from cede.diffing.show import counted, shown, shown_gate

__all__ = [
    "Demands",
    "Diff",
    "Moved",
    "Saved",
    "SavedOp",
    "counted",
    "diff",
    "gate",
    "read_saved",
    "shown",
    "shown_gate",
]
