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
    """The wall seconds of a command, and its processor seconds with its children."""

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
    """Return the peak of the memory of a command and its children, in bytes.

    The sum of what belongs to each process alone and stands in no file, sampled every 5 ms: what
    the system can drop and read again, such as mapped weights, is left out.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    root = psutil.Process(process.pid)
    peak = 0
    while True:
        pid, status = os.waitpid(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, _needed(root))
        time.sleep(_INTERVAL)
    process.returncode = os.waitstatus_to_exitcode(status)
    _finished(process, command)
    return peak


def _needed(root: psutil.Process) -> int:
    """Return the anonymous memory of a process and its children.

    A child with its parent's command line is about to become a different program; until then all
    its memory belongs to the parent.
    """
    try:
        command = root.cmdline()
        children = [child for child in root.children(recursive=True) if child.cmdline() != command]
        return sum(_anonymous(process.pid) for process in (root, *children))
    except (psutil.Error, OSError):  # a process has ended meanwhile; the next sample follows
        return 0


def _anonymous(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _finished(process: subprocess.Popen[bytes], command: Sequence[str]) -> None:
    _, errors = process.communicate()
    if process.returncode:
        sys.stderr.write(errors.decode(errors="replace"))
        raise SystemExit(f"exit code {process.returncode} of: {' '.join(command)}")
