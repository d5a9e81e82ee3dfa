"""A child process of a test, and the processes that it leaves running."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The environment variable that marks all descendants of a child process.
MARK = "ENGINEBAY_CONFORMANCE_RUN"

#: Time limit in seconds for the end of a child's descendants, on a busy machine.
PATIENCE = 10.0

_PROC = Path("/proc")


class Child:
    """A running process whose output goes to files: a descendant that holds them hangs nobody.

    Args:
        words: The command line.
        env: The environment.
        folder: An existing folder for the files with the output.
        options: Options of ``subprocess.Popen``.
    """

    def __init__(
        self, words: Sequence[str], env: Mapping[str, str], folder: Path, **options: Any
    ) -> None:
        self._mark = uuid.uuid4().hex
        self._files = [folder / f"{self._mark}.{name}" for name in ("out", "err")]
        out, err = (file.open("wb") for file in self._files)
        with out, err:
            self.process = subprocess.Popen(
                words, env={**env, MARK: self._mark}, stdout=out, stderr=err, **options
            )

    def wait(self, seconds: float) -> int:
        """Wait for the end, and return the exit status.

        Raises:
            AssertionError: The process was still running after ``seconds``, and was killed.
        """
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(
                f"expected the child process to end within {seconds:g} s, found it running"
            ) from None

    def read(self) -> tuple[str, str]:
        """Return what was written to stdout and to stderr."""
        out, err = (file.read_text(encoding="utf-8", errors="replace") for file in self._files)
        return out, err

    def end_left(self) -> list[str]:
        """Wait for the descendants; kill those that do not end, and return ``pid command`` of each.

        Empty where the system has no ``/proc`` to look for processes in.
        """
        if wait_for(lambda: not self._find_left(), seconds=PATIENCE):
            return []
        left = self._find_left()
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(int(process.partition(" ")[0]), signal.SIGKILL)
        return left

    def _find_left(self) -> list[str]:
        """Return ``pid command`` of each process with the mark, or with one of the files open."""
        mark, files, left = f"{MARK}={self._mark}".encode(), {*map(str, self._files)}, []
        for folder in _PROC.glob("[0-9]*"):
            try:
                # A process may drop the environment or the output, but seldom drops both.
                if mark not in (folder / "environ").read_bytes() and files.isdisjoint(
                    str(link.readlink()) for link in (folder / "fd").iterdir()
                ):
                    continue
                command = (folder / "cmdline").read_bytes().split(b"\0")[0]
            except OSError:  # the process has ended, or belongs to another user
                continue
            if command:  # a zombie has none
                left.append(f"{folder.name} {command.decode(errors='replace')}")
        return left


def wait_for(condition: Callable[[], object], *, seconds: float) -> bool:
    """Wait until a condition holds; return False if it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
