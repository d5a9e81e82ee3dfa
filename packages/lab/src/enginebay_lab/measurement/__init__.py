"""Benchmarks of artifacts on this machine: interleaved measurement with confidence intervals.

Each benchmark subject (an artifact or a PyTorch model) is loaded in a separate child process. The
subjects run in turn, each for a short window (group of timed calls) while the others sleep, so that
a disturbance of the machine slows all of them equally. The benchmark ends when the medians of the
windows agree, or when the time is up.
"""
