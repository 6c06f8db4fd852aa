"""Checkpoints: named tensors, encoded ones included, in safetensors and GGUF files.

cede.checkpoint.save("model.gguf", {"w": cede.quantize(weight, "q4_k"), "b": bias})
cede.checkpoint.load("model.gguf")["w"].dequantize()
"""

from cede.checkpoint.file import keys, load, save
from cede.checkpoint.tensors import TensorDict

__all__ = ["TensorDict", "keys", "load", "save"]
