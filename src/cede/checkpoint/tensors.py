"""`TensorDict`: named tensors as a value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from cede.errors import CheckpointError

if TYPE_CHECKING:
    import torch

    from cede.quant.encodings import QuantizedTensor

    Held: TypeAlias = torch.Tensor | QuantizedTensor


class TensorDict(Mapping[str, "Held"]):
    """Named tensors, in order. A value: it never changes, and equal contents make it equal.

    Tensors are copied on their way in and out, parameters become plain tensors on the CPU.

    Attributes:
        metadata: a copy of what the file says besides; strings, numbers, booleans and lists of
            them by name.
    """

    __slots__ = ("_held", "_metadata")

    def __init__(
        self, tensors: Mapping[str, Held], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Copy.

        Raises:
            CheckpointError: a name that is no text, something that is no dense tensor, or metadata
                of another kind.
        """
        held = {name: _copied(name, value) for name, value in tensors.items()}
        self._fill(held, _plain(dict(metadata or {})))

    def _fill(self, held: dict[str, Held], metadata: dict[str, Any]) -> None:
        self._held, self._metadata = held, metadata

    @classmethod
    def holding(cls, held: dict[str, Held], metadata: dict[str, Any]) -> TensorDict:
        """One that owns these fresh tensors, without another copy."""
        result = cls.__new__(cls)
        result._fill(held, metadata)
        return result

    @property
    def metadata(self) -> dict[str, Any]:
        """A copy of what the file says besides."""
        return _plain(self._metadata)

    def __getitem__(self, name: str) -> Held:
        value = self._held[name]
        return value if _is_quantized(value) else value.clone()  # type: ignore[union-attr]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def __or__(self, other: Mapping[str, Held]) -> TensorDict:
        """Both together; the other's tensors and metadata win."""
        more = other if isinstance(other, TensorDict) else TensorDict(other)
        return TensorDict.holding({**self._held, **more._held}, {**self.metadata, **more.metadata})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorDict):
            return NotImplemented
        return (
            self._held.keys() == other._held.keys()
            and self._metadata == other._metadata
            and all(_same(value, other._held[name]) for name, value in self._held.items())
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(value.nbytes for value in self._held.values())

    def held(self) -> dict[str, Held]:
        """The tensors themselves, not to be written to."""
        return dict(self._held)

    def dequantize(self) -> dict[str, torch.Tensor]:
        """All as plain tensors, encoded ones decoded, as `nn.Module.load_state_dict` takes them."""
        return {
            name: value.dequantize() if _is_quantized(value) else value  # type: ignore[misc]
            for name, value in self.items()
        }

    def __repr__(self) -> str:
        return f"TensorDict({len(self)} tensors, {self.nbytes:,} bytes)"


def _is_quantized(value: object) -> bool:
    from cede.quant.encodings import QuantizedTensor

    return isinstance(value, QuantizedTensor)


def _copied(name: str, value: Held) -> Held:
    import torch

    if not isinstance(name, str) or not name:
        raise CheckpointError(f"a tensor is named {name!r}: a name is a text that isn't empty")
    if _is_quantized(value):
        return value
    if not isinstance(value, torch.Tensor):
        raise CheckpointError(f"{name} is a {type(value).__name__}, no tensor")
    if value.layout is not torch.strided or value.is_meta or value.is_quantized:
        raise CheckpointError(f"{name} is no dense tensor with values: make it one before saving")
    return value.detach().cpu().clone(memory_format=torch.contiguous_format)


def _plain(metadata: dict[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing."""
    try:
        copied: dict[str, Any] = json.loads(json.dumps(metadata))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"metadata can't be stored: {error}") from None
    return copied


def _same(one: Held, other: Held) -> bool:
    import torch

    if _is_quantized(one) or _is_quantized(other):
        return bool(one == other)
    assert isinstance(one, torch.Tensor)  # noqa: S101
    assert isinstance(other, torch.Tensor)  # noqa: S101
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    # bit by bit, so that a NaN is itself
    return one.reshape(-1).view(torch.uint8).equal(other.reshape(-1).view(torch.uint8))
