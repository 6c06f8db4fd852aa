"""The Vulkan backend: ExecuTorch's delegate for GPUs, lowered here, run where Vulkan is linked."""
