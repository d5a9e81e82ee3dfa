"""Functions that find where an engine differs from PyTorch, and which 8-bit layers cause errors."""
