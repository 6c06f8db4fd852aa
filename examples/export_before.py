"""An export script as ExecuTorch's documentation has it: `export_before.py OUTPUT.pte`."""

import sys

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)
).eval()
program = torch.export.export(model, (torch.randn(1, 3, 8, 8),))
edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
edge.to_executorch().save(sys.argv[1])
