"""A lowered LLM in ExecuTorch's runtime, called as its runners call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError, LoweringError
from cede.llm.metadata import BOS, EOS, KNOWN
from cede.llm.methods import FORWARD

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

    from cede.running.weights import Files


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

    def __init__(
        self,
        program: bytes | Path | str,
        weights: Files | None = None,
        method: str = FORWARD,
    ) -> None:
        """Load a program.

        Args:
            program: a `.pte` file, or its bytes.
            weights: the data files (`.ptd`) of a file that has some.
            method: to call, of those that compute.

        Raises:
            LoweringError: it can't be loaded here.
            ConfigError: it is no LLM, it has no such method, or one that can't generate: it takes
                a fixed number of tokens, and more than one or without a cache.
        """
        from cede.running.pte import read, read_file

        self._pte = read(program) if isinstance(program, bytes) else read_file(program, weights)
        self._loaded: Any = None
        self._name = method
        computing = [name for name in self._pte.methods if self._pte.plan(name).inputs]
        if method not in computing:
            raise ConfigError(
                f"{self._pte.origin}: no method {method}; it has {', '.join(computing)}"
            )
        self._load()
        self.metadata = self._metadata()
        self.cached = bool(self.metadata["use_kv_cache"])
        self.context = int(self.metadata["get_max_context_len"])
        self.vocabulary = int(self.metadata["get_vocab_size"])
        self.chunk = self._chunk()
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
            raise LoweringError(f"{self._pte.origin}: {self._name} failed: {error}") from error
        return logits.reshape(-1, logits.shape[-1])[-1].to(torch.float32)

    def _chunk(self) -> int:
        """How many tokens a call takes at most; one that takes a fixed number takes one."""
        from cede.running.signature import signature_of

        tokens = signature_of(self._pte, self._name).inputs[0]
        if tokens.dynamic:
            return tokens.shape[-1]
        if not self.cached:
            raise ConfigError(
                f"{self._pte.origin}: {self._name} takes a fixed number of tokens and keeps no"
                " cache: export with model.use_kv_cache or model.enable_dynamic_shape"
            )
        if tokens.shape[-1] != 1:
            raise ConfigError(
                f"{self._pte.origin}: {self._name} takes {tokens.shape[-1]} tokens a call, neither"
                " one nor as many as there are: take another method"
            )
        return 1

    def _load(self) -> None:
        from cede.running.runtime import RuntimeProgram

        self._loaded = RuntimeProgram(self._pte)
        self._method = self._loaded.load(self._name)

    def _metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self._loaded.methods:
            if self._pte.plan(name).inputs:
                continue
            values = self._loaded.run([], name)
            whole = name == EOS or len(values) != 1
            found[name] = list(values) if whole else values[0]
        if missing := [name for name in KNOWN[2:] if name not in found and name != "get_n_layers"]:
            raise ConfigError(
                f"{self._pte.origin}: no LLM of export_llm: it lacks {', '.join(missing)}"
            )
        return found
