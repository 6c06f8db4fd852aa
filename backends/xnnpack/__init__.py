"""The XNNPACK backend: ExecuTorch's CPU delegate."""
