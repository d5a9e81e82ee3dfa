"""Evaluation: what a deployment costs in accuracy, on a data set, beside PyTorch.

Each item is read once and passes through PyTorch and through every artifact, whose engine runs in
a child process of its own. Figures are those of shards of the items, merged in order, whether this
process computes them or an executor's workers do.
"""
