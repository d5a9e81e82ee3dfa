"""Architectures of transformers at the sizes that people use: ``nox -s full-size``."""
