"""The QNN backend: Qualcomm's NPU, through ExecuTorch's partitioner and Qualcomm's SDK."""
