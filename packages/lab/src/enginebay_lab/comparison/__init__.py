"""Comparison: one model on several backends and precisions, a row for each."""
