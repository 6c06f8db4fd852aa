"""ExecuTorch's import without its slowest second: a data file read by YAML's pure Python parser."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODULE = "executorch.exir.dialects.edge._ops"


class _Quick:
    """What that module uses of `ruamel.yaml.YAML`, by libyaml."""

    def __init__(self, **_: Any) -> None:
        pass

    def load(self, text: str) -> Any:
        import yaml

        return yaml.load(text, Loader=yaml.CSafeLoader)


@contextmanager
def _quick_yaml() -> Iterator[None]:
    import ruamel.yaml
    import yaml

    namespace = vars(ruamel.yaml)
    before = namespace["YAML"]
    if yaml.__with_libyaml__:
        namespace["YAML"] = _Quick
    try:
        yield
    finally:
        namespace["YAML"] = before


def import_executorch() -> None:
    """Import `executorch.exir`; nothing is left changed behind it."""
    if _MODULE in sys.modules:
        return
    try:
        with _quick_yaml():
            import executorch.exir.dialects.edge._ops  # noqa: F401
    except ImportError:
        return  # the caller's own import says what is wrong
