"""Each constant once in the `.pte`, also where a delegate and an op that was left read it.

ExecuTorch stores the constants of ops once by content, and the named data of delegates once by
content, in segments of their own. The format (`schema/program.fbs`) lets segments lie over each
other: named data that equals a constant is pointed at the constant's bytes, and not stored.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executorch.exir._serialize._cord import Cord
from executorch.exir._serialize._flatbuffer_program import _patch_generated_flatbuffer_aliases
from executorch.exir._serialize.generated.executorch_flatbuffer.Program import Program

if TYPE_CHECKING:
    from executorch.exir import ExecutorchProgramManager

_ALIGNMENT = 128
"""Of segments, in bytes: `ExecutorchBackendConfig.segment_alignment`."""

_HEAD = struct.Struct("<4x4x4sIQQQ")
"""Behind root offset and identifier: "eh00", length, sizes of program, its base, its segments."""

_LEAST = 64
"""Smaller blobs are not worth a look."""

_OFFSET = 4
"""Of the field `offset` in the table `DataSegment`."""


@dataclass(slots=True)
class _Segment:
    """A segment: its place relative to the base, the buffers in it, and whom it lies over."""

    offset: int
    size: int
    alignment: int
    buffers: list[Any]
    over: tuple[int, int] | None = None


def store_once(executorch: ExecutorchProgramManager) -> int:
    """Change the bytes of an emitted program that nobody has read yet.

    Returns:
        How many bytes of it are gone.
    """
    cord = executorch._pte_data
    head = bytearray(cord._buffers[0])
    magic, _, size, base, total = _HEAD.unpack_from(head)
    if magic != b"eh00" or size != len(head) or len(cord) != base + total:
        return 0
    _patch_generated_flatbuffer_aliases()  # the generated classes don't find each other without
    program = Program.GetRootAs(head, 0)
    segments = _segments(program, cord, base, executorch._named_data)
    if segments is None or not _lay_over(program, segments):
        return 0
    laid = _laid_out(segments)
    if not _point(program, segments):
        return 0
    struct.pack_into("<Q", head, _HEAD.size - 8, len(laid))
    made = Cord(bytes(head))
    made.append(b"\0" * (base - len(head)))
    made.append(laid)
    executorch._pte_data, executorch._buffer = made, None
    return len(cord) - len(made)


def _segments(program: Any, cord: Cord, base: int, named: Any) -> list[_Segment] | None:
    """All segments, None where the buffers of the file don't keep to them."""
    alignments: dict[int, int] = {}
    for i in range(program.NamedDataLength()):
        given = program.NamedData(i)
        entry = named.pte_data[given.Key().decode()]
        at = given.SegmentIndex()
        alignments[at] = math.lcm(alignments.get(at, 1), entry.alignment)
    begins: dict[int, Any] = {}
    at = 0
    for buffer in cord._buffers:
        if len(buffer):  # an empty one begins where the next one does
            begins[at] = buffer
        at += len(buffer)
    found = []
    for i in range(program.SegmentsLength()):
        table = program.Segments(i)
        offset, size = table.Offset(), table.Size()
        segment = _Segment(offset, size, alignments.get(i, 1), [])
        while (done := sum(map(len, segment.buffers))) < size:
            buffer = begins.get(base + offset + done)
            if buffer is None:
                return None
            segment.buffers.append(buffer)
        if done > size:
            return None
        found.append(segment)
    return found


def _lay_over(program: Any, segments: list[_Segment]) -> bool:
    """Find the named data that equals a constant; whether there is any."""
    own = program.ConstantSegment()
    if own is None or not own.OffsetsLength():
        return False
    host = own.SegmentIndex()
    pieces: dict[tuple[int, bytes], list[tuple[int, bytes]]] = {}
    at = 0
    for buffer in segments[host].buffers:
        if isinstance(buffer, bytes) and len(buffer) >= _LEAST:
            pieces.setdefault((len(buffer), buffer[:_LEAST]), []).append((at, buffer))
        at += len(buffer)
    shared = False
    for number in {program.NamedData(i).SegmentIndex() for i in range(program.NamedDataLength())}:
        segment = segments[number]
        if len(segment.buffers) != 1 or not isinstance(segment.buffers[0], bytes):
            continue
        data = segment.buffers[0]
        for at, piece in pieces.get((len(data), data[:_LEAST]), ()):
            if at % segment.alignment == 0 and piece == data:
                segment.over, shared = (host, at), True
                break
    return shared


def _laid_out(segments: list[_Segment]) -> Cord:
    """The segments that are stored, each where it now lies, in their old order."""
    made = Cord()
    for segment in segments:
        if segment.over is not None:
            continue
        step = math.lcm(_ALIGNMENT, segment.alignment)
        if padding := -len(made) % step:
            made.append(b"\0" * padding)
        segment.offset = len(made)
        for buffer in segment.buffers:
            made.append(buffer)
    for segment in segments:
        if segment.over is not None:
            host, at = segment.over
            segment.offset = segments[host].offset + at
    return made


def _point(program: Any, segments: list[_Segment]) -> bool:
    """Write the new offsets into the program; False where one has no place there."""
    places = []
    for i, segment in enumerate(segments):
        table = program.Segments(i)._tab
        field = table.Offset(_OFFSET)
        if not field and segment.offset:
            return False
        places.append((table.Pos + field if field else None, segment.offset))
    for place, offset in places:
        if place is not None:
            struct.pack_into("<Q", program._tab.Bytes, place, offset)
    return True
