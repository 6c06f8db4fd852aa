"""What may stand in a config, with types, defaults and bounds."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cede.config.selectors import SelectorConfig, selects, selects_for_all, selects_for_backend
from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _one_of(words: Sequence[str]) -> Callable[[str], str]:
    def check(word: str) -> str:
        return "" if word in words else f"is {word!r}; {suggestion(word, words)}"

    return check


FALLBACK = ("ignore", "warn", "error")


FAILED = ("leave", "error")


COUNT = {"least": 0}
SECONDS = {"above": 0, "most": threading.TIMEOUT_MAX}
ROOFLINE = "roofline"
"""What `Config.costs` says for the default costs."""

TOLERANCE = {"least": 0}


@dataclass(kw_only=True)
class LimitsConfig:
    """Bounds on one backend's delegates; null keeps the backend's own."""

    min_ops: int | None = field(default=None, metadata=COUNT)
    max_ops: int | None = field(default=None, metadata=COUNT)
    min_bytes: int | None = field(default=None, metadata=COUNT)
    max_bytes: int | None = field(default=None, metadata=COUNT)
    max_delegates: int | None = field(default=None, metadata=COUNT)


@dataclass(kw_only=True)
class PolicyConfig:
    """Rules of the user over everything that partitioners claim.

    Attributes:
        exclude: ops that no backend, or not the one named, may have.
        pin: ops that only the backend named may have; one that it does not get is an error.
        require: ops that must be in a delegate, of the backend named if any, else an error.
        fallback: what becomes of ops that end outside every delegate: "ignore", "warn", "error".
        fallback_for: the ops that `fallback` is about; empty means all.
        max_claims: only so many claims stand, in order of priority and graph; None is no bound.
        min_ops: bound on the delegates of all backends.
        max_delegates: bound on the delegates of all backends together.
    """

    exclude: list[SelectorConfig] = field(default_factory=list, metadata={"each": selects})
    pin: list[SelectorConfig] = field(default_factory=list, metadata={"each": selects_for_backend})
    require: list[SelectorConfig] = field(default_factory=list, metadata={"each": selects})
    fallback: str = field(default="ignore", metadata={"check": _one_of(FALLBACK)})
    fallback_for: list[SelectorConfig] = field(
        default_factory=list, metadata={"each": selects_for_all}
    )
    max_claims: int | None = field(default=None, metadata=COUNT)
    min_ops: int | None = field(default=None, metadata=COUNT)
    max_delegates: int | None = field(default=None, metadata=COUNT)


MISMATCH = ("error", "skip", "pad", "smaller")


SCALES = ("absmax", "fitted")


def _selector(text: str) -> str:
    try:
        SelectorConfig.read(text)
    except ValueError as error:
        return str(error)
    return ""


@dataclass(kw_only=True)
class LayerConfig:
    """A rule for some modules, which goes before the modes for all; the last that matches stands.

    Attributes:
        select: which modules, as a selector's short form: by "module" path, "regex" over it, "op"
            ("aten.linear", "aten.embedding") or "dtype" of the weight.
        mode: as `QuantizeConfig.mode`, or BITS,GROUP for embeddings; with `pt2e`, as `pt2e_mode`
            and about ops; "none" leaves them.
        group_size: as `QuantizeConfig.group_size`.
    """

    select: str = field(metadata={"check": _selector})
    mode: str = "none"
    group_size: int | None = field(default=None, metadata=COUNT)


@dataclass(kw_only=True)
class QuantizeConfig:
    """In which numbers a model computes: rewritten in its source, or annotated once exported.

    Attributes:
        pt2e: the quantizer of a backend that annotates the exported program, several joined by
            commas, or "auto" for those of the backends; goes with `layers` and the four keys
            below, not with the others.
        pt2e_mode: "static", "dynamic" or "weight-only", as far as the quantizer has it.
        per_channel: whether weights have one scale a channel, else one in all.
        calibration: a `.pt` or `.npz` file of calls, relative to the config file (`load_config`
            makes it absolute), or "file.py:function" that gives them.
        guided: whether the float program is planned first, so that each quantizer annotates only
            what its backend gets.
        mode: of linear modules: "int8" and "4w" (weights only), "8da8w" and "8da4w" (activations
            in int8 as well), "torchao:8daNw"; empty leaves them.
        group_size: how many inputs share a scale, for 4 bits; 0 is all of a row.
        embedding: of embedding modules: "BITS,GROUP", such as "4,32"; empty leaves them.
        scales: of groups in 4 bits: "absmax", from the largest weight, as torchao has them, or
            "fitted", searched for least squared error, weighed by the inputs in `calibration`.
        on_mismatch: what becomes of modules whose columns the group size doesn't divide: "error",
            "skip" (left), "pad" (by zeros) or "smaller" (the next smaller group that fits).
        layers: rules for some modules.
    """

    mode: str = ""
    group_size: int | None = field(default=None, metadata=COUNT)
    embedding: str = ""
    on_mismatch: str = field(default="error", metadata={"check": _one_of(MISMATCH)})
    scales: str = field(default="absmax", metadata={"check": _one_of(SCALES)})
    layers: list[LayerConfig] = field(default_factory=list)
    pt2e: str = ""
    pt2e_mode: str = "static"
    per_channel: bool = True
    calibration: str = ""
    guided: bool = True


@dataclass(kw_only=True)
class PluginsConfig:
    """Which plugins are loaded.

    Attributes:
        files: local `.py` plugins, relative to the config file; one that fails is fatal.
            `load_config` makes them absolute.
        disable: distributions whose plugins are left out.
        prefer: for a name that two distributions bring, the distribution that wins.
        strict: whether any plugin that fails is fatal.
        seconds: how long one plugin may take to load.
    """

    files: list[str] = field(default_factory=list)
    disable: list[str] = field(default_factory=list)
    prefer: dict[str, str] = field(default_factory=dict)
    strict: bool = False
    seconds: float = field(default=30.0, metadata=SECONDS)


@dataclass(kw_only=True)
class CheckConfig:
    """How `--check` compares with eager: |program - eager| <= atol + rtol * |eager|."""

    atol: float = field(default=1e-4, metadata=TOLERANCE)
    rtol: float = field(default=1e-4, metadata=TOLERANCE)


@dataclass(kw_only=True)
class LoweringConfig:
    """How a plan is lowered.

    Attributes:
        failed: what becomes of an op that a backend's compiler fails on: "leave" gives it to the
            next backend that takes it, or to none, with a warning; "error" stops.
        compile_seconds: how long compiling one delegate may take, in a process of its own (Linux);
            one that takes longer, takes more memory or dies has failed. None is no limit; without
            limits delegates are compiled in this process.
        compile_bytes: memory that compiling one delegate may take beyond what this process has.
        stock: whether ExecuTorch's own steps run as they are; otherwise with less work for the
            same outcome, as far as its version is known.
        cache: whether programs and delegates are kept for the next lowering, and taken from there.
        cache_folder: where, relative to the config file (`load_config` makes it absolute); empty is
            CEDE_CACHE, or a folder in the user's cache.
        cache_bytes: what all of them may take; those used longest ago go first.
        external_weights: whether constants go to a data file (`.ptd`) beside the program, but for
            those of an adapter.
        adapter_weights: names of the constants that are an adapter's, as a glob ("*.lora_[ab].*").
        external_adapters: whether these go to a data file of their own.
    """

    failed: str = field(default="leave", metadata={"check": _one_of(FAILED)})
    compile_seconds: float | None = field(default=None, metadata=SECONDS)
    compile_bytes: int | None = field(default=None, metadata={"above": 0})
    stock: bool = False
    cache: bool = True
    cache_folder: str = ""
    cache_bytes: int = field(default=4 * 2**30, metadata=COUNT)
    external_weights: bool = False
    adapter_weights: str = ""
    external_adapters: bool = False


@dataclass(kw_only=True)
class Config:
    """Everything that decides a plan.

    Attributes:
        backends: backend names in priority order; the first that claims an op gets it.
        partitioners: partitioner names in priority order; empty takes all of those backends.
        options: per backend, checked against the backend's own options.
        limits: per backend.
        quantize: in which numbers a model computes; for models, not for exported programs.
        policy: which ops may, must or must not go where, whatever is claimed.
        settle: how rivals are settled: "priority" or "cost".
        costs: what predictions are made from: a profile of `cede calibrate`, relative to the
            config file (`load_config` makes it absolute); "roofline" for the defaults; empty for
            the defaults in cost mode and for no predictions otherwise.
        strict: whether a silent loss (an op left, a plugin failed) is an error.
        seconds: how long one partitioner may take to answer.
        plugins: which plugins are loaded.
        check: tolerances.
        lowering: how the plan is lowered.
        origins: where keys came from, for messages: dotted path -> file or "override". Not a key
            of the YAML; `load_config` sets it.
    """

    backends: list[str] = field(default_factory=list)
    partitioners: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, LimitsConfig] = field(default_factory=dict)
    quantize: QuantizeConfig = field(default_factory=QuantizeConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    settle: str = "priority"
    costs: str = ""
    strict: bool = False
    seconds: float = field(default=120.0, metadata=SECONDS)
    plugins: PluginsConfig = field(default_factory=PluginsConfig)
    check: CheckConfig = field(default_factory=CheckConfig)
    lowering: LoweringConfig = field(default_factory=LoweringConfig)
    origins: dict[str, str] = field(
        default_factory=dict, compare=False, repr=False, metadata={"key": False}
    )

    def origin(self, path: str) -> str:
        """Where the value at a dotted path came from: the origin of its nearest parent."""
        while path and path not in self.origins:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.origins.get(path, "config")
