"""Evaluation: measures how much accuracy artifacts lose on a data set, compared with PyTorch.

Each item is read once, and runs through PyTorch and through the engine of every artifact. Each
engine runs in a separate child process. Items are evaluated in shards (ranges of items), on this
machine or on an executor's workers, and the results are merged in the order of the items.
"""
