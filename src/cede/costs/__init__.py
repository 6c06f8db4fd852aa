"""Costs: seconds of computing an op, of crossing a border, and of launching a delegate."""

from cede.costs.defaults import UNKNOWN, default_costs, read_rates
from cede.costs.model import CostModel, Value, moved_bytes
from cede.costs.predict import DelegatePrediction, Prediction, predicted
from cede.costs.profile import SCHEMA, Profile, Skipped, load_profile, read_profile, write_profile
from cede.costs.spell import seconds
from cede.costs.timing import Timing

__all__ = [
    "SCHEMA",
    "UNKNOWN",
    "CostModel",
    "DelegatePrediction",
    "Prediction",
    "Profile",
    "Skipped",
    "Timing",
    "Value",
    "default_costs",
    "load_profile",
    "moved_bytes",
    "predicted",
    "read_profile",
    "read_rates",
    "seconds",
    "write_profile",
]
