"""This machine: its name, and the cores and the memory that this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def host_name() -> str:
    """The name of this machine, by which rows and messages tell machines apart."""
    return os.uname().nodename


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory() -> int | None:
    """Bytes that this process may still take without swapping; None where the system does not say.

    On Linux what the kernel estimates (``MemAvailable``), or what is left of the container's limit.
    """
    free = [each for each in (_available(), _left_of_limit()) if each is not None]
    return min(free, default=None)


def peak_memory() -> int:
    """The most memory that this process ever had in RAM, in bytes.

    Not ``ru_maxrss`` on Linux: a child starts with its parent's there.
    """
    if (peak := _own("VmHWM")) is not None:
        return peak
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int | None:
    """The memory that this process has in RAM, in bytes; None where the system does not say."""
    return _own("VmRSS")


def _own(name: str) -> int | None:
    return _kilobytes("/proc/self/status", name)


def _available() -> int | None:
    return _kilobytes("/proc/meminfo", "MemAvailable")


def _kilobytes(file: str, name: str) -> int | None:
    """A line of a file of the Linux kernel, in bytes: ``VmRSS:    5120 kB``."""
    with suppress(OSError):
        for line in Path(file).read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _left_of_limit() -> int | None:
    """Of a control group of version 2; its file says ``max`` where there is no limit."""
    with suppress(OSError, ValueError):
        limit, used = (
            int((_CGROUP / name).read_text(encoding="utf-8"))
            for name in ("memory.max", "memory.current")
        )
        return max(0, limit - used)
    return None
