"""What would change if a backend had an op, or if a backend were not there. Nothing is compiled.

asked = Asked(plan=..., graph=..., answers=..., settle=...)
what_if(asked, support=[("aten.native_group_norm", "npu")]) -> Comparison
ranked(asked) -> the operators whose support would merge most delegates
"""

from cede.whatif.ask import what_if
from cede.whatif.rank import ranked
from cede.whatif.records import Asked, Comparison, Rank
from cede.whatif.show import comparison_json, ranking_text

__all__ = [
    "Asked",
    "Comparison",
    "Rank",
    "comparison_json",
    "ranked",
    "ranking_text",
    "what_if",
]
