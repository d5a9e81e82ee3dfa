"""Benchmarks of artifacts on this machine: interleaved measurement with confidence intervals.

Each benchmark subject (an artifact or a PyTorch model) is loaded in its own child process. The
subjects take turns in short windows, and sleep while another one runs, so that a disturbance of the
machine slows all of them equally. Windows are added until their medians agree or the time is up.
"""
