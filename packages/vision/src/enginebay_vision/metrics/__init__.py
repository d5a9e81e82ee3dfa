"""Metrics that compare results of tasks with annotations."""
