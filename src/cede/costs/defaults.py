"""Costs where no profile was measured: rooflines, from data files."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from cede.costs.fields import Node, rates_of
from cede.errors import ConfigError
from cede.files import read_text
from cede.types import Costs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from cede.types import Rates

UNKNOWN = "unknown"
"""The name of the rates of a backend that tells none."""


def read_rates(file: Traversable | Path) -> Rates:
    """Rates from a YAML file with the fields of `Rates`, as a backend's plugin brings them.

    Raises:
        ConfigError: the file can't be read, is no YAML, or a field is missing or wrong; names the
            file and the field.
    """
    return rates_of(Node(_read(file), "$", str(file)))


def default_costs(backends: Mapping[str, Rates | None]) -> Costs:
    """Costs from the fallback's own rates and those of backends.

    Args:
        backends: rates by backend name; one with None gets those named `UNKNOWN`.
    """
    file = files("cede.costs") / "rates.yaml"
    root = Node(_read(file), "$", str(file))
    known = {key: rates_of(Node(root.get(key), f"$.{key}", str(file))) for key in root.value}
    return Costs(
        fallback=known["fallback"],
        backends={name: rates or known[UNKNOWN] for name, rates in backends.items()},
    )


def _read(file: Traversable | Path) -> object:
    import yaml

    text = read_text(file)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: not YAML: {str(error).splitlines()[0]}") from None
