"""The Core ML backend: ExecuTorch's delegate for Apple's CPU, GPU and Neural Engine."""
