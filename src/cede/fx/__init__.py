"""torch.fx's partitioners over cede's settling: same calls, linear time, the fewest partitions.

Importing this package imports torch.
"""

from cede.fx.capability import CapabilityPartitioner
from cede.fx.group import GroupPartitioner

__all__ = ["CapabilityPartitioner", "GroupPartitioner"]
