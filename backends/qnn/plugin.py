"""QNN's records: the stock partitioner adopted, kept from downloading an SDK."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.running.linked import is_linked, shipped
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner

DELEGATE_ID = "QnnBackend"
LIBRARY = "libQnnHtp.so"


@dataclass(frozen=True, kw_only=True)
class QnnOptions:
    """Options of the QNN backend.

    Attributes:
        soc: the chip to compile for, a name of ExecuTorch's `QcomChipset`.
        fp16: compute float ops in float16; otherwise only quantized ops are claimed.
        skip_mutable_buffer: keep buffers that the program writes outside the delegates.
    """

    soc: str = "SM8650"
    fp16: bool = True
    skip_mutable_buffer: bool = False


def leave_sdk_alone() -> None:
    """Keep ExecuTorch from fetching an SDK: with `QNN_SDK_ROOT` set, if empty, it never does."""
    os.environ.setdefault("QNN_SDK_ROOT", "")


def _stock(options: QnnOptions) -> Any:
    leave_sdk_alone()
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils.utils import (
        generate_htp_compiler_spec,
        generate_qnn_executorch_compiler_spec,
    )

    chips = QcomChipset.__members__
    if options.soc not in chips:
        raise ValueError(f"options.qnn.soc: {options.soc!r} is none of {', '.join(chips)}")
    specs = generate_qnn_executorch_compiler_spec(
        soc_model=chips[options.soc],
        backend_options=generate_htp_compiler_spec(use_fp16=options.fp16),
    )
    return QnnPartitioner(specs, skip_mutable_buffer=options.skip_mutable_buffer)


def _register() -> None:
    leave_sdk_alone()
    import executorch.backends.qualcomm.qnn_preprocess  # noqa: F401


def available() -> Availability:
    """All of it asks Qualcomm's libraries, which the loader must find."""
    sdk = (
        f"Qualcomm's {LIBRARY} is in no folder of LD_LIBRARY_PATH: install the Qualcomm AI Engine"
        " Direct SDK, set QNN_SDK_ROOT to it and start with"
        " LD_LIBRARY_PATH=$QNN_SDK_ROOT/lib/x86_64-linux-clang"
    )
    folders = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    found = any(Path(folder, LIBRARY).is_file() for folder in folders)
    why = None if found else sdk
    run = why
    if not is_linked(DELEGATE_ID):
        run = "ExecuTorch's runtime here is built without QNN: run the program on the device"
    if not shipped("backends/qualcomm/python/PyQnnManagerAdaptor*"):
        why = "this executorch is built without its QNN compiler: install a build for Linux x86-64"
    return Availability(claim=why, lower=why, run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner; it asks Qualcomm's libraries about every op."""
    yield Adopted(name="qnn", backend="qnn", delegate_id=DELEGATE_ID, make=_stock)


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """Qualcomm's NPU."""
    yield Backend(
        name="qnn",
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        options=QnnOptions,
    )
