"""Diagnosis of artifacts: where an engine differs from PyTorch, and the cost of 8-bit layers."""
