"""Refuse to build where the links into src/cede are missing (zip download, core.symlinks=false)."""

from pathlib import Path

from setuptools import setup

for link in ("partitioners", "backends", "quant", "configs"):
    if not (Path(__file__).parent / "src" / "cede" / link).is_dir():
        raise SystemExit(
            f"src/cede/{link} is no folder: clone with git config core.symlinks=true, "
            "or take the source archive (.tar.gz) instead of the zip"
        )
setup()
