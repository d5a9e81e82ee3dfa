"""The version of Enginebay and of all distributions of its repository."""

__version__ = "0.1.0"
