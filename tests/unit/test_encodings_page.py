"""What the page on encodings says is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import cede
from cede.quant.encodings import find

PAGE = (Path(__file__).parents[2] / "docs" / "encodings.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^\| `(\w+)` \| (\d+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.M)


def test_its_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile("\n".join(blocks), "encodings.md", "exec"), {})
    told = capsys.readouterr().out
    assert "QuantizedTensor(q4_k, 64x512 float32, 18432 bytes)" in told
    assert "embed [100, 256]: left, not selected" in told
    assert "shared with embed" in told
    assert "decoded 3 encoded weights into float32 constants" in told


def test_its_table_is_right() -> None:
    torch.manual_seed(0)
    x = torch.randn(128, 1024)
    assert len(TABLE) == 7
    for name, block, bits, error in TABLE:
        encoding = find(name)
        assert encoding.block_size == int(block)
        assert encoding.bits_per_weight == pytest.approx(float(bits), abs=0.005)
        got = (cede.quantize(x, name).dequantize() - x).pow(2).mean().sqrt() / x.std()
        assert float(got) == pytest.approx(float(error), rel=0.02)
