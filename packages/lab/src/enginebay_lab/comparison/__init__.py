"""Comparison of one model on several backends and precisions, one row for each."""
