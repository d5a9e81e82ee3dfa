"""Finds where an engine differs from PyTorch, and how much error each 8-bit layer causes."""
