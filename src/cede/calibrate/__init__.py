"""Measuring costs on this machine through ExecuTorch's runtime: `cede.calibrate.run.calibrate`.

cases (small programs) -> clock (lower and run them) -> fit -> profile
"""
