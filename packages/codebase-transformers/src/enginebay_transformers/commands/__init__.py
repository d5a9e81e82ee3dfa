"""Commands of `enginebay` for transformers: one module for each."""
