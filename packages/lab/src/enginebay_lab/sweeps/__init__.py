"""Sweeps: many models on many backends; a cell is one model on one backend at one precision.

A cell and its row are plain data, and each cell is a task for any executor. If a worker fails, the
rows of its cells record the failure, and the sweep continues.
"""
