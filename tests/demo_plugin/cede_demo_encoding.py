"""A weight encoding of somebody else: 16 weights that share a scale, each -1, 0 or 1."""

import cede


class Ternary:
    name, block_size, bits_per_weight = "demo_ternary", 16, 3.0
    layout = (
        cede.Field(name="d", dtype="float16"),
        cede.Field(name="signs", dtype="uint8", count=4),
    )

    def quantize(self, values):
        import numpy as np

        d = np.abs(values).mean(-1, keepdims=True).astype("<f2")
        steps = (np.round(values / np.maximum(d, 1e-7)).clip(-1, 1) + 1).astype(np.uint8)
        signs = steps[:, :4] | steps[:, 4:8] << 2 | steps[:, 8:12] << 4 | steps[:, 12:] << 6
        return np.concatenate([d.view(np.uint8), signs], -1)

    def dequantize(self, data):
        import numpy as np

        d = np.ascontiguousarray(data[:, :2]).view("<f2").astype(np.float32)
        steps = np.concatenate([data[:, 2:] >> shift & 3 for shift in (0, 2, 4, 6)], -1)
        return (steps.astype(np.float32) - 1) * d


@cede.hookimpl
def cede_encodings():
    yield Ternary()
