"""The name of this machine, and the memory that this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: The folder with the limits of a container (cgroup v2).
_CGROUP = Path("/sys/fs/cgroup")


def host_name() -> str:
    """Return this machine's host name."""
    return os.uname().nodename


def free_memory() -> int | None:
    """Return how many bytes this process can still allocate without swapping; None if unknown.

    On Linux, this is the smaller of the kernel's estimate (``MemAvailable``) and the unused part of
    the container's memory limit.
    """
    limits = (_read_kilobytes("/proc/meminfo", "MemAvailable"), _unused_container_memory())
    return min((limit for limit in limits if limit is not None), default=None)


def peak_memory() -> int:
    """Return this process's peak resident memory in bytes."""
    # Not ru_maxrss on Linux: a child process starts with its parent's value.
    if (peak := _read_kilobytes("/proc/self/status", "VmHWM")) is not None:
        return peak
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts in bytes


def resident_memory() -> int | None:
    """Return this process's resident memory in bytes; None if unknown."""
    return _read_kilobytes("/proc/self/status", "VmRSS")


def _read_kilobytes(file: str, name: str) -> int | None:
    """Return a size in bytes from a file in ``/proc`` (``VmRSS: 5120 kB``); None if unknown."""
    with suppress(OSError):
        for line in Path(file).read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _unused_container_memory() -> int | None:
    with suppress(OSError, ValueError):  # without a limit, cgroup v2 writes "max"
        limit, used = (
            int((_CGROUP / name).read_text(encoding="utf-8"))
            for name in ("memory.max", "memory.current")
        )
        return max(0, limit - used)
    return None
