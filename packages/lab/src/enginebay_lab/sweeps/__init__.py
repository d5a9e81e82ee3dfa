"""Sweeps: deploy many models on many backends.

A sweep cell is one model on one backend at one precision; its result is a row. Cells and rows are
plain data, and each cell is a task for any executor. If a worker fails, the rows of its cells
record the failure, and the sweep continues.
"""
