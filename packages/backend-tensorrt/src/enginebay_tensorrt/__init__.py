"""NVIDIA TensorRT as an Enginebay backend."""

__version__ = "0.1.0"
