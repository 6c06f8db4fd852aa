"""Two small models: one that a backend takes whole, one with an op that most of them leave."""

import torch
from torch import nn


def classifier():
    """Linear layers and a softmax."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.Softmax(-1))
    return model, (torch.randn(4, 64),)


def counter():
    """Sums up what a linear layer makes."""

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.score = nn.Linear(64, 64)

        def forward(self, x):
            return torch.cumsum(self.score(x), -1)

    torch.manual_seed(0)
    return Counter(), (torch.randn(4, 64),)
