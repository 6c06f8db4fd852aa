"""Text of tokens that come one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cede.llm.tokens import Tokenizer

TORN = "\ufffd"
"""What a decoder gives for half a character."""


class Pieces:
    """Decodes as tokens come; each is decoded a few times, however long the text gets.

    The tokens of the last piece are decoded with the new ones, since some decoders drop a space in
    front of the first.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._last: list[int] = []
        self._new: list[int] = []

    def add(self, token: int) -> str:
        """The text that a token completes, "" for none."""
        self._new.append(token)
        text = self._text()
        if not text or text.endswith(TORN):
            return ""
        self._last, self._new = self._new, []
        return text

    def rest(self) -> str:
        """What tokens made and did not complete."""
        return self._text() if self._new else ""

    def _text(self) -> str:
        before = self._tokenizer.decode(self._last) if self._last else ""
        return self._tokenizer.decode([*self._last, *self._new])[len(before) :]
