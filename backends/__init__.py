"""Built-in plugins: one folder per backend, each with a plugin.py that yields its records."""

if __name__ == "backends":
    raise ImportError("import cede.backends: this folder is part of the cede package")
