"""Conformance tests for plugins: derive a class from `Conformance` in a test file.

pytest collects the class like any other, so there is no plugin to register: nothing of cede is
imported by the pytest of another project. Needs pytest.
"""

from cede.testing.conformance import Conformance
from cede.testing.sample import Sample
from cede.testing.samples import SAMPLES

__all__ = ["SAMPLES", "Conformance", "Sample"]
