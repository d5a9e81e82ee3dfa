"""Metrics that compare the results of image tasks with annotations."""
