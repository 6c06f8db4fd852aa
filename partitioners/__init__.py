"""What may go to a backend, and why not: tools to write partitioners."""

if __name__ == "partitioners":
    raise ImportError("import cede.partitioners: this folder is part of the cede package")
