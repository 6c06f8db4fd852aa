"""The CUDA backend: NVIDIA GPUs, compiled by torch's AOTInductor."""
