"""Sweeps: many models on many backends; each cell is a task for any executor.

A cell and its row are plain data. If a worker fails, the rows of its cells record the failure, and
the sweep continues.
"""
