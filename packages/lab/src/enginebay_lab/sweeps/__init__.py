"""Sweeps: many models on many backends, each cell a task for any executor.

A cell is plain data and its row is, too; what happens to a worker is a row, and no end of the
sweep.
"""
