"""The WebGPU backend: ExecuTorch's delegate for browsers, compiled by Vulkan's compiler."""
