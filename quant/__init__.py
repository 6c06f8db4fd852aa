"""Number formats: quantizers and encodings."""

if __name__ == "quant":
    raise ImportError("import cede.quant: this folder is part of the cede package")
