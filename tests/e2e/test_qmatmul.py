"""Models with encoded weights: one op each, claimed natively or decoded, with eager's numbers."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cede
from cede.lowering.encoded import decoded, encoded_ops
from cede.quant.encodings import quantize
from cede.quant.qmatmul import qembedding, qmatmul
from cede.quant.qmatmul_modules import QuantizedEmbedding, QuantizedLinear
from cede.quant.qmatmul_rewrite import quantize_weights

ROOT = Path(__file__).parents[2]
BUILT_IN = ["bf16", "q4_0", "q4_1", "q8_0", "q4_k", "q5_k", "q6_k"]
INDICES = torch.tensor([[1, 2, 3], [49, 0, 3]])


class Net(nn.Module):
    """An embedding tied to the head, and layers that a block of 256 does and doesn't fit."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(50, 256)
        self.block = nn.Sequential(nn.Linear(256, 96), nn.ReLU(), nn.Linear(96, 256))
        self.head = nn.Linear(256, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.embed(indices)))


def plain(model: nn.Module) -> nn.Module:
    """The same model with the decoded weights in ordinary layers: what the numbers should be."""
    model = copy.deepcopy(model)
    for name, module in list(model.named_modules()):
        if isinstance(module, QuantizedLinear | QuantizedEmbedding):
            weight = module.quantized.dequantize()
            if isinstance(module, QuantizedEmbedding):
                new: nn.Module = nn.Embedding.from_pretrained(weight)
            else:
                new = nn.Linear(module.columns, module.rows, module.bias is not None)
                new.weight, new.bias = nn.Parameter(weight), module.bias
            model.set_submodule(name, new)
    return model.eval()


def rewritten(*calls: tuple[str, list[str]]) -> nn.Module:
    model = Net().eval()
    for encoding, select in calls:
        quantize_weights(model, encoding, select)
    return model


def targets(lowered: Any) -> list[str]:
    return [op.target for op in lowered.graph.ops]


def near(got: torch.Tensor, model: nn.Module, *args: Any) -> None:
    with torch.no_grad():
        torch.testing.assert_close(got, plain(model)(*args), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", BUILT_IN)
def test_operators_compute_with_the_decoded_weight(name: str) -> None:
    weight = quantize(torch.randn(20, 512), name)
    x, bias = torch.randn(2, 3, 512), torch.randn(20)
    expected = nn.functional.linear(x, weight.dequantize(), bias)
    torch.testing.assert_close(qmatmul(x, weight.data, name, bias), expected)
    indices = torch.tensor([[3], [19]])
    assert qembedding(indices, weight.data, name).equal(weight.dequantize()[indices])
    torch.library.opcheck(torch.ops.cede.qmatmul.default, (x, weight.data, name, bias))
    torch.library.opcheck(torch.ops.cede.qembedding.default, (indices, weight.data, name))


def test_the_weight_is_decoded_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x = quantize(torch.randn(23, 256), "q4_0"), torch.randn(4, 256)
    whole = qmatmul(x, weight.data, "q4_0", torch.ones(23))
    sizes = []
    from cede.quant import qmatmul as module

    def noted(data: torch.Tensor, *rest: Any) -> torch.Tensor:
        sizes.append(len(data))
        return decode(data, *rest)

    decode = module.decode
    monkeypatch.setattr(module, "ROWS", 5 * 256 + 1)
    monkeypatch.setattr(module, "decode", noted)
    torch.testing.assert_close(qmatmul(x, weight.data, "q4_0", torch.ones(23)), whole)
    assert sizes == [5, 5, 5, 5, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.randn(2, 128)}, r"\(2, 128\) doesn't fit 256 columns"),
        ({"x": torch.randn(2, 256).half()}, r"float32, not torch.float16"),
        ({"weight": torch.zeros(4, 143, dtype=torch.uint8)}, r"blocks of 144 bytes"),
        ({"weight": torch.zeros(4, 144)}, r"uint8"),
        ({"bias": torch.zeros(5)}, r"bias is float32 of shape \(4,\)"),
    ],
)
def test_arguments_that_do_not_fit(change: dict[str, torch.Tensor], message: str) -> None:
    right = {"x": torch.randn(2, 256), "weight": torch.zeros(4, 144, dtype=torch.uint8)}
    with pytest.raises(cede.EncodingError, match=message):
        qmatmul(**{"encoding": "q4_k", **right, **change})  # type: ignore[arg-type]


def test_an_index_that_is_no_row() -> None:
    with pytest.raises(IndexError, match="4 rows"):
        qembedding(torch.tensor([4]), torch.zeros(4, 34, dtype=torch.uint8), "q8_0")


def test_rows_say_what_was_encoded_and_what_was_left() -> None:
    model = Net().eval()
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}
    rows = {row.module: row for row in quantize_weights(model, "q4_k", ["block", "embed"])}
    assert list(rows) == ["embed", "block.0", "block.2", "head"]
    assert rows["head"].reason == "not selected"
    assert rows["embed"].reason == "tied to head, which is left (not selected)"
    assert "(256, 96)" in rows["block.2"].reason
    assert "block of 256" in rows["block.2"].reason
    assert (rows["block.0"].bytes_before, rows["block.0"].bytes_after) == (98304, 13824)
    assert "block.0 [96, 256]: q4_k, 98,304 -> 13,824 bytes, 2" in str(rows["block.0"])
    noise = weights["block.0.weight"] - model.block[0].quantized.dequantize()  # type: ignore[index]
    ratio = weights["block.0.weight"].square().sum() / noise.square().sum()
    assert rows["block.0"].sqnr == pytest.approx(float(10 * ratio.log10()), rel=1e-4)
    assert type(model.head) is nn.Linear
    assert model.head.weight is model.embed.weight

    rows = {row.module: row for row in quantize_weights(model, "q8_0")}
    assert list(rows) == ["embed", "block.2", "head"]
    assert rows["head"].tied == "embed"
    assert model.head.encoded is model.embed.encoded
    assert not [name for name, _ in model.named_parameters() if name.endswith("weight")]


class Others(nn.Module):
    """Layers that must stay as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 2)
        self.half = nn.Linear(32, 32).half()
        self.norming = nn.Embedding(8, 32, max_norm=1.0)
        self.hooked = nn.Linear(32, 32)
        self.hooked.register_forward_hook(lambda *given: None)
        self.shared = nn.Linear(32, 32)
        self.plain = self.shared.weight


def test_what_could_go_wrong_is_left() -> None:
    model = Others()
    reasons = {row.module: row.reason for row in quantize_weights(model, "q8_0")}
    assert {name: reason.split(",")[0] for name, reason in reasons.items()} == {
        "attention.out_proj": (
            "it is a NonDynamicallyQuantizableLinear"
        ),
        "half": "its weight is torch.float16",
        "norming": "it renormalizes its weight (max_norm)",
        "hooked": "it has hooks",
        "shared": "its weight is also the parameter plain",
    }  # fmt: skip
    with pytest.raises(cede.EncodingError, match="give the module that holds it"):
        quantize_weights(nn.Linear(32, 32), "q8_0")
    with pytest.raises(cede.EncodingError, match=r"selected by 'halv'.*did you mean half"):
        quantize_weights(model, "q8_0", ["halv"])


def test_a_weight_that_can_not_be_encoded_is_named_and_nothing_is_changed() -> None:
    model = Net()
    with torch.no_grad():
        model.block[2].weight[3, 3] = float("nan")
    with pytest.raises(cede.EncodingError, match=r"^block.2: .*NaN"):
        quantize_weights(model, "q8_0")
    assert not [m for m in model.modules() if isinstance(m, QuantizedLinear | QuantizedEmbedding)]


def test_each_is_one_node_of_the_exported_program() -> None:
    model = rewritten(("q4_k", ["embed", "head", "block.0"]))
    program = torch.export.export(model, (INDICES,))
    names = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert names == [
        "cede.qembedding.default",
        "cede.qmatmul.default",
        "aten.relu.default",
        "aten.linear.default",
        "cede.qmatmul.default",
    ]
    near(program.module()(INDICES), model, INDICES)


def test_the_reference_backend_computes_with_each_natively() -> None:
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(
        nn.Embedding(50, 256), *(nn.Linear(256, 256) for _ in BUILT_IN)
    )
    for i, name in enumerate(BUILT_IN):
        quantize_weights(model, name, ["0", "1"] if i == 0 else [str(i + 1)])
    program = torch.export.export(model.eval(), (INDICES,))
    lowered = cede.lower(program, config="reference")
    ops = [op for op in lowered.graph.ops if op.target == "cede.qmatmul.default"]
    assert [op.arg("encoding") for op in ops] == BUILT_IN
    assert ops[0].flops == 2 * 6 * 256 * 256
    assert not lowered.plan.warnings
    near(cede.run(lowered.buffer, [INDICES]).outputs[0], model, INDICES)
    again = cede.lower(program, cede.plan(program, "reference"), "reference")
    assert again.plan.delegations == lowered.plan.delegations
    assert {"qembedding", "qmatmul", "qmatmul_6"} <= set(again.plan.kept)


@pytest.mark.parametrize("name", ["q4_0", "q6_k"])
def test_for_others_it_is_decoded_and_a_row_says_so(name: str) -> None:
    model = rewritten((name, ["embed", "head", "block.0"]))
    program = torch.export.export(model, (INDICES,))
    before = {key: value.clone() for key, value in program.state_dict.items()}
    lowered = cede.lower(program, config="xnnpack-fp32")
    assert not [target for target in targets(lowered) if target.startswith("cede.")]
    near(cede.run(lowered.buffer, [INDICES]).outputs[0], model, INDICES)
    [warning] = lowered.plan.warnings
    head, *rows = warning.splitlines()
    size = model.head.encoded.nbytes
    first = model.block[0].encoded.nbytes  # type: ignore[index]
    assert head == (
        f"decoded 2 encoded weights into float32 constants, {size + first:,} -> 149,504 bytes:"
    )
    assert rows[0].strip() == (
        f"head.encoded ({name}, [50, 256]), read by qembedding, qmatmul_1: {size:,} -> 51,200"
        f" bytes; none of xnnpack computes with {name}"
    )
    assert len(rows) == 2
    assert program.state_dict.keys() == before.keys()
    assert all(program.state_dict[key].equal(value) for key, value in before.items())
    # the tied weight is there once, the bytes not at all; the rest is structure
    floats = 149_504 + 4 * (96 * 256 + 96 + 256)
    assert len(lowered.buffer) < floats + 4 * 50 * 256 + 20_000


def test_a_backend_gets_the_encodings_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text(SOME)
    config = cede.load_config(
        None,
        [
            f"plugins.files=[{tmp_path / 'some.py'}]",
            "backends=[some,xnnpack]",
            "partitioners=[some,xnnpack]",
        ],
    )
    model = rewritten(("q4_k", ["block.0"]), ("q8_0", ["embed", "head"]))
    program = torch.export.export(model, (INDICES,))
    lowered = cede.lower(program, config=config)
    assert targets(lowered).count("cede.qmatmul.default") == 1
    [warning] = lowered.plan.warnings
    assert "head.encoded (q8_0" in warning
    assert "none of some, xnnpack computes with q8_0" in warning
    assert cede.check(lowered, [(INDICES,)], config).passed
    # refused by policy, it is decoded after all
    vetoed = cede.load_config(config, ["policy.exclude=[{op: 'cede.*'}]"])
    lowered = cede.lower(program, config=vetoed)
    assert "cede.qmatmul.default" not in targets(lowered)
    [warning] = [text for text in lowered.plan.warnings if text.startswith("decoded 2")]
    assert "some computes with q4_k, and did not get the op" in warning
    near(cede.run(lowered.buffer, [INDICES]).outputs[0], model, INDICES)


SOME = """
import cede
from cede.backends.reference.plugin import _load, _register
from cede.partitioners.rules import Rule, Ruled, argument


@cede.hookimpl
def cede_backends():
    yield cede.Backend(
        name="some", delegate_id="CedeReferenceBackend", register=_register, load=_load,
        encodings=("q4_k", "q6_k"),
    )


@cede.hookimpl
def cede_partitioners():
    rule = Rule(("cede.qmatmul.default",), (argument("encoding", "q4_k", "q6_k"),))
    yield Ruled(name="some", backend="some", rules=(rule,))
"""


def test_the_batch_is_dynamic() -> None:
    model = rewritten(("q8_0", ["**"]))
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(model, (INDICES,), dynamic_shapes=({0: batch},))
    for config in ("xnnpack-fp32", "reference"):
        lowered = cede.lower(program, config=config)
        for size in (1, 5):
            given = INDICES[:1].repeat(size, 1)
            near(cede.run(lowered.buffer, [given]).outputs[0], model, given)


class OnlyOne(nn.Module):
    """Returns what the op gives, as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 64)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.embed(indices)


def test_the_result_is_an_output() -> None:
    model = OnlyOne().eval()
    quantize_weights(model, "q4_0")
    given = torch.tensor([1, 7])
    lowered = cede.export(model, (given,), config="xnnpack-fp32")
    near(cede.run(lowered.buffer, [given]).outputs[0], model, given)


def test_bytes_that_the_caller_gives_stay_whole_and_are_named() -> None:
    class Given(nn.Module):
        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return qmatmul(x, weight, "q8_0")

    args = (torch.randn(2, 32), quantize(torch.randn(4, 32), "q8_0").data)
    with pytest.raises(cede.LoweringError, match=r"nobody takes cede\.qmatmul\.default"):
        cede.export(Given(), args, config="xnnpack-fp32")
    lowered = cede.export(Given(), args, config="reference")
    torch.testing.assert_close(cede.run(lowered.buffer, args).outputs[0], qmatmul(*args, "q8_0"))


def test_an_encoding_that_nobody_brings_any_more() -> None:
    program = torch.export.export(rewritten(("q8_0", ["**"])), (INDICES,))
    for node in encoded_ops(program):
        node.args = tuple("q8_1" if value == "q8_0" else value for value in node.args)
    names = [node.name for node in encoded_ops(program)]
    from cede.host import Host

    with pytest.raises(cede.LoweringError, match=r"head\.encoded can't be decoded.*'q8_1'"):
        decoded(program, Host.load(), names, str)


THIRD_PARTY = """
import sys, torch, cede
from cede.quant.qmatmul_rewrite import quantize_weights

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).eval()
rows = quantize_weights(model, "demo_ternary")
assert [row.encoding for row in rows] == ["demo_ternary"] * 2, rows
x = torch.randn(3, 64)
program = torch.export.export(model, (x,))
for config, whole in (("xnnpack-fp32", 0), ("reference", 2)):
    lowered = cede.lower(program, config=config)
    assert sum(op.target == "cede.qmatmul.default" for op in lowered.graph.ops) == whole
    with torch.no_grad():
        torch.testing.assert_close(cede.run(lowered.buffer, [x]).outputs[0], model(x))
    lowered.save(f"{config}.pte")
torch.export.save(program, "net.pt2")
cede.checkpoint.save("w.safetensors", {"w": model[0].quantized})
assert cede.checkpoint.load("w.safetensors")["w"] == model[0].quantized
torch.save({"x": x, "y": model(x).detach()}, "case.pt")
print(lowered.plan.warnings)
"""
RUN = """
import torch, cede
from cede.model import load_model

assert "cede.qmatmul" in str(load_model("net.pt2").exported.graph)
case = torch.load("case.pt")
for config in ("xnnpack-fp32", "reference"):
    got = cede.run(f"{config}.pte", [case["x"]]).outputs[0]
    torch.testing.assert_close(got, case["y"])
"""


def test_an_encoding_of_another_distribution(demo_plugin: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(demo_plugin)])
    for script in (THIRD_PARTY, RUN):  # the second is a process that has quantized nothing
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
