"""Sweeps: many models on many backends; each cell is a task for any executor.

A cell and its row are plain data. A worker that fails costs the rows of its cells, and the sweep
continues.
"""
