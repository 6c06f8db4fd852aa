"""`cede run`."""

from __future__ import annotations

import json
import re
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cede.cli import options
from cede.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.running.signature import Signature, ValueMeta

SEED = 0
SHOWN = 6


@click.command(short_help="Run a .pte; print outputs and time.")
@click.argument("program", type=click.Path(path_type=Path))
@click.option(
    "--inputs",
    "inputs_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file of torch.save: a tensor, a tuple, a list, or a dict by number.",
)
@click.option("--like", metavar="MODEL", help="Take the example inputs of this model.")
@click.option("--ones", is_flag=True, help="Inputs of ones, shaped as the method says (default).")
@click.option("--random", is_flag=True, help="Random inputs, the same on every run.")
@options.weights_files
@click.option("--method", default="forward", show_default=True, help="The method to call.")
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How often to call it; the outputs are those of the first call.",
)
@click.option("--full", is_flag=True, help="Print every number of the outputs.")
@options.form("text", "json")
@options.output("Write to this file instead of printing.")
def run(
    program: Path,
    inputs_file: Path | None,
    like: str | None,
    ones: bool,
    random: bool,
    weights: tuple[Path, ...],
    method: str,
    repeat: int,
    full: bool,
    form: str,
    output: Path | None,
) -> None:
    """Run PROGRAM, a .pte file, and print its outputs, the time to load and the median of a call.

    It runs in ExecuTorch's runtime, or in the runner of a backend that this runtime lacks. State
    lives from one call to the next.
    """
    options.writable(output)
    if sum(map(bool, (inputs_file, like, ones, random))) > 1:
        raise ConfigError("give one of --inputs, --like, --ones and --random")
    inputs: Sequence[Any]
    if inputs_file is not None:
        inputs = _from_file(inputs_file)
    elif like is not None:
        from cede.model import load_model

        inputs = load_model(like).inputs
    else:
        inputs = _made(_signature(program, method), random)
    outputs, load_seconds, seconds = _timed(program, weights, inputs, method, repeat)
    if form == "json":
        text = _json(outputs, load_seconds, seconds, full)
    else:
        text = _text(outputs, load_seconds, seconds, full)
    options.give(text, output)


def _signature(program: Path, method: str) -> Signature:
    from cede.running.pte import read_file
    from cede.running.signature import signature_of

    return signature_of(read_file(program), method)


def _timed(
    program: Path, weights: tuple[Path, ...], inputs: Sequence[Any], method: str, repeat: int
) -> tuple[list[Any], float, list[float]]:
    """Outputs of the first call, seconds to load, seconds of each call."""
    # importing ExecuTorch takes longer than loading a program: it must not count
    import cede.running.runtime  # noqa: F401
    from cede.host import Host
    from cede.running import load

    backends = Host.load().backends
    begin = time.perf_counter()
    loaded = load(program, backends, weights)
    # a runner may load a method ahead of its first call; that is no part of the call's time
    if (prepare := getattr(loaded, "load", None)) is not None:
        prepare(method)
    load_seconds = time.perf_counter() - begin
    outputs: list[Any] = []
    seconds = []
    for i in range(repeat):
        begin = time.perf_counter()
        got = loaded.run(inputs, method)
        seconds.append(time.perf_counter() - begin)
        if i == 0:
            outputs = [_copied(value) for value in got]
    return outputs, load_seconds, seconds


def _copied(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value


def _from_file(path: Path) -> list[Any]:
    import warnings

    import torch
    from torch.utils._pytree import tree_leaves

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it warns of is the format; the error tells that
            found = torch.load(path, weights_only=True)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror or error}") from None
    except Exception as error:  # a file of anything may raise anything
        other = re.search(r"GLOBAL (\S+)", str(error))
        why = f" (it holds {other[1]})" if other else ""
        raise ConfigError(
            f"{path}: no tensors of torch.save{why}; write it with torch.save((input, ...), file)"
        ) from None
    return list(tree_leaves(_in_order(path, found)))


def _in_order(path: Path, found: Any) -> Any:
    """Inputs of a dict in order of its keys 0, 1, ...: a method's inputs have no names."""
    if not isinstance(found, dict):
        return found
    if set(found) != set(range(len(found))):
        keys = ", ".join(map(str, found))
        raise ConfigError(
            f"{path}: a dict with keys {keys}, but inputs of a .pte have no names; save a tuple in"
            " the order that the method takes them, or use keys 0, 1, ..."
        )
    return [found[i] for i in range(len(found))]


def _made(signature: Signature, random: bool) -> list[Any]:
    import torch

    generator = torch.Generator().manual_seed(SEED)
    return [_value(meta, generator if random else None) for meta in signature.inputs]


def _value(meta: ValueMeta, generator: Any) -> Any:
    import torch

    if meta.dtype is None:
        return None if meta.number is None or meta.number is type(None) else meta.number(1)
    if generator is None:
        return torch.ones(meta.shape, dtype=meta.dtype)
    if meta.dtype.is_floating_point or meta.dtype.is_complex:
        real = torch.complex64 if meta.dtype.is_complex else torch.float32
        return torch.randn(meta.shape, generator=generator, dtype=real).to(meta.dtype)
    # 0 and 1 are indices, token ids and flags of almost every model
    return torch.randint(0, 2, meta.shape, generator=generator).to(meta.dtype)


def _text(outputs: list[Any], load_seconds: float, seconds: list[float], full: bool) -> str:
    lines = [f"output {i}: {_shown(value, full)}" for i, value in enumerate(outputs)]
    median = statistics.median(seconds)
    calls = f"median of {len(seconds)} calls" if len(seconds) > 1 else "call"
    lines.append(f"load {load_seconds * 1e3:.2f} ms, {calls} {median * 1e3:.3f} ms")
    return "\n".join(lines) + "\n"


def _json(outputs: list[Any], load_seconds: float, seconds: list[float], full: bool) -> str:
    data = {
        "outputs": [_data(value, full) for value in outputs],
        "load_seconds": load_seconds,
        "median_seconds": statistics.median(seconds),
        "calls": len(seconds),
    }
    return json.dumps(data, indent=1) + "\n"


def _type(value: Any) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]"


def _shown(value: Any, full: bool) -> str:
    if not hasattr(value, "dtype"):
        return repr(value)
    if full:
        return f"{_type(value)} {value.tolist()}"
    flat = value.flatten()[:SHOWN].tolist()
    numbers = ", ".join(f"{n:.6g}" if isinstance(n, float) else str(n) for n in flat)
    return f"{_type(value)} [{numbers}{', ...' if value.numel() > SHOWN else ''}]"


def _data(value: Any, full: bool) -> Any:
    if not hasattr(value, "dtype"):
        return {"value": value}
    data: dict[str, Any] = {
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
    }
    if full:
        data["data"] = value.tolist()
    else:
        data["first"] = value.flatten()[:SHOWN].tolist()
    return data
