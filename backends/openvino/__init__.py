"""The OpenVINO backend: Intel's runtime behind ExecuTorch's delegate."""
