"""The native backend: ExecuTorch's own graph runtime."""
