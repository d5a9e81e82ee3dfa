"""Evaluation: the accuracy that artifacts lose on a data set, compared with PyTorch.

Each item is read once, and runs through PyTorch and through every artifact, whose engine has a
child process of its own. Results are computed per shard of the items and merged in the order of
the items, on this machine or on an executor's workers.
"""
