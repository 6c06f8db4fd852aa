"""Calls to calibrate with: from an iterable, a function, or a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cede.errors import ConfigError
from cede.types import Inputs, inputs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Calibration = Iterable[Any] | Callable[[], Iterable[Any]] | Path | str


def calls(given: Calibration, example: Inputs) -> tuple[Iterator[Inputs], int | None]:
    """The calls, checked one by one against the example inputs, and how many if that is known.

    Args:
        given: calls, a function that gives them, or a file: `.pt` holds a list of calls, `.npz`
            one array an input, [calls, *shape of the input]: of the name of a keyword input, or in
            the order of the positional ones. A call is a tuple of positional inputs, or the input
            itself where there is one; a dict of keyword inputs; or `Inputs`. What it leaves out
            (keyword inputs beside a tuple, positional ones beside a dict) is as in the example.
        example: example inputs.

    Raises:
        ConfigError: a file that can't be read or used; while iterating: a call that does not fit.
    """
    found: Any
    if isinstance(given, (str, Path)):
        found, where = _from_file(Path(given), example), str(given)
    else:
        found, where = (given() if callable(given) else given), "calibration"
    try:
        total = len(found)
    except TypeError:
        total = None
    return _checked(found, example, where), total


def _checked(found: Iterable[Any], example: Inputs, where: str) -> Iterator[Inputs]:
    number = -1
    for number, entry in enumerate(found):
        call = inputs_of(entry, example.kwargs)
        if isinstance(entry, Mapping):
            call = Inputs(args=example.args, kwargs={**example.kwargs, **call.kwargs})
        if wrong := _wrong(call, example):
            raise ConfigError(f"{where}: call {number}: {wrong}")
        yield call
    if number < 0:
        raise ConfigError(f"{where}: has no calls to calibrate with")


def _wrong(call: Inputs, example: Inputs) -> str:
    if len(call.args) != len(example.args):
        beside = " beside keywords" if example.kwargs else ""
        return f"has {len(call.args)} inputs, the model takes {len(example.args)}{beside}"
    if strange := call.kwargs.keys() ^ example.kwargs.keys():
        known = ", ".join(example.kwargs) or "none"
        return f"keywords {', '.join(sorted(strange))}: the example's are {known}"
    pairs: dict[int | str, tuple[Any, Any]] = {
        **dict(enumerate(zip(call.args, example.args, strict=True))),
        **{name: (value, example.kwargs[name]) for name, value in call.kwargs.items()},
    }
    return next(filter(None, (_unlike(at, *pair) for at, pair in pairs.items())), "")


def _unlike(at: int | str, value: Any, example: Any) -> str:
    if not isinstance(example, torch.Tensor):
        return ""
    if not isinstance(value, torch.Tensor):
        return f"input {at} is {type(value).__name__}, not a tensor"
    if value.dtype != example.dtype or value.dim() != example.dim():
        return f"input {at} is {_told(value)}, the model takes {_told(example)}"
    if value.is_floating_point() and not bool(value.isfinite().all()):
        return f"input {at} has infinities or NaN"
    return ""


def _told(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


def _from_file(path: Path, example: Inputs) -> Sequence[Any]:
    if path.suffix not in (".pt", ".npz"):
        raise ConfigError(f"{path}: calibration data is a .pt or .npz file")
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    try:
        return _from_pt(path) if path.suffix == ".pt" else _from_npz(path, example)
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


def _from_npz(path: Path, example: Inputs) -> Sequence[Inputs]:
    import numpy as np

    # Opened here: numpy leaves a damaged file open.
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    named = [name for name in arrays if name in example.kwargs]
    if len(arrays) - len(named) != len(example.args):
        names = ", ".join(arrays) or "none"
        wanted = f"{len(example.args)} inputs"
        if example.kwargs:
            wanted += f" beside {', '.join(example.kwargs)}"
        raise ConfigError(f"{path}: has arrays {names}; the model takes {wanted}")
    counts = {name: len(array) if array.dim() else 0 for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise ConfigError(
            f"{path}: the first dimension is the calls, and differs:"
            f" {', '.join(f'{name} has {count}' for name, count in counts.items())}"
        )
    return [
        Inputs(
            args=tuple(array[i] for name, array in arrays.items() if name not in named),
            kwargs={**example.kwargs, **{name: arrays[name][i] for name in named}},
        )
        for i in range(min(counts.values(), default=0))
    ]
