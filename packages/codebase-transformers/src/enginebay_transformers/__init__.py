"""Verified exports of transformers' models, and decoders that generate without torch."""

__version__ = "0.1.0"
