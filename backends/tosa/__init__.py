"""The TOSA backend: ExecuTorch's Arm compiler up to TOSA, run in TOSA's reference model."""
