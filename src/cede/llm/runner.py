"""A lowered LLM in ExecuTorch's runtime, called as its runners call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError, LoweringError
from cede.llm.metadata import BOS, EOS, KNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

    from cede.running.weights import Files

FORWARD = "forward"


class LlmProgram:
    """A program with its state.

    Attributes:
        metadata: what the program says about itself.
        eos: tokens that end a text, () if it doesn't say.
        bos: the token that begins one, None if it doesn't say.
        context: how many tokens it remembers.
        chunk: how many tokens a call takes at most.
        vocabulary: how many tokens there are.
        cached: whether it keeps keys and values between calls.
    """

    def __init__(self, program: bytes | Path | str, weights: Files | None = None) -> None:
        """Load a program.

        Args:
            program: a `.pte` file, or its bytes.
            weights: the data files (`.ptd`) of a file that has some.

        Raises:
            LoweringError: it can't be loaded here.
            ConfigError: it is no LLM, or one that can't generate: static and without a cache.
        """
        from cede.running.pte import read, read_file

        self._pte = read(program) if isinstance(program, bytes) else read_file(program, weights)
        self._loaded: Any = None
        self._load()
        self.metadata = self._metadata()
        self.cached = bool(self.metadata["use_kv_cache"])
        self.context = int(self.metadata["get_max_context_len"])
        self.vocabulary = int(self.metadata["get_vocab_size"])
        dynamic = bool(self.metadata["enable_dynamic_shape"])
        if not (dynamic or self.cached):
            raise ConfigError(
                f"{self._pte.origin}: takes a fixed number of tokens and keeps no cache: export"
                " with model.use_kv_cache or model.enable_dynamic_shape"
            )
        self.chunk = int(self.metadata["get_max_seq_len"]) - 1 if dynamic else 1
        if not self.cached:
            self.context = self.chunk
        self.eos: tuple[int, ...] = tuple(self.metadata.get(EOS, ()))
        self.bos: int | None = self.metadata.get(BOS)
        self._held: list[int] = []

    def prefill(self, ids: Sequence[int]) -> tuple[Tensor, int]:
        """Logits after the last of the ids, float32 [vocabulary], and how many were computed.

        What the cache holds of them is not computed again; where it holds something else, it is
        emptied.
        """
        ids = list(ids)
        if self._held != ids[: len(self._held)] or len(self._held) >= len(ids):
            self.reset()
        done = len(self._held)
        logits: Tensor | None = None
        rest = ids[done:]
        for i in range(0, len(rest), self.chunk):
            logits = self._call(rest[i : i + self.chunk])
        assert logits is not None  # noqa: S101  (there is at least one)
        return logits, len(rest)

    def step(self, token: int) -> Tensor:
        """Logits after one more token, float32 [vocabulary]."""
        return self._call([token])

    def reset(self) -> None:
        """Forget what was said."""
        if self._held:
            self._load()
            self._held = []

    def _call(self, ids: list[int]) -> Tensor:
        import torch

        position = len(self._held)
        if position + len(ids) > self.context:
            raise ConfigError(f"{position + len(ids)} tokens, more than the context {self.context}")
        self._held += ids
        if self.cached:
            inputs = [torch.tensor([ids]), torch.tensor([position])]
        else:
            inputs = [torch.tensor([self._held])]
        try:
            logits: Tensor = self._method.execute(inputs)[0]
        except RuntimeError as error:
            raise LoweringError(f"{self._pte.origin}: {FORWARD} failed: {error}") from error
        return logits.reshape(-1, logits.shape[-1])[-1].to(torch.float32)

    def _load(self) -> None:
        from cede.running.runtime import RuntimeProgram

        self._loaded = RuntimeProgram(self._pte)
        self._method = self._loaded.load(FORWARD)

    def _metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self._loaded.methods:
            if name == FORWARD:
                continue
            values = self._loaded.run([], name)
            whole = name == EOS or len(values) != 1
            found[name] = list(values) if whole else values[0]
        if missing := [name for name in KNOWN[2:] if name not in found and name != "get_n_layers"]:
            raise ConfigError(
                f"{self._pte.origin}: no LLM of export_llm: it lacks {', '.join(missing)}"
            )
        return found
