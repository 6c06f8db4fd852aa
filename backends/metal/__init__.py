"""The Metal backend: Apple's GPU, through ExecuTorch's MLX delegate or through Core ML."""
