"""Mixed precision: which module in which numbers, for a stated error with few bytes."""

from __future__ import annotations

import glob
import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from cede.config import LayerConfig, QuantizeConfig
from cede.errors import ConfigError
from cede.quant.source.layers import Layer, layers
from cede.quant.source.scheme import Scheme
from cede.quant.source.suggestion import SuggestedRow, Suggestion
from cede.quant.source.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torch import Tensor, nn

    from cede.quant.calls import Call

CANDIDATES = ("8da8w", "8da4w", "8,0", "4,32", "2,32")
"""What is tried where nothing is named: what ExecuTorch's CPU kernels compute in one step."""


@dataclass(frozen=True, slots=True)
class _Option:
    """One way for the modules that share a weight.

    Attributes:
        layers: those that are quantized, and how.
        error: of the model with these alone.
        nbytes: of the weight, in all the numbers that it is stored in.
    """

    layers: tuple[Layer, ...]
    error: float
    nbytes: int


def suggest_quantization(
    model: nn.Module,
    calls: Iterable[Call],
    error: float,
    candidates: Sequence[str] = CANDIDATES,
    config: QuantizeConfig | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Suggestion:
    """Rules for a config that keep the outputs within an error, with the fewest bytes found.

    Each candidate is tried on each module alone; modules that share a weight change together. Then
    a greedy descent from float: the next step is the one that adds least squared error for each
    byte that it saves, as if squared errors of modules added up. The longest start of it that
    measures within the error is found by bisection, and each later step is tried once on top of
    that. What is returned was measured as a whole, as `quantize_model` makes it.

    Its limits: errors do not quite add up, so a smaller mix may exist; and the error is that on
    these calls. The model runs up to 2 x modules x candidates times. Float weights are not copied.

    Args:
        model: in float32 as far as it is quantized; it stays as it is, and runs in eval mode.
        calls: what each call is given: positional inputs, keyword inputs, or `Inputs`.
        error: the most that the outputs may be off: relative, in the L2 norm over all float outputs
            of all calls. 0.01 is 40 dB.
        candidates: modes, with a group size behind a colon if wanted ("8da4w:64"), and
            "BITS,GROUP" for embeddings. What a group size doesn't divide hasn't that candidate.
        config: whose rules with mode "none" name modules to leave; it has nothing else.
        kwargs: keyword inputs, for calls that have positional ones alone.

    Raises:
        ConfigError: no positive error, a candidate that can't be had, rules of another kind, or
            calls on which no error can be measured.
    """
    choices = _choices(model, error, candidates, config or QuantizeConfig())
    return _suggested(choices, error, Trials(model, calls, kwargs))


def _suggested(choices: list[list[Layer]], error: float, trials: Trials) -> Suggestion:
    units = [_options(unit, trials) for unit in _units(choices)]
    chosen = _lengthened(units, error, trials)
    picked = {layer.path: (layer, option) for option in chosen for layer in option.layers}
    rules = [_rule(picked[one.path][0]) for one in choices[0] if one.path in picked]
    config = QuantizeConfig(layers=rules)
    return Suggestion(
        target=error,
        error=trials.configured(config) if rules else 0.0,
        config=config,
        rows=tuple(_row(entry, picked) for entry in zip(*choices, strict=True)),
        bytes_before=sum(unit[0].nbytes for unit in units),
        bytes_after=sum(option.nbytes for option in chosen),
        runs=trials.runs,
    )


def _choices(
    model: nn.Module, error: float, candidates: Sequence[str], config: QuantizeConfig
) -> list[list[Layer]]:
    """For each candidate what it makes of every module."""
    if not error > 0 or not math.isfinite(error):
        raise ConfigError(f"the error is {error}; give a positive number, such as 0.01")
    given = [candidates] if isinstance(candidates, str) else candidates
    if not given:
        raise ConfigError("there are no candidates: give at least one, such as 8da4w")
    if config != QuantizeConfig(layers=config.layers) or any(
        rule.mode != "none" for rule in config.layers
    ):
        raise ConfigError(
            "a suggestion takes its modes from candidates: of the section quantize it takes layers"
            " with mode none, for modules to leave, and nothing else"
        )
    return [_choice(model, text, config) for text in given]


def _choice(model: nn.Module, text: str, config: QuantizeConfig) -> list[Layer]:
    """What a candidate makes of every module."""
    if "," in text:
        asked = QuantizeConfig(embedding=text, layers=config.layers, on_mismatch="skip")
    else:
        mode, _, group = text.rpartition(":")
        if not group.isdecimal():
            mode, group = text, ""
        asked = QuantizeConfig(
            mode=mode, group_size=int(group) if group else None, layers=config.layers,
            on_mismatch="skip",
        )  # fmt: skip
    return layers(model, asked)


def _units(choices: list[list[Layer]]) -> Iterator[list[tuple[Layer, ...]]]:
    """For each weight the modules that have it, each as every candidate makes it."""
    found: dict[int, list[tuple[Layer, ...]]] = {}
    for entry in zip(*choices, strict=True):
        found.setdefault(id(entry[0].module.weight), []).append(entry)
    yield from found.values()


def _options(unit: list[tuple[Layer, ...]], trials: Trials) -> list[_Option]:
    """All ways for the modules of a weight, measured; the first is float."""
    weight: Tensor = unit[0][0].module.weight  # type: ignore[assignment]
    size = weight.numel() * weight.element_size()
    kinds: dict[str, list[tuple[Layer, ...]]] = {}
    for entry in unit:
        kinds.setdefault(type(entry[0].module).__name__, []).append(entry)
    ways: list[list[tuple[Layer, ...]]] = []
    for members in kinds.values():
        by_candidate = zip(*members, strict=True)
        fit = [one for one in by_candidate if all(layer.scheme for layer in one)]
        ways.append([(), *fit])
    found = [_Option((), 0.0, size)]
    for way in product(*ways):
        if some := tuple(layer for part in way for layer in part):
            error, held = trials.run(some)
            found.append(_Option(some, error, held + (0 if len(some) == len(unit) else size)))
    return found


def _descent(units: list[list[_Option]]) -> list[tuple[int, _Option]]:
    """Steps from float, each the one that adds least squared error for each byte saved."""
    now = [unit[0] for unit in units]
    steps: list[tuple[int, _Option]] = []
    while True:
        best: tuple[float, int, int, _Option] | None = None
        for i, unit in enumerate(units):
            for option in unit:
                saved = now[i].nbytes - option.nbytes
                if saved > 0 and option.error < math.inf:
                    price = (option.error**2 - now[i].error ** 2) / saved
                    if best is None or (price, -saved) < best[:2]:
                        best = (price, -saved, i, option)
        if best is None:
            return steps
        now[best[2]] = best[3]
        steps.append(best[2:])


def _lengthened(units: list[list[_Option]], error: float, trials: Trials) -> list[_Option]:
    """The longest start of the descent within an error, and what fits on top of it."""
    steps = _descent(units)

    def state(count: int) -> list[_Option]:
        now = [unit[0] for unit in units]
        for i, option in steps[:count]:
            now[i] = option
        return now

    def fits(now: list[_Option]) -> bool:
        return trials.run([layer for one in now for layer in one.layers])[0] <= error

    good, bad = 0, len(steps) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(state(middle)) else (good, middle)
    now = state(good)
    for i, option in steps[good + 1 :]:
        tried = [*now[:i], option, *now[i + 1 :]]
        if option.error <= error and fits(tried):
            now = tried
    return now


def _rule(layer: Layer) -> LayerConfig:
    scheme = layer.scheme
    assert scheme is not None  # noqa: S101  (it was chosen)
    grouped = isinstance(scheme, Scheme) and (scheme.bits == 4 or scheme.kernels)
    # A comma stands between the fields of a selector.
    path = glob.escape(layer.path).replace(",", "?")
    return LayerConfig(
        select=f"module:{path}" if path else "op:*",
        mode=scheme.name,
        group_size=scheme.group if grouped else None,
    )


def _row(entry: tuple[Layer, ...], picked: dict[str, tuple[Layer, _Option]]) -> SuggestedRow:
    path = entry[0].path
    if path not in picked:
        notes = dict.fromkeys(one.note for one in entry if one.note not in ("", "no mode for it"))
        could = any(one.scheme for one in entry)
        note = "every candidate costs too much" if could else "; ".join(notes) or "no candidate"
        return SuggestedRow(module=path, note=note)
    layer, option = picked[path]
    tied = [one.path for one in option.layers if one.path != path]
    assert layer.scheme is not None  # noqa: S101  (it was chosen)
    return SuggestedRow(
        module=path,
        scheme=layer.scheme.name,
        group=layer.scheme.group,
        error=option.error,
        note=f"with {', '.join(tied)}" if tied else "",
    )
