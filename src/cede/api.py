"""The Python face: everything in a row, or step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cede.config import Config, check_options, load_config
from cede.errors import ConfigError
from cede.host import Host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import torch
    from torch.export import ExportedProgram

    from cede.checking import Call, Check
    from cede.claim import Answers
    from cede.costs import Timing
    from cede.lowering import PlanPartitioner
    from cede.planning import Plan
    from cede.programs import Lowered
    from cede.reporting import Report
    from cede.running import RunResult
    from cede.types import Delegation
    from cede.whatif import Asked, Comparison

    Configured = Config | Path | str | None


def partitioner(*backends: str, config: Configured = None) -> PlanPartitioner:
    """One ExecuTorch `Partitioner` over any number of backends, for an existing export script.

        edge = to_edge_transform_and_lower(program, partitioner=[cede.partitioner("xnnpack")])

    Afterwards it holds `.plan` and `.report()`.

    Args:
        backends: names in priority order; none takes those of the config.
        config: a `Config`, a YAML file, or the name of a ready config.

    Raises:
        ConfigError: an unknown backend or a config that can't be used.
        PluginError: a plugin that the config asks for failed.
    """
    from cede.lowering import PlanPartitioner

    loaded = _read(config)
    if backends:
        loaded = replace(loaded, backends=list(backends))
    return PlanPartitioner(*hosted(loaded))


def plan(program: ExportedProgram, config: Configured = None) -> Plan:
    """Settle who gets which op of a program from `torch.export.export`, without compiling.

    Raises:
        ConfigError: a config that can't be used.
        PluginError: a plugin that the config asks for failed.
        PolicyError: the config's policy pins or requires ops that can't be had.
    """
    from cede.lowering import insist_on

    made = asked(program, config)
    insist_on(made.findings)
    return made.plan


def asked(program: ExportedProgram, config: Configured = None) -> Asked:
    """Ask every partitioner and settle, for `cede.whatif`; has the plan, met or not.

    Raises as `plan`, but for the policy.
    """
    from cede.lowering import scout, settled
    from cede.whatif import Asked

    host, loaded, options = hosted(_read(config))
    found = scout(program, host, loaded, options)
    graph, partitioners = found.plan.graph, host.partitioners_for(loaded)
    assert graph is not None  # noqa: S101  (a plan made here has its graph)

    def settle(answers: Sequence[Answers]) -> tuple[Delegation, ...]:
        return settled(graph, answers, partitioners, host, loaded)[1].delegations

    return Asked(
        graph=graph,
        answers=found.answers,
        backends={given.name: given.backend for given in partitioners},
        settle=settle,
        plan=found.plan,
        findings=found.findings,
    )


def what_if(
    program: ExportedProgram,
    config: Configured = None,
    *,
    support: Sequence[tuple[str, str]] = (),
    without: Sequence[str] = (),
) -> Comparison:
    """Delegates and coverage if backends supported operators, or if backends were left out.

    Args:
        program: from `torch.export.export`.
        config: as for `plan`.
        support: pairs of an operator ("aten.native_group_norm", "*" matches any part) and a
            backend.
        without: names of backends.

    Raises:
        ConfigError: as `plan`; a backend that was not asked, an operator that it does not refuse.
        PluginError: as `plan`.
    """
    from cede.whatif import what_if as compare

    return compare(asked(program, config), support=support, without=without)


def lower(
    program: ExportedProgram,
    plan: Plan | None = None,
    config: Configured = None,
    *,
    metadata: Mapping[str, Any] | None = None,
) -> Lowered:
    """Compile the delegates of a plan (made here if None) and emit the ExecuTorch program.

    `metadata` (name -> number, text, or list of numbers) become methods of the program that return
    these constants.

    Raises:
        ConfigError: a config that can't be used, or one that asks for other backends than the plan.
        PlanError: the plan was made for another program.
        PolicyError: the plan does not meet the config's policy.
        LoweringError: a delegate can't be compiled, or an op that was left can't be emitted.
    """
    from cede.programs import lower as lowered

    loaded = _read(config)
    if plan is not None:
        own = [source.name for source in plan.backends]
        if config is not None and loaded.backends and list(dict.fromkeys(loaded.backends)) != own:
            raise ConfigError(
                f"the plan is for backends [{', '.join(own)}], but the config asks for"
                f" [{', '.join(loaded.backends)}]; leave them out, or make a new plan"
            )
        loaded = replace(loaded, backends=own)
    return lowered(program, *hosted(loaded), replay=plan, metadata=metadata)


def export(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    config: Configured = None,
    dynamic_shapes: Any = None,
) -> Lowered:
    """Quantize as the config says, `torch.export.export`, plan and lower in a row.

    Raises what `quantize_model` and `lower` raise, and LoweringError where `torch.export` can't
    export the model; its own error is the cause.
    """
    from cede.model import Model

    loaded = _read(config)
    given = Model(
        name=type(model).__name__, args=tuple(args), kwargs=dict(kwargs or {}), module=model,
        dynamic_shapes=dynamic_shapes,
    )  # fmt: skip
    return lower(given.quantized(loaded.quantize, loaded).export(), config=loaded)


def report(program: ExportedProgram, config: Configured = None, *, rank: bool = False) -> Report:
    """Plan a program and give the per-op delegation table. Raises what `plan` raises.

    Args:
        program: from `torch.export.export`.
        config: as for `plan`.
        rank: whether to find out what the support of each refused operator would change; the
            program is settled again for each.
    """
    from cede.lowering import insist_on
    from cede.reporting import make_report
    from cede.whatif import ranked

    found = asked(program, config)
    insist_on(found.findings)
    return make_report(found.plan, found.graph, ranking=ranked(found) if rank else ())


def run(
    program: bytes | Path | str,
    inputs: Sequence[Any],
    method: str = "forward",
    *,
    config: Configured = None,
    weights: bytes | Path | str | Sequence[Path | str] | None = None,
) -> RunResult:
    """Run a `.pte` once in ExecuTorch's runtime, or in its backend's own runner.

    Args:
        program: bytes, or the path of a file.
        inputs: flat inputs of the method.
        method: which of the program's methods.
        config: which plugins are loaded.
        weights: its data file (`.ptd`), if it has one, several, or the bytes of one.

    Raises:
        LoweringError: a damaged program, inputs that don't fit, or nothing here can run it.
    """
    from cede.running import run as run_program

    backends = Host.load(_read(config)).backends
    return run_program(program, inputs, method, backends=backends, weights=weights)


def check(lowered: Lowered, calls: Sequence[Call], config: Configured = None) -> Check:
    """Run a lowered program and eager on the same calls, and compare.

    State lives from one call to the next. Where they differ, the first delegate that differs from
    eager on its own inputs is named.

    Args:
        lowered: the program.
        calls: inputs of each call: positional ones, or `cede.Inputs` with keyword ones.
        config: its `check` section has the tolerances.

    Raises:
        ConfigError: there is no call.
        LoweringError: the program can't be run here, or the inputs don't fit.
    """
    from cede.checking import check_program

    loaded = _read(config)
    return check_program(lowered, calls, Host.load(loaded).backends, loaded.check)


def bench(
    lowered: Lowered, inputs: Sequence[Any], config: Configured = None, *, calls: int = 50
) -> Timing:
    """Run a lowered program many times: seconds of the whole, of each delegate and op left.

    `lowered.report(timing)` sets them beside the predictions.

    Args:
        lowered: the program.
        inputs: positional inputs.
        config: which plugins are loaded.
        calls: how many calls count.

    Raises:
        ConfigError: no call counts.
        LoweringError: the program can't be run here, or the inputs don't fit.
    """
    from torch.utils import _pytree as pytree

    from cede.benching import timed

    flat = pytree.tree_leaves(tuple(inputs))
    return timed(lowered, flat, Host.load(_read(config)).backends, calls)


def hosted(config: Config) -> tuple[Host, Config, dict[str, Any]]:
    """The plugins of a config, it, and each backend's options. Raises what `plan` raises for it."""
    try:
        host = Host.load(config)
        return host, config, check_options(config, host.backends, host.backend)
    except ConfigError:
        from cede.host.problems import name_problems

        raise ConfigError("\n".join(name_problems(config))) from None


def _read(config: Configured) -> Config:
    try:
        return load_config(config)
    except ConfigError as error:
        from cede.host.problems import with_names

        raise with_names(error) from None


__all__ = [
    "asked",
    "bench",
    "check",
    "export",
    "load_config",
    "lower",
    "partitioner",
    "plan",
    "report",
    "run",
    "what_if",
]
