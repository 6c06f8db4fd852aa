"""`cede lower` and `cede export`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.cli.planning import formed, insist, warn
from cede.cli.steps import Steps
from cede.errors import ConfigError, LoweringError

if TYPE_CHECKING:
    from cede.config import Config
    from cede.costs import Timing
    from cede.lowering import Lowered
    from cede.model import Model
    from cede.planning import Plan


@click.command(short_help="Compile a plan to a .pte.")
@options.model
@options.overrides
@options.configured
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A plan from `cede plan -o`; without, one is made.",
)
@options.program
@options.external_weights
@options.strict
@options.quiet
def lower(
    model: str,
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    plan_file: Path | None,
    output: Path,
    external_weights: Path | None,
    strict: bool,
    quiet: bool,
) -> None:
    """Compile MODEL to a .pte, by a plan that was made before or by a new one."""
    loaded = options.load(config, backends, options.outside(overrides, external_weights), strict)
    weights = options.weights_of(output, external_weights, loaded)
    options.writable(output, weights)
    read = None
    if plan_file is not None:
        read = _read_plan(plan_file)
        if config is not None or {"backends", "partitioners"} & loaded.origins.keys():
            _agree(read, plan_file, loaded)
    job = Job(model=model, config=loaded, quiet=quiet, plan=read)
    with Steps(job.steps, quiet) as steps:
        lowered, _, _ = job.run(steps)
        with steps.step("write"):
            lowered.save(output, weights)
    if not quiet:
        warn((*lowered.plan.warnings, *lowered.warnings))
        click.echo(f"{output}: {lowered.report().verdict}")


@click.command(short_help="Export, plan and compile in one go; print the table.")
@options.model
@options.overrides
@options.configured
@options.program
@options.external_weights
@options.form("text", "markdown", "csv", "json")
@click.option("--check", is_flag=True, help="Compare with eager on the example inputs first.")
@click.option("--bench", is_flag=True, help="Measure each delegate and put it in the report.")
@click.option(
    "--plan-out", type=click.Path(path_type=Path), metavar="FILE", help="Write the plan as JSON."
)
@click.option(
    "--report-out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the report; the form follows its end: .json, .md, .csv, .txt, .html, .dot.",
)
@options.strict
@options.quiet
def export(
    model: str,
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    output: Path,
    external_weights: Path | None,
    form: str,
    check: bool,
    bench: bool,
    plan_out: Path | None,
    report_out: Path | None,
    strict: bool,
    quiet: bool,
) -> None:
    """Export, plan and compile MODEL to a .pte, and print who took each op.

    With --check a program that differs from eager is not written; the first delegate that differs
    is named, and the exit code is 5.
    """
    from cede.reporting.forms import form_of

    report_form = form_of(report_out) if report_out is not None else "text"
    loaded = options.load(config, backends, options.outside(overrides, external_weights), strict)
    weights = options.weights_of(output, external_weights, loaded)
    options.writable(output, weights, plan_out, report_out)
    job = Job(model=model, config=loaded, quiet=quiet, check=check, bench=bench)
    with Steps(job.steps, quiet) as steps:
        lowered, made, timing = job.run(steps)
        with steps.step("write"):
            report = replace(lowered.report(timing), quantization=made.quantization)
            beside: dict[Path, bytes] = {}
            if plan_out is not None:
                beside[plan_out] = lowered.plan.to_json().encode()
            if report_out is not None:
                beside[report_out] = formed(report, report_form, report_out, model).encode()
            lowered.save(output, weights, beside=beside)
    if not quiet:
        warn(lowered.warnings if form != "csv" else (*lowered.plan.warnings, *lowered.warnings))
        click.echo(formed(report, form, title=model), nl=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One model on its way to a `.pte`."""

    model: str
    config: Config
    quiet: bool
    plan: Plan | None = None
    check: bool = False
    bench: bool = False
    calls: int = 50

    @property
    def steps(self) -> int:
        """How many steps `run` takes, and one to write."""
        return 4 + self._plans_first + self.check + self.bench

    @property
    def _plans_first(self) -> bool:
        # to fail before compiling, which takes longer
        return self.config.strict and self.plan is None

    def run(self, steps: Steps) -> tuple[Lowered, Model, Timing | None]:
        """Load, quantize, export, plan, lower, compare with eager and measure if asked.

        Raises:
            PolicyError: the config is strict and the plan is not whole; nothing was compiled.
            LoweringError: it can't be lowered, or differs from eager.
        """
        from cede import api

        with steps.step("load"):
            model = self._loaded(steps)
        with steps.step("export"):
            program = model.export()
        if self._plans_first:
            with steps.step("plan"):
                insist(lambda: api.report(program, self.config), self.config)
        with steps.step("lower"):
            # a plan brings its own backends; that they agree was insisted on
            config = replace(self.config, backends=[]) if self.plan else self.config
            lowered = api.lower(program, self.plan, config)
            insist(lowered.report, self.config, lowered.warnings)
        if self.check:
            with steps.step("check"):
                outcome = api.check(lowered, [model.call], self.config)
            if not outcome.passed:
                raise LoweringError(f"{self.model}: differs from eager: {outcome.message}")
            if not self.quiet:
                click.echo(f"check: {outcome.message}", err=True)
        timing = None
        if self.bench:
            with steps.step("measure"):
                timing = api.bench(lowered, model.inputs, self.config, calls=self.calls)
        return lowered, model, timing

    def _loaded(self, steps: Steps) -> Model:
        from cede.model import load_model

        model = load_model(self.model).quantized(self.config.quantize, self.config, steps.progress)
        if not self.quiet and model.quantization is not None:
            warn(model.quantization.warnings)
        return model


def _read_plan(path: Path) -> Plan:
    from cede.files import read_text
    from cede.planning import Plan

    return Plan.from_json(read_text(path), str(path))


def _agree(plan: Plan, path: Path, config: Config) -> None:
    """Refuse backends that were asked for and that the plan would not follow."""
    from cede.host import Host

    if not (config.backends or config.partitioners):
        return
    own = [source.name for source in plan.backends]
    partitioners = Host.load(config).partitioners_for(config)
    asked = list(dict.fromkeys(given.backend for given in partitioners))
    if asked != own:
        key = "partitioners" if config.partitioners else "backends"
        raise ConfigError(
            f"{path}: the plan is for backends [{', '.join(own)}], but {config.origin(key)} asks"
            f" for [{', '.join(asked)}]; leave {key} out, or make a new plan"
        )
