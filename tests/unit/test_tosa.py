"""The TOSA backend against eager, in TOSA's reference model, and the targets that build on it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
import torch
from tests.unit.delegated import NETS, ask, edge_of, exported, inside, lowered_by, tagged

import cede
from cede.backends.ethosu import plugin as ethosu
from cede.backends.tosa.options import Extension, Profile, TosaOptions, integers_alone
from cede.backends.vgf import plugin as vgf
from cede.errors import LoweringError, PluginError
from cede.running.pte import delegates_of

HERE = find_spec("tosa_serializer") is not None
tosa = pytest.mark.skipif(not HERE, reason="tosa-tools is not installed")
vela = pytest.mark.skipif(
    not HERE or find_spec("ethosu") is None, reason="tosa-tools or ethos-u-vela is not installed"
)


def config(*overrides: str, backends: str = "tosa") -> cede.Config:
    return cede.load_config(None, [f"backends=[{backends}]", *overrides])


def stock(spec: str = "TOSA-1.0+FP") -> Any:
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    return TOSAPartitioner(TosaCompileSpec(spec))


def quantized(model: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> torch.nn.Module:
    """The model in int8, as Arm's own quantizer has it."""
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT"))
    quantizer.set_global(get_symmetric_quantization_config())
    program = torch.export.export(model, args)
    prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
    prepared(*args)
    converted: torch.nn.Module = convert_pt2e(prepared)
    return converted


@pytest.fixture(scope="module")
def int8() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    model, args = NETS["net"]
    return quantized(model, args), args


@pytest.mark.skipif(HERE, reason="tosa-tools is installed")
@pytest.mark.parametrize("backend", ["tosa", "ethosu", "vgf"])
def test_without_its_package_naming_it_is_an_error(backend: str) -> None:
    with pytest.raises(PluginError, match=f"backends: '{backend}' can't be used here: .*pip inst"):
        cede.plan(exported("net"), config=config(backends=backend))


def test_the_specification_is_spelled_as_tosa_does() -> None:
    assert TosaOptions().specification == "TOSA-1.0+FP"
    given = TosaOptions(profile=Profile.fp_int, extensions=[Extension.int16, Extension.bf16])
    assert given.specification == "TOSA-1.0+FP+INT+int16+bf16"
    assert TosaOptions(version="TOSA-1.0+INT").specification == "TOSA-1.0+INT"
    assert integers_alone("TOSA-1.0+INT+int16")
    assert not integers_alone("TOSA-1.0+FP+INT")


@tosa
def test_flags_reach_arms_compilers() -> None:
    """As their partitioners hold them."""
    flags = ["--verbose-performance"]
    for own, options in (
        (ethosu, ethosu.EthosUOptions(extra_flags=flags)),
        (vgf, vgf.VgfOptions(version="TOSA-1.0+INT+int16", compiler_flags=flags)),
    ):
        specs = own._stock(options).delegation_spec.compile_specs
        told = {spec.key: bytes(spec.value).decode() for spec in specs}
        assert flags[0] in told["compile_flags"]
        assert ("u55" in told["tosa_spec"]) == (own is ethosu)
    assert told["tosa_spec"] == "TOSA-1.0+INT+int16"


@tosa
@pytest.mark.parametrize("name", NETS)
def test_claims_are_the_stock_partitioners(name: str) -> None:
    claims, refusals = ask("tosa", edge_of(name))
    assert {op for claim in claims for op in claim.ops} == tagged(stock(), edge_of(name))
    assert len(claims) > 1
    assert all(refusal.reason.detail for refusal in refusals)


@tosa
@pytest.mark.parametrize("name", NETS)
def test_the_reference_model_gives_eagers_numbers(name: str) -> None:
    model, args = NETS[name]
    lowered = cede.export(model, args, config=config())
    assert inside(lowered.edge) == inside(lowered_by([stock()], exported(name)))
    result = cede.run(lowered.buffer, args)
    assert result.runtime == "tosa"
    torch.testing.assert_close(result.outputs[0], model(*args), rtol=1e-5, atol=1e-6)
    assert {id for _, id, _ in delegates_of(lowered.buffer)} == {"TOSABackend"}


@tosa
def test_delegates_in_pieces_beside_xnnpack_give_eagers_numbers() -> None:
    model, args = NETS["net"]
    wanted = config(
        "policy.exclude=['op:aten.relu,backend:tosa','op:aten._softmax,backend:tosa']",
        backends="tosa,xnnpack",
    )
    lowered = cede.export(model, args, config=wanted)
    ids = [id for _, id, _ in delegates_of(lowered.buffer)]
    assert ids.count("TOSABackend") == 3
    assert "XnnpackBackend" in ids
    torch.testing.assert_close(
        cede.run(lowered.buffer, args).outputs[0], model(*args), rtol=1e-5, atol=1e-6
    )


@tosa
def test_values_in_channels_last_keep_their_places() -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.conv(x)
            return x * 2, x.mean((2, 3)) + y

    model = Two().eval()
    args = (torch.randn(2, 3, 6, 5).to(memory_format=torch.channels_last), torch.randn(2, 4))
    lowered = cede.export(model, args, config=config())
    assert delegates_of(lowered.buffer)
    for found, wanted in zip(cede.run(lowered.buffer, args).outputs, model(*args), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


@tosa
def test_an_integer_program_gives_the_quantized_models_numbers(int8: Any) -> None:
    model, args = int8
    lowered = cede.export(model, args, config=config("options.tosa.profile=int"))
    program = torch.export.export(model, args)
    assert inside(lowered.edge) == inside(lowered_by([stock("TOSA-1.0+INT")], program))
    torch.testing.assert_close(cede.run(lowered.buffer, args).outputs[0], model(*args))
    reasons = {one.op: str(one.reason) for one in lowered.plan.refusals}
    assert len(reasons) == 2
    assert {reason.partition(":")[0] for reason in reasons.values()} == {"quant-scheme"}


@tosa
def test_an_integer_program_is_cut_only_between_integers(int8: Any) -> None:
    model, args = int8
    wanted = config("options.tosa.profile=int", "policy.exclude=['op:aten.exp']")
    lowered = cede.export(model, args, config=wanted)
    assert len(lowered.plan.delegations) == 2
    torch.testing.assert_close(cede.run(lowered.buffer, args).outputs[0], model(*args))


@tosa
def test_a_float_program_has_nothing_for_integers_and_says_why() -> None:
    claims, refusals = ask("tosa", edge_of("net"), profile=Profile.int)
    assert not claims
    assert {one.reason.code.value for one in refusals} == {"quant-scheme", "unknown-op"}


@tosa
def test_data_that_is_no_graph_is_refused() -> None:
    from cede.backends.tosa.runner import ReferenceModel

    with pytest.raises(LoweringError, match="no TOSA graph; lower the program again"):
        ReferenceModel(b"\x08\x00\x00\x00NONE" + bytes(64), [])


@vela
def test_ethos_u_compiles_a_quantized_program(int8: Any) -> None:
    model, args = int8
    lowered = cede.export(
        model, args, config=config("options.ethosu.target=ethos-u85-256", backends="ethosu")
    )
    ((_, id, payload),) = delegates_of(lowered.buffer)
    assert id == "EthosUBackend"
    assert payload.startswith(b"vela_bin_stream")
    with pytest.raises(LoweringError, match="backend ethosu can't run here"):
        cede.run(lowered.buffer, args)


@vela
def test_ethos_u_says_why_it_leaves_a_float_program() -> None:
    claims, refusals = ask("ethosu", edge_of("net"))
    assert not claims
    reasons = {one.op: one.reason.detail for one in refusals}
    assert "not marked as quantized" in reasons["aten_convolution_default"]
    assert all(reasons.values())


@tosa
def test_vgf_claims_what_the_stock_partitioner_claims() -> None:
    from executorch.backends.arm.vgf import VgfCompileSpec
    from executorch.backends.arm.vgf.partitioner import VgfPartitioner

    claims, _ = ask("vgf", edge_of("net"))
    own = VgfPartitioner(VgfCompileSpec("TOSA-1.0+FP+INT"))
    assert {op for claim in claims for op in claim.ops} == tagged(own, edge_of("net"))
