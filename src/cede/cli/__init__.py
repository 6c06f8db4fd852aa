"""The command line: `cede plan`, `export`, `report` and the other commands."""

from cede.cli.app import CommandLine
from cede.cli.benching import bench
from cede.cli.cache import cache
from cede.cli.calibrate import calibrate
from cede.cli.diffing import diff, gate
from cede.cli.doctor import doctor
from cede.cli.llm import chat, export_llm
from cede.cli.lowering import export, lower
from cede.cli.models import models
from cede.cli.newplugin import new_plugin
from cede.cli.ops import ops
from cede.cli.planning import explain, plan, report
from cede.cli.plugins import plugins
from cede.cli.quantizing import quantize
from cede.cli.running import run
from cede.cli.sweep import sweep
from cede.cli.verifying import bisect, verify
from cede.cli.whatif import whatif

__all__ = ["main"]

main = CommandLine(
    name="cede",
    help="Give the subgraphs of a PyTorch program to the backends that claim them.",
    epilog="Exit codes: 0 done, 2 config or usage, 3 plugin, 4 policy or --strict unmet, "
    "5 lowering, checking or running failed.",
    commands=[
        plan,
        lower,
        export,
        report,
        explain,
        whatif,
        diff,
        gate,
        run,
        verify,
        bisect,
        bench,
        quantize,
        export_llm,
        chat,
        calibrate,
        cache,
        ops,
        models,
        sweep,
        plugins,
        doctor,
        new_plugin,
    ],
)
