"""Weight encodings: blocks of weights that share scales, byte for byte as GGUF files have them.

The layouts are those of ggml (https://github.com/ggml-org/ggml, `src/ggml-common.h`) and of the
GGUF format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
"""

from cede.quant.encodings.find import find, names, remember
from cede.quant.encodings.record import BlockEncoding
from cede.quant.encodings.tensor import QuantizedTensor, quantize

__all__ = ["BlockEncoding", "QuantizedTensor", "find", "names", "quantize", "remember"]
