"""LLMs: `export_llm`'s YAML to a `.pte`, and text from it.

settings (YAML, checked at once) -> params and weights -> build (ExecuTorch's transformer, rewritten
and quantized) -> export (planned and lowered) -> chat (text from the runtime)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.lazy import lazily

if TYPE_CHECKING:
    from cede.llm.export import Exported, export_llm
    from cede.llm.generating import Chat, Generated, generate
    from cede.llm.runner import LlmProgram
    from cede.llm.sampling import Sampling
    from cede.llm.settings import LlmSettings, load_settings, ready_llm_configs
    from cede.llm.tokens import Tokenizer, load_tokenizer

_HOME = {
    "cede.llm.export": ("Exported", "export_llm"),
    "cede.llm.generating": ("Chat", "Generated", "generate"),
    "cede.llm.runner": ("LlmProgram",),
    "cede.llm.sampling": ("Sampling",),
    "cede.llm.settings": ("LlmSettings", "load_settings", "ready_llm_configs"),
    "cede.llm.tokens": ("Tokenizer", "load_tokenizer"),
}

__all__ = [
    "Chat",
    "Exported",
    "Generated",
    "LlmProgram",
    "LlmSettings",
    "Sampling",
    "Tokenizer",
    "export_llm",
    "generate",
    "load_settings",
    "load_tokenizer",
    "ready_llm_configs",
]


__getattr__ = lazily(__name__, _HOME)
