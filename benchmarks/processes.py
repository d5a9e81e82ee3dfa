"""Time and memory of a command with all the processes that it starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERVAL = 0.005


class Cost(NamedTuple):
    """The seconds that a command took: by the clock, and of the processors with its children."""

    wall: float
    processor: float


def cost(command: Sequence[str]) -> Cost:
    """Run a command to its end."""
    before, start = os.times(), time.perf_counter()
    _finished(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE), command)
    wall, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    return Cost(wall, used - before.children_user - before.children_system)


def peak_memory(command: Sequence[str]) -> int:
    """The most resident memory that a command and its children held at one moment, in bytes.

    Sampled every 5 ms as the sum over the processes, pages that they share counted in each; never
    less than what the system has seen in the command's own process.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    root = psutil.Process(process.pid)
    peak = 0
    while True:
        pid, status = os.waitpid(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, _resident(root))
        time.sleep(_INTERVAL)
    process.returncode = os.waitstatus_to_exitcode(status)
    _finished(process, command)
    return peak


def _resident(root: psutil.Process) -> int:
    """The memory of a process and its children.

    A child whose command line is still its parent's is about to become another program, and until
    then all its memory is the parent's own.
    """
    try:
        command = root.cmdline()
        children = [child for child in root.children(recursive=True) if child.cmdline() != command]
        now = sum(process.memory_info().rss for process in (root, *children))
        return max(now, _highest(root.pid))
    except (psutil.Error, OSError):  # one has ended in between; there will be another sample
        return 0


def _highest(pid: int) -> int:
    """The most that a process has held until now; 0 for one that has ended.

    The end's ``ru_maxrss`` will not do: before it runs the command, the child is a part of this
    process, and what this one holds counts.
    """
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _finished(process: subprocess.Popen[bytes], command: Sequence[str]) -> None:
    _, errors = process.communicate()
    if process.returncode:
        sys.stderr.write(errors.decode(errors="replace"))
        raise SystemExit(f"exit code {process.returncode} of: {' '.join(command)}")
