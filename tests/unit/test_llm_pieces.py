"""Text of tokens as they come, and transformers whose norms and rotations are products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sentencepiece
import torch
from tokenizers import Tokenizer as Inner
from tokenizers import decoders, models, pre_tokenizers

from cede.errors import ConfigError
from cede.llm import load_settings
from cede.llm.build import prepare
from cede.llm.calls import calls_with
from cede.llm.pieces import Pieces
from cede.llm.products import as_products
from cede.llm.tokens import Tokenizer, load_tokenizer
from cede.llm.upstream import transformer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def bytewise() -> Tokenizer:
    """A token for each byte, and one that is left out of texts."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Inner(models.BPE({text: i for i, text in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<end>"])
    return Tokenizer(size=257, bos=None, eos=(), begins=False, template="", inner=inner)


def test_pieces_are_the_text(bytewise: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "naïve café - 你好 🙂, " * 20
    ids = bytewise.encode(text)
    decoded: list[int] = []
    decode = Tokenizer.decode
    monkeypatch.setattr(
        Tokenizer, "decode", lambda self, ids: decoded.append(len(ids)) or decode(self, ids)
    )
    pieces = Pieces(bytewise)
    made = [pieces.add(token) for token in ids]
    assert "".join(made) + pieces.rest() == text
    assert "\ufffd" not in "".join(made)
    assert max(decoded) <= 8  # two characters at most, however long the text

    pieces = Pieces(bytewise)
    torn = [*bytewise.encode("a"), 256, *bytewise.encode("é")[:1]]
    assert [pieces.add(token) for token in torn] == ["a", "", ""]
    assert pieces.rest() == "\ufffd"


RANDOM = ["base.checkpoint=null", "base.random_weights=true", "export.max_seq_length=5"]


def test_a_text_is_read_in_calls(bytewise: Tokenizer) -> None:
    llm = load_settings("smollm2-8da4w", RANDOM).llm
    calls = calls_with("ten bytes!", bytewise, llm)
    assert [call[0].shape[1] for call in calls] == [4, 4, 2]
    assert torch.cat([call[0] for call in calls], 1).tolist() == [bytewise.encode("ten bytes!")]
    assert all(call[1]["input_pos"].tolist() == [0] for call in calls)
    with pytest.raises(ConfigError, match="there is no tokenizer: give"):
        prepare(load_settings("smollm2-8da4w", RANDOM))


SIZES: dict[str, Any] = {
    "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 64,
    "head_dim": 8, "max_seq_len": 16, "max_context_len": 16, "generate_full_logits": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"use_hf_rope": True, "partial_rotary_factor": 0.5},
        {"use_hf_rope": True, "use_qk_norm": True, "qk_norm_before_rope": True},
        {"use_qk_norm": True, "qk_norm_affine": False, "rms_norm_add_unit_offset": True},
    ],
    ids=["neighbours", "half of a head", "norms before", "norms after"],
)
def test_products_compute_the_same(more: dict[str, Any]) -> None:
    model = transformer(SIZES | more)
    torch.manual_seed(0)
    state = {name: torch.randn(value.shape) for name, value in model.named_parameters()}
    model.load_state_dict(state, strict=False, assign=True)
    ids = torch.randint(0, 64, (1, 11))
    with torch.no_grad():
        wanted = model(ids)
        torch.testing.assert_close(as_products(model)(ids), wanted, rtol=1e-4, atol=1e-4)


def test_a_model_of_sentencepiece(tmp_path: Path) -> None:
    """Ids that are no tokens, which a model with more places may choose, have no text."""
    text = "\n".join(f"the cat number {i} sat on a mat near dog {i * 7}" for i in range(40))
    (tmp_path / "text.txt").write_text(text)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"), model_prefix=str(tmp_path / "tiny"), vocab_size=60,
        model_type="bpe", minloglevel=2,
    )  # fmt: skip
    made = load_tokenizer(tmp_path / "tiny.model")
    [begin, *ids] = made.encode("the cat sat on a dog")
    assert begin == made.bos
    assert made.decode([*ids, made.size, made.size + 9]) == "the cat sat on a dog"
    pieces = Pieces(made)
    assert "".join([*map(pieces.add, ids), pieces.rest()]) == "the cat sat on a dog"
