"""Comparison of one model's artifacts on several backends and at several precisions."""
