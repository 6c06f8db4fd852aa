"""The Neutron backend: NXP's NPU, through ExecuTorch's partitioner and NXP's SDK."""
