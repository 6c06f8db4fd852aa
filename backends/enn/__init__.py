"""The ENN backend: Samsung's NPU, through ExecuTorch's partitioner and Samsung's SDK."""
