"""Architectures of transformers at the sizes that people use, on three engines: ``nox -s real``."""
