"""Refuse to build where the links into src/cede are missing (zip download, core.symlinks=false)."""

from pathlib import Path

from setuptools import setup

for link in ("partitioners", "backends", "quant", "configs"):
    if not (Path(__file__).parent / "src" / "cede" / link).is_dir():
        raise SystemExit(f"src/cede/{link} is not a folder: check out with core.symlinks=true")
setup()
