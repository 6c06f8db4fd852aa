"""The NeuroPilot backend: MediaTek's NPU, through ExecuTorch's partitioner."""
