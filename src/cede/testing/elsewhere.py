"""Asks about bundled programs in a process of its own: `python -m cede.testing.elsewhere`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.testing.conformance import Conformance


def answers_elsewhere(of: type[Conformance], names: Sequence[str]) -> dict[str, list[str]]:
    """The answers about bundled programs under another `PYTHONHASHSEED`, as sorted text.

    Raises:
        RuntimeError: the process failed; has its last lines.
    """
    asked = {
        "backend": of.backend,
        "partitioner": of.partitioner,
        "plugin": None if of.plugin is None else str(of.plugin),
        "options": dict(of.options),
        "seconds": of.seconds,
        "names": list(names),
    }
    done = subprocess.run(
        [sys.executable, "-m", "cede.testing.elsewhere"],
        input=json.dumps(asked),
        env={
            **os.environ,
            "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError("\n".join(done.stderr.strip().splitlines()[-5:]))
    found: dict[str, list[str]] = json.loads(done.stdout.rpartition("\n")[2])
    return found


def _answers(asked: dict[str, Any]) -> dict[str, list[str]]:
    from cede.testing.checks import spelled
    from cede.testing.samples import SAMPLES
    from cede.testing.subject import Case, Subject

    names = asked.pop("names")
    subject = Subject(**asked)
    cases = {name: Case(subject, name, SAMPLES[name]) for name in names}
    return {
        name: [text for one in case.asked for text in spelled(one.answers)]
        for name, case in cases.items()
    }


if __name__ == "__main__":
    given = json.load(sys.stdin)
    sys.stdout.write("\n" + json.dumps(_answers(given)))
