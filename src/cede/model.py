"""What a command line calls a model: a module with example inputs, or an exported program."""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.config import Config, QuantizeConfig
from cede.errors import ConfigError, LoweringError
from cede.named import function_of, guarded, must_be_there
from cede.nearest import suggestion

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from cede.quant.pt2e import AnnotationReport
    from cede.quant.source import QuantizationReport
    from cede.types import Inputs

OPTIONS = ("kwargs", "dynamic_shapes")
_NAMESPACE = re.compile(rb"torch\.ops\.(\w+)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model with example inputs.

    Attributes:
        name: as it was asked for.
        args: positional example inputs.
        kwargs: keyword example inputs.
        module: in eval mode; None where there is only an exported program.
        dynamic_shapes: as `torch.export.export` takes them.
        exported: where the model came as a program.
        quantization: what became of each module, or op, where the model was quantized.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    module: torch.nn.Module | None = None
    dynamic_shapes: Any = None
    exported: ExportedProgram | None = None
    quantization: QuantizationReport | AnnotationReport | None = None

    def quantized(
        self,
        config: QuantizeConfig,
        whole: Config | None = None,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Model:
        """The model in other numbers, itself where the config asks for none.

        Args:
            config: the numbers.
            whole: the config with the plugins to look for quantizers in.
            progress: called after each call of a calibration with how many are done, and how many
                there are if known.

        Raises:
            ConfigError: a mode that can't be had, groups that don't divide, an exported program,
                which has no modules any more, or calibration data that can't be used.
            LoweringError: a backend's quantizer fails on the exported program.
        """
        if config == QuantizeConfig():
            return self
        if config.pt2e:
            from cede.quant.pt2e import quantize_as_configured

            given = self.exported if self.exported is not None else self.module
            assert given is not None  # noqa: S101  (load_model gives one of both)
            program, rows = quantize_as_configured(
                given, self.args, self.kwargs, replace(whole or Config(), quantize=config),
                self.dynamic_shapes, _calibration(config.calibration), progress,
            )  # fmt: skip
            return replace(self, exported=program, module=None, quantization=rows)
        from cede.quant.source import quantize_model

        calls = self.calls(config.calibration or None) if config.scales == "fitted" else None
        module, report = quantize_model(self.source(), config, calls, self.kwargs)
        return replace(self, module=module.eval(), quantization=report)

    def source(self) -> torch.nn.Module:
        """The module.

        Raises:
            ConfigError: the model came as an exported program.
        """
        if self.module is None:
            raise ConfigError(
                f"{self.name}: an exported program can't be quantized in its source; give the"
                " module, or leave quantize out"
            )
        return self.module

    def calls(self, given: str | None) -> list[Inputs]:
        """The inputs of some calls.

        Args:
            given: a `.pt` or `.npz` file, or "file.py:function" that gives them; None is one call
                with the example inputs.

        Raises:
            ConfigError: a file or function that can't be used, or calls that don't fit the model.
        """
        if given is None:
            return [self.call]
        from cede.quant.pt2e.calibration import calls

        return list(calls(_calibration(given) or given, self.call)[0])

    def export(self) -> ExportedProgram:
        """The exported program, made with `torch.export.export` under `torch.no_grad`.

        Raises:
            LoweringError: `torch.export` can't export the module; its own message is told.
        """
        if self.exported is not None:
            return self.exported
        import torch

        assert self.module is not None  # noqa: S101  (load_model gives one of both)
        try:
            with torch.no_grad():
                return torch.export.export(
                    self.module,
                    self.args,
                    dict(self.kwargs),
                    dynamic_shapes=self.dynamic_shapes,
                )
        except Exception as error:
            raise LoweringError(
                f"{self.name}: torch.export can't export it: {type(error).__name__}: {error}"
            ) from error

    @property
    def call(self) -> Inputs:
        """The example inputs as a call of eager."""
        from cede.types import Inputs

        return Inputs(args=self.args, kwargs=self.kwargs)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The example inputs, flat, as a method of a `.pte` takes them."""
        from torch.utils._pytree import tree_leaves

        return tuple(tree_leaves((self.args, dict(self.kwargs))))


def load_model(spec: str) -> Model:
    """Load a model.

    Args:
        spec: "package.module:function" or "file.py:function", or a ".pt2" file. The function takes
            nothing and returns `(module, args)`, `(module, args, options)` with the options
            `kwargs` and `dynamic_shapes`, or a `torch.export.ExportedProgram`. The current folder,
            or the file's, is put at the end of `sys.path`.

    Raises:
        ConfigError: nothing of that name, the code raised, or the function returned something else.
    """
    must_be_there(spec)
    if spec.endswith(".pt2"):
        return _from_pt2(spec)
    function = function_of(spec)
    return _model(spec, guarded(spec, function))


def _calibration(spec: str) -> Callable[[], Any] | None:
    """The function that a calibration names, None for a file."""
    if ":" not in spec or spec.endswith((".pt", ".npz")):
        return None
    function = function_of(spec)
    return lambda: guarded(spec, function)


def _from_pt2(spec: str) -> Model:
    import torch

    _register_operators(Path(spec))
    logged: list[BaseException] = []

    def keep(record: logging.LogRecord) -> bool:
        caught = record.exc_info[1] if record.exc_info else None
        logged.extend([caught] if caught else [])
        return caught is None

    # torch logs why it can't read an archive, and then raises something vague
    log = logging.getLogger("torch.export")
    log.addFilter(keep)
    try:
        program = torch.export.load(spec)
    except Exception as error:
        told = logged[0] if logged else error
        first = (str(told).splitlines() or [""])[0]
        raise ConfigError(
            f"{spec}: no program that this torch ({torch.__version__}) can load: "
            f"{type(told).__name__}: {first}"
        ) from error
    finally:
        log.removeFilter(keep)
    return _of_program(spec, program)


def _register_operators(path: Path) -> None:
    """Import what registers the operators that an archive calls, where that is known."""
    from cede.running.libraries import register

    try:
        with zipfile.ZipFile(path) as archive:
            texts = [
                archive.read(name) for name in archive.namelist() if name.endswith("model.json")
            ]
    except (OSError, ValueError, zipfile.BadZipFile):
        return  # loading says what is wrong with it
    namespaces = {found.decode() for text in texts for found in _NAMESPACE.findall(text)}
    register(f"{namespace}::" for namespace in sorted(namespaces))


def _of_program(spec: str, program: ExportedProgram) -> Model:
    args, kwargs = program.example_inputs or ((), {})
    return Model(name=spec, args=tuple(args), kwargs=dict(kwargs), exported=program)


def _model(spec: str, made: Any) -> Model:
    import torch

    if isinstance(made, torch.export.ExportedProgram):
        return _of_program(spec, made)
    wanted = "(module, args), (module, args, options) or a torch.export.ExportedProgram"
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise ConfigError(f"{spec}: returned {_kind(made)}; return {wanted}")
    module, args, options = made if len(made) == 3 else (*made, {})
    if not isinstance(module, torch.nn.Module):
        raise ConfigError(f"{spec}: returned {_kind(module)} as the module; return {wanted}")
    if isinstance(args, torch.Tensor) or not isinstance(args, Sequence):
        raise ConfigError(f"{spec}: returned {_kind(args)} as args; return a tuple of inputs")
    if not isinstance(options, Mapping):
        raise ConfigError(f"{spec}: returned {_kind(options)} as options; return a dict")
    for key in options:
        if key not in OPTIONS:
            raise ConfigError(f"{spec}: unknown option {key}; {suggestion(str(key), OPTIONS)}")
    kwargs = options.get("kwargs") or {}
    if not isinstance(kwargs, Mapping):
        raise ConfigError(f"{spec}: returned {_kind(kwargs)} as kwargs; return a dict of inputs")
    guarded(f"{spec}: eval()", module.eval)
    return Model(
        name=spec,
        args=tuple(args),
        kwargs=dict(kwargs),
        module=module,
        dynamic_shapes=options.get("dynamic_shapes"),
    )


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} ({', '.join(type(entry).__name__ for entry in value)})"
    return type(value).__name__
