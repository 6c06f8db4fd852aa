"""`export_llm`'s YAML with a section `cede`, read, fitted and checked before anything else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.config import Config
from cede.config.fit import Problems, fit
from cede.config.load import make_absolute
from cede.config.tree import merge_overrides, read_tree, resolved
from cede.errors import ConfigError
from cede.llm.checks import check
from cede.llm.methods import Method
from cede.llm.upstream import schema
from cede.nearest import suggestion
from cede.reporting.forms import form_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.resources.abc import Traversable

SECTION = "cede"


@dataclass(kw_only=True)
class CedeSection(Config):
    """The section `cede`: a config, and where the report goes.

    Attributes:
        report: the file to write the report to; its suffix says the form. Empty writes it beside
            the program if `debug.verbose` is set.
    """

    report: str = ""

    def config(self) -> Config:
        """The config in it."""
        return Config(**{each.name: getattr(self, each.name) for each in fields(Config)})


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """What `cede export-llm` was asked for, checked.

    Attributes:
        llm: an instance of ExecuTorch's `LlmConfig`, `base.random_weights` added.
        config: the backends, policy, numbers, costs.
        metadata: of `base.metadata`: method name -> value.
        output: the `.pte` to write.
        weights: the `.ptd` for the constants, None where they stand in the `.pte`.
        adapters: the `.ptd` for those of adapters, likewise.
        report: the file to write the report to, None for none.
        methods: that compute; one called "forward", if `multimethod` says nothing.
        notes: what the user should know of how it was read.
    """

    llm: Any
    config: Config
    metadata: Mapping[str, Any]
    output: Path
    weights: Path | None
    adapters: Path | None
    report: Path | None
    methods: tuple[Method, ...] = (Method(),)
    notes: tuple[str, ...] = field(default=())


def load_settings(source: Path | str, overrides: Sequence[str] = ()) -> LlmSettings:
    """Read and check a YAML file of `export_llm`.

    Args:
        source: a YAML file, or the name of a ready config ("smollm2-8da4w").
        overrides: "section.field=value" each; a leading "+", as hydra asks for, is allowed.

    Raises:
        ConfigError: every problem there is, one a line: unknown keys and wrong values, numbers and
            options that can't be had, files that are missing.
        PluginError: a plugin that the section `cede` asks for failed.
    """
    tree, name, folder = _source(source)
    origins = {"": name}
    problems = Problems(origin=lambda path: Config(origins=origins).origin(path))
    given = [text.lstrip("+") for text in overrides]
    values = resolved(merge_overrides(tree, given, origins, problems), "", problems)
    own = values.pop(SECTION, None) or {}
    _metadata_as_text(values)
    # the section is a key of the file like the others, where somebody misspells it
    for key in [key for key in values if key not in _sections()]:
        problems.add(str(key), f"unknown section; {suggestion(str(key), [*_sections(), SECTION])}")
        del values[key]
    llm = fit(schema(), values, "", problems)
    section = _section(own, problems)
    config = section.config()
    config.origins = {_inner(key): value for key, value in origins.items()}
    make_absolute(config, folder)
    found = check(llm, config, values, problems)
    output = output_of(llm)
    report = _report(section, llm, output, problems)
    if problems.lines:
        raise ConfigError("\n".join(problems.lines))
    return LlmSettings(
        llm=llm, config=found.config, metadata=found.metadata, output=output,
        weights=weights_of(llm, found.config, output), adapters=adapters_of(llm, output),
        report=report, methods=found.methods, notes=tuple(found.notes),
    )  # fmt: skip


def ready_llm_configs() -> tuple[str, ...]:
    """Names of the configs that come with cede, sorted."""
    folder = files("cede") / "configs" / "llm"
    names = [entry.name for entry in folder.iterdir()]
    return tuple(sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml")))


def output_of(llm: Any) -> Path:
    """The `.pte` that `export_llm` would write: a name that ends in .pte is taken as it is."""
    given = llm.export.output_name
    if given and given.endswith(".pte"):
        return Path(given)
    return Path(llm.export.output_dir) / f"{given or llm.base.model_class.value}.pte"


def weights_of(llm: Any, config: Config, output: Path) -> Path | None:
    """The `.ptd` to write: of the name that was given, or else of the program's."""
    if name := llm.export.foundation_weights_file:
        return output.parent / f"{name.removesuffix('.ptd')}.ptd"
    return output.with_suffix(".ptd") if config.lowering.external_weights else None


def adapters_of(llm: Any, output: Path) -> Path | None:
    """The `.ptd` to write for the constants of adapters."""
    name = llm.export.lora_weights_file
    return output.parent / f"{name.removesuffix('.ptd')}.ptd" if name else None


def _section(own: Any, problems: Problems) -> CedeSection:
    if isinstance(own, dict):
        made: CedeSection = fit(CedeSection, own, SECTION, problems)
        return made
    problems.add(SECTION, f"got {own!r}, expected keys with values")
    return CedeSection()


def _report(section: CedeSection, llm: Any, output: Path, problems: Problems) -> Path | None:
    given = section.report
    if not given:
        return Path(f"{output.with_suffix('')}.report.md") if llm.debug.verbose else None
    try:
        form_of(Path(given), "")
    except ConfigError as error:
        problems.add(f"{SECTION}.report", str(error))
    return Path(given)


def _sections() -> list[str]:
    return [each.name for each in fields(schema())]


def _source(source: Path | str) -> tuple[Any, str, Path]:
    """The tree, what errors call it, and the folder that paths in `cede` are relative to."""
    ready = ready_llm_configs()
    if isinstance(source, str) and source in ready:
        found: Traversable = files("cede") / "configs" / "llm" / f"{source}.yaml"
        return read_tree(found, f"{source}.yaml"), f"{source}.yaml", Path.cwd()
    path = Path(source).expanduser()
    if path.suffix not in (".yaml", ".yml") and not path.exists():
        near = suggestion(str(source), ready)
        raise ConfigError(f"{source}: neither a file nor a ready config; {near}")
    return read_tree(path, str(path)), str(path), path.parent.resolve()


def _metadata_as_text(values: dict[str, Any]) -> None:
    """Metadata that stand as YAML keys instead of a JSON text."""
    base = values.get("base")
    if isinstance(base, dict) and isinstance(base.get("metadata"), dict):
        base["metadata"] = json.dumps(base["metadata"])


def _inner(path: str) -> str:
    return path.removeprefix(f"{SECTION}.") if path != SECTION else ""
