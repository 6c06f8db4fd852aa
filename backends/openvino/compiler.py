"""OpenVINO's compiler with its precision in the blob. All that reaches inside upstream is here.

ExecuTorch's delegate imports a compiled blob with a device name and nothing else, and OpenVINO's
CPU plugin keeps no precision in its blobs: on a machine with bfloat16 instructions it computes in
bfloat16, whatever it was compiled with. OpenVINO's HETERO device, which passes a model on to other
devices, reads from its blob's header what they are configured with: so a blob gets such a header,
with the hint in it.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
import torch
from executorch.backends.openvino import preprocess

from cede.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.types import Spec

DEVICE = "device"
"""The compile spec that the delegate reads when it loads a blob."""

HINT = "INFERENCE_PRECISION_HINT"
"""The compile spec of ours: OpenVINO's name of the property; "" leaves it to the device."""

_COPIES = (
    "aten.alias.default", "aten.alias_copy.default", "aten.clone.default", "aten.detach.default",
    "aten.lift_fresh_copy.default", "aten._to_copy.default",
)  # fmt: skip

_BARE = ("aten.elu.default",)
"""Operators that OpenVINO can't convert without all their arguments."""


def specs(device: str, precision: str) -> tuple[Spec, ...]:
    """Compile specs for a device ("CPU") and a precision ("f32"; "" is the device's own)."""
    name = f"HETERO:{device}" if precision else device
    return ((DEVICE, name.encode()), (HINT, precision.encode()))


def register() -> None:
    """Let ExecuTorch's compiler of OpenVINO delegates follow our specs; others it takes as ever."""
    stock = preprocess.openvino_compile
    if not hasattr(stock, "stock"):
        preprocess.openvino_compile = _following(stock)


def _following(stock: Callable[..., Any]) -> Callable[..., Any]:
    def openvino_compile(module: Any, *args: Any, options: dict[str, str]) -> Any:
        if HINT not in options:
            return stock(module, *args, options=options)
        return _Compiled(compile_blob(module, args, options[DEVICE], options[HINT]))

    openvino_compile.stock = stock  # type: ignore[attr-defined]
    return openvino_compile


class _Compiled:
    """What `preprocess` asks of a compiled model."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob

    def export_model(self) -> io.BytesIO:
        return io.BytesIO(self._blob)


def compile_blob(module: Any, args: Any, device: str, precision: str) -> bytes:
    """Compile an FX module.

    Args:
        module: a `torch.fx.GraphModule` of ATen or edge operators with static shapes.
        args: fake tensors, one for each placeholder: their shapes and dtypes.
        device: OpenVINO's device name.
        precision: the precision hint, "" for none.

    Raises:
        LoweringError: OpenVINO has no such device here.
    """
    import openvino

    core = openvino.Core()
    base = device.removeprefix("HETERO:")
    if base not in core.available_devices:
        raise LoweringError(
            f"OpenVINO has no device {base} here, only {', '.join(core.available_devices)}: "
            "set options.openvino.device"
        )
    model = _model(module, args)
    blob: bytes = core.compile_model(model, base).export_model().getvalue()
    if not precision:
        return blob
    return _envelope(base, precision, len(model.inputs), len(model.outputs)) + blob


def _model(module: Any, args: Any) -> Any:
    from openvino import PartialShape
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.fx_decoder import TorchFXPythonDecoder
    from openvino.frontend.pytorch.utils import pt_to_ov_type_map
    from openvino.preprocess import PrePostProcessor

    _copies_as_views(module)
    _numbers_written_out(module)
    module.recompile()
    frontend = FrontEndManager().load_by_framework("pytorch")
    decoder = TorchFXPythonDecoder(module)  # must outlive the conversion
    model = frontend.convert(frontend.load(decoder))
    for given, value in zip(model.inputs, args, strict=True):
        node = given.get_node()
        node.set_element_type(pt_to_ov_type_map[str(value.dtype)])
        node.set_partial_shape(PartialShape(list(value.shape)))
    model.validate_nodes_and_infer_types()
    steps = PrePostProcessor(model)
    for i, dtype in enumerate(_dtypes(module)):  # OpenVINO's own may differ (int32 sums, indices)
        steps.output(i).tensor().set_element_type(pt_to_ov_type_map[str(dtype)])
    model = steps.build()
    _copy_through(model)
    return model


def _copies_as_views(module: Any) -> None:
    """Make each copy of the module an op: OpenVINO's would be the same tensor under two names.

    It can't convert a module that returns such a tensor under both.
    """
    for node in module.graph.nodes:
        if node.op == "call_function" and getattr(node.target, "__name__", "") in _COPIES:
            source = node.args[0]
            if source.meta["val"].dtype == node.meta["val"].dtype:
                node.target = torch.ops.aten.view_copy.default
                node.args, node.kwargs = (source, list(node.meta["val"].shape)), {}


def _numbers_written_out(module: Any) -> None:
    """Give operators the numbers that they would take by default: OpenVINO doesn't know those."""
    for node in module.graph.nodes:
        if node.op == "call_function" and getattr(node.target, "__name__", "") in _BARE:
            schema = node.target._schema.arguments
            left = schema[len(node.args) :]
            node.args = (*node.args, *(one.default_value for one in left))


def _copy_through(model: Any) -> None:
    """Put a reshape in front of results that are inputs: the CPU plugin would not write them."""
    from openvino import opset13

    for result in model.get_results():
        source = result.input_value(0)
        if source.get_node().get_type_name() == "Parameter":
            shape = opset13.constant(np.array(list(source.get_shape()), np.int64))
            same = opset13.reshape(source, shape, special_zero=False)
            result.input(0).replace_source_output(same.output(0))


def _dtypes(module: Any) -> list[Any]:
    """Of what the module returns, in order."""
    returned: list[Any] = []
    torch.fx.node.map_arg(module.graph.output_node().args, returned.append)
    return [node.meta["val"].dtype for node in returned]


def _envelope(device: str, precision: str, inputs: int, outputs: int) -> bytes:
    """What HETERO writes in front of the blob of the one device that it gave everything to.

    Written here, because HETERO itself cuts what isn't connected into parts, and OpenVINO can't
    load a blob of several parts. Format: `export_model` of OpenVINO's HETERO plugin.
    """
    root = Element("hetero", name="cede")
    for name, count in (
        ("inputs_to_submodels_inputs", inputs),
        ("outputs_to_submodels_outputs", outputs),
    ):
        pairs = SubElement(root, name)
        for i in range(count):
            SubElement(pairs, "pair", submodel_idx="0", node_idx=str(i))
    SubElement(root, "submodels_input_to_prev_output")
    SubElement(SubElement(root, "compiled_submodels"), "compiled_submodel", device=device)
    config = SubElement(root, "hetero_config")
    SubElement(config, "config", key="MULTI_DEVICE_PRIORITIES", value=device)
    SubElement(config, "config", key=HINT, value=precision)
    return b'<?xml version="1.0"?>' + tostring(root) + b"\n"
