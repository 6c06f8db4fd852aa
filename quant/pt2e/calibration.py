"""Calls to calibrate with: from an iterable, a function, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cede.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Calibration = Iterable[Any] | Callable[[], Iterable[Any]] | Path | str


def calls(given: Calibration, args: Sequence[Any]) -> tuple[Iterator[tuple[Any, ...]], int | None]:
    """The calls, checked one by one against the example inputs, and how many if that is known.

    Args:
        given: calls, a function that gives them, or a file: `.pt` holds a list of calls, `.npz`
            one array an input in the inputs' order, [calls, *shape of the input]. A call is a tuple
            of inputs, or the input itself where there is one.
        args: example inputs.

    Raises:
        ConfigError: a file that can't be read or used; while iterating: a call that does not fit.
    """
    found: Any
    if isinstance(given, (str, Path)):
        found, where = _from_file(Path(given), args), str(given)
    else:
        found, where = (given() if callable(given) else given), "calibration"
    try:
        total = len(found)
    except TypeError:
        total = None
    return _checked(found, args, where), total


def _checked(found: Iterable[Any], args: Sequence[Any], where: str) -> Iterator[tuple[Any, ...]]:
    number = -1
    for number, entry in enumerate(found):
        call = tuple(entry) if isinstance(entry, (tuple, list)) else (entry,)
        if wrong := _wrong(call, args):
            raise ConfigError(f"{where}: call {number}: {wrong}")
        yield call
    if number < 0:
        raise ConfigError(f"{where}: has no calls to calibrate with")


def _wrong(call: tuple[Any, ...], args: Sequence[Any]) -> str:
    if len(call) != len(args):
        return f"has {len(call)} inputs, the model takes {len(args)}"
    for i, (value, example) in enumerate(zip(call, args, strict=True)):
        if not isinstance(example, torch.Tensor):
            continue
        if not isinstance(value, torch.Tensor):
            return f"input {i} is {type(value).__name__}, not a tensor"
        if value.dtype != example.dtype or value.dim() != example.dim():
            return f"input {i} is {_told(value)}, the model takes {_told(example)}"
        if value.is_floating_point() and not bool(value.isfinite().all()):
            return f"input {i} has infinities or NaN"
    return ""


def _told(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


def _from_file(path: Path, args: Sequence[Any]) -> Sequence[Any]:
    if path.suffix not in (".pt", ".npz"):
        raise ConfigError(f"{path}: calibration data is a .pt or .npz file")
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    try:
        return _from_pt(path) if path.suffix == ".pt" else _from_npz(path, len(args))
    except ConfigError:
        raise
    except Exception as error:  # torch and numpy raise a dozen classes
        first = (str(error).splitlines() or [""])[0]
        raise ConfigError(f"{path}: can't be read: {type(error).__name__}: {first}") from error


def _from_pt(path: Path) -> Sequence[Any]:
    found = torch.load(path, weights_only=True)
    if not isinstance(found, (list, tuple)):
        raise ConfigError(
            f"{path}: holds {type(found).__name__}; give a list of calls, each a tuple of inputs"
        )
    return found


def _from_npz(path: Path, inputs: int) -> Sequence[Any]:
    import numpy as np

    # Opened here: numpy leaves a damaged file open.
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    if len(arrays) != inputs:
        names = ", ".join(arrays) or "none"
        raise ConfigError(f"{path}: has arrays {names}; the model takes {inputs} inputs")
    counts = {name: len(array) if array.dim() else 0 for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise ConfigError(
            f"{path}: the first dimension is the calls, and differs:"
            f" {', '.join(f'{name} has {count}' for name, count in counts.items())}"
        )
    return list(zip(*arrays.values(), strict=True))
