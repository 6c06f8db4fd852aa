"""Text from a lowered LLM, in ExecuTorch's runtime."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError
from cede.llm.pieces import Pieces
from cede.llm.runner import LlmProgram
from cede.llm.sampling import Sampling
from cede.llm.tokens import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@dataclass(slots=True, kw_only=True)
class Generated:
    """A text that is being made: iterate for its pieces.

    Attributes:
        tokens: ids made so far.
        prompt_tokens: ids of the prompt, those that the cache held included.
        prefilled: ids of the prompt that were computed.
        prefill_seconds: for these.
        decode_seconds: for all tokens after the first.
        stop: why it ended: "eos", "length" or "context"; "" before that.
        forgotten: messages of a chat that its context had no room for any more.
    """

    pieces: Iterator[str] = field(repr=False, default_factory=lambda: iter(()))
    tokens: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    prefilled: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    stop: str = ""
    forgotten: int = 0

    def __iter__(self) -> Iterator[str]:
        return self.pieces

    def text(self) -> str:
        """The rest of the text, made to its end."""
        return "".join(self.pieces)

    @property
    def speed(self) -> str:
        """Tokens a second, as a line."""
        made = max(len(self.tokens) - 1, 0)
        return (
            f"prefill {self.prefilled} tokens, {_rate(self.prefilled, self.prefill_seconds)};"
            f" decode {made} tokens, {_rate(made, self.decode_seconds)}"
        )


def generate(
    program: LlmProgram | Path | str,
    prompt: str | Sequence[int],
    tokenizer: Tokenizer | Path | str,
    *,
    max_tokens: int = 128,
    sampling: Sampling | None = None,
) -> Generated:
    """Continue a prompt, piece by piece.

    Args:
        program: a `.pte` of `cede export-llm` or `export_llm`, or one that is loaded.
        prompt: a text, or ids.
        tokenizer: what `load_tokenizer` takes.
        max_tokens: the most tokens to make.
        sampling: how a token is chosen; None takes the likeliest.

    Raises:
        ConfigError: a prompt that is empty or longer than the context, or no tokenizer.
        LoweringError: the program can't be loaded or run here.
    """
    if not isinstance(program, LlmProgram):
        program = LlmProgram(program)
    if not isinstance(tokenizer, Tokenizer):
        tokenizer = load_tokenizer(tokenizer)
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
    _insist_on_ids(ids, program)
    made = Generated(prompt_tokens=len(ids))
    made.pieces = _pieces(program, ids, tokenizer, max_tokens, sampling or Sampling(), made)
    return made


def _insist_on_ids(ids: list[int], program: LlmProgram) -> None:
    if not ids:
        raise ConfigError("the prompt is empty")
    if len(ids) >= program.context:
        raise ConfigError(
            f"the prompt has {len(ids)} tokens, the program's context {program.context}; export"
            " with a larger export.max_context_length"
        )
    if (highest := max(ids)) >= program.vocabulary:
        raise ConfigError(
            f"the tokenizer gives token {highest}, the program has {program.vocabulary}: they are"
            " of different models"
        )


@dataclass(slots=True, kw_only=True)
class Chat:
    """A conversation; the program's cache keeps what was said.

    Attributes:
        program: loaded.
        tokenizer: with a chat template.
        messages: so far.
    """

    program: LlmProgram
    tokenizer: Tokenizer
    messages: list[dict[str, str]] = field(default_factory=list)

    def ask(
        self, text: str, *, max_tokens: int = 256, sampling: Sampling | None = None
    ) -> Generated:
        """Say something; the answer is added to the messages when it has ended.

        Where the context has no room for all of them, the oldest are forgotten, but for those of
        the system.
        """
        asked = [*self.messages, {"role": "user", "content": text}]
        ids, before = self.tokenizer.chat(asked), len(asked)
        while len(ids) >= self.program.context and (old := self._oldest(asked)):
            asked = [message for message in asked if not any(message is one for one in old)]
            ids = self.tokenizer.chat(asked)
        made = generate(self.program, ids, self.tokenizer, max_tokens=max_tokens, sampling=sampling)
        made.pieces, made.forgotten = self._kept(asked, made.pieces), before - len(asked)
        return made

    def _oldest(self, asked: list[dict[str, str]]) -> list[dict[str, str]]:
        """The first question and its answer, but not the one that is being asked."""
        return [message for message in asked[:-1] if message["role"] != "system"][:2]

    def _kept(self, asked: list[dict[str, str]], pieces: Iterator[str]) -> Iterator[str]:
        said = []
        for piece in pieces:
            said.append(piece)
            yield piece
        self.messages = [*asked, {"role": "assistant", "content": "".join(said)}]


def _pieces(
    program: LlmProgram,
    ids: list[int],
    tokenizer: Tokenizer,
    most: int,
    sampling: Sampling,
    made: Generated,
) -> Iterator[str]:
    ends = set(program.eos or tokenizer.eos)
    choose = sampling.chooser()
    begin = time.perf_counter()
    logits, made.prefilled = program.prefill(ids)
    made.prefill_seconds = time.perf_counter() - begin
    pieces = Pieces(tokenizer)
    while True:
        token = choose(logits)
        if token in ends:
            made.stop = "eos"
            break
        made.tokens.append(token)
        if text := pieces.add(token):
            yield text
        if len(made.tokens) >= most:
            made.stop = "length"
            break
        if len(ids) + len(made.tokens) > program.context:
            made.stop = "context"
            break
        begin = time.perf_counter()
        logits = program.step(token)
        made.decode_seconds += time.perf_counter() - begin
    if text := pieces.rest():
        yield text


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:.1f} tokens/s" if seconds > 0 and count else "no rate"


def logits_of(program: LlmProgram, ids: Sequence[int]) -> Any:
    """Logits after each of the ids, float32 [tokens, vocabulary], computed one by one."""
    import torch

    rows = [program.prefill(ids[:1])[0]]
    rows += [program.step(token) for token in ids[1:]]
    return torch.stack(rows)
