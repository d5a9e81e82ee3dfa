"""Enginebay against the bare engine: ``python -m benchmarks [GROUP …] [--json]``.

Every figure is a ratio, and both sides are measured in the same run, turn by turn, so that it is
comparable between machines. The benchmarks are not part of the tests: a busy machine may miss a
limit.
"""
