"""Enginebay against the bare engine: ``python -m benchmarks [GROUP …] [--json]``.

Every figure is a ratio, and both of its sides are measured in the same run, turn by turn, so that
it means the same on any machine. Nothing here is part of the tests: a busy machine may miss a
limit.
"""
