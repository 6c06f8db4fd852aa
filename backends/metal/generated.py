"""The files that ExecuTorch's MLX compiler is generated from its schema, where a wheel lacks them.

Wheels for other systems than macOS hold the schema (`schema.fbs`), the generator (`generate.py`)
and the flatbuffer compiler (`data/bin/flatc`), but not what they make. It is made here into a
folder of the user's cache, once for each version of executorch, and the import system is told to
look there first. Nothing is written into the installation.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, module_from_spec
from pathlib import Path

from cede.backends.coreml.here import executorch_folder
from cede.errors import PluginError

PACKAGE = "executorch.backends.mlx"
_SCHEMA = "mlx_graph_schema.py"
_INSPECTOR = "_generated_inspector.py"
_SOURCES = ("schema.fbs", "generate.py", "__init__.py", "mlx_graph_serialize.py")
_NEEDED = (
    "__init__.py",
    _SCHEMA,
    "_generated_serializers.py",
    "_generated/mlx_delegate/MLXGraph.py",
)


def lacking() -> str | None:
    """Why the MLX compiler can't be had here, None if it is there or can be made.

    Imports nothing, runs nothing and writes nothing.
    """
    root = executorch_folder()
    if root is None:
        return "executorch is not installed: pip install executorch"
    folder = root / "backends" / "mlx" / "serialization"
    if (folder / _SCHEMA).is_file():
        return None
    for path in (*(folder / name for name in _SOURCES), _flatc(root)):
        if not path.is_file():
            return (
                f"this build of executorch lacks MLX's generated files, and {path} to make them: "
                "install the wheel of executorch 1.5 or newer, or build executorch from source"
            )
    return None


def import_mlx() -> None:
    """Import ExecuTorch's MLX compiler; make its generated files first where they are missing.

    Raises:
        PluginError: it can't be had here, or its files can't be made; says what to do.
    """
    if PACKAGE in sys.modules:
        return
    if (why := lacking()) is not None:
        raise PluginError(f"metal: {why}")
    root = executorch_folder()
    spec = find_spec(PACKAGE)
    if root is None or spec is None or spec.loader is None:
        raise PluginError(f"metal: {PACKAGE} can't be found in this build of executorch")
    if not (root / "backends" / "mlx" / "serialization" / _SCHEMA).is_file():
        # The package itself stays where it is; its submodules are looked for in the cache first.
        (spec.submodule_search_locations or []).insert(0, str(ensure(root)))
    module = module_from_spec(spec)
    sys.modules[PACKAGE] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(PACKAGE, None)
        raise
    outer, _, name = PACKAGE.rpartition(".")
    setattr(sys.modules[outer], name, module)


def cache_folder(root: Path) -> Path:
    """Where the files are kept for the executorch in `root`, by version and content of sources."""
    try:
        release = version("executorch")
    except PackageNotFoundError:  # a build that is on the path and not installed
        release = "unknown"
    digest = hashlib.sha256()
    for name in _SOURCES:
        digest.update((root / "backends" / "mlx" / "serialization" / name).read_bytes())
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return home / "cede" / "mlx" / f"{release}-{digest.hexdigest()[:16]}"


def ensure(root: Path) -> Path:
    """The folder with MLX's `serialization` package, complete; made now if it isn't there.

    Several processes may ask at once: each makes its own, the first to finish is kept.

    Args:
        root: where executorch is installed.

    Raises:
        PluginError: the folder can't be written, or the generator failed.
    """
    place = cache_folder(root)
    if _complete(place):
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".making-", dir=place.parent))
    except OSError as error:
        raise PluginError(
            f"metal: MLX's generated files can't be kept under {place.parent}: "
            f"{error.strerror or error}; set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    try:
        _generate(root, made)
        _put(made, place)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return place


def _generate(root: Path, into: Path) -> None:
    """Run ExecuTorch's generator on copies, so that what it writes stands beside them."""
    source, package = root / "backends" / "mlx" / "serialization", into / "serialization"
    for folder in (package, into / "runtime"):
        folder.mkdir()
    for name in _SOURCES:
        shutil.copyfile(source / name, package / name)
    for name in ("MLXLoader.h.tmpl", "MLXLoader.cpp.tmpl"):  # for C++, which nobody needs here
        (package / name).touch()
    command = [sys.executable, "-I", str(package / "generate.py"), "--flatc", str(_flatc(root))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        said = f"{done.stdout}\n{done.stderr}"
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    if not _complete(into):
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "no message")
        by_hand = f"{sys.executable} {source / 'generate.py'} --flatc {_flatc(root)}"
        raise PluginError(
            f"metal: executorch's generator could not make MLX's files: {last.strip()}; "
            f"see what it says with: {by_hand} (it writes beside itself)"
        )
    shutil.rmtree(into / "runtime")


def _put(made: Path, place: Path) -> None:
    """Move a complete folder to its place, in one step."""
    if place.is_dir() and not _complete(place):  # someone cleaned the cache, but not all of it
        with suppress(OSError):
            os.replace(place, made.with_name(f"{made.name}-old"))
        shutil.rmtree(made.with_name(f"{made.name}-old"), ignore_errors=True)
    try:
        os.replace(made, place)
    except OSError as error:
        if not _complete(place):
            raise PluginError(f"metal: {place} can't be made: {error.strerror or error}") from error


def _complete(folder: Path) -> bool:
    inside = all((folder / "serialization" / name).is_file() for name in _NEEDED)
    return inside and (folder / _INSPECTOR).is_file()


def _flatc(root: Path) -> Path:
    return root / "data" / "bin" / ("flatc.exe" if sys.platform == "win32" else "flatc")
