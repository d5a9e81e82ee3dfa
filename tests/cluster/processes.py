"""A Dask scheduler and workers, each a process of its own, on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class Cluster:
    """A scheduler and its workers, which run inside the context.

    Args:
        folder: The folder for their files and logs.
        workers: The initial number of workers, each with one thread.
        ttl: Seconds after which the scheduler drops a silent worker.

    Attributes:
        address: The scheduler's address: ``tcp://127.0.0.1:PORT``.
        workers: The workers' processes.
    """

    def __init__(self, folder: Path, workers: int, *, ttl: int = 600) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._count = workers
        self._ttl = ttl
        self.address = ""
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        with self._stack:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = self._folder / "scheduler.json"
            options = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
            scheduler = self._start("scheduler", *options)
            self.address = _address(file, scheduler)
            for _ in range(self._count):
                self.add_worker()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Start another worker."""
        options = ("--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder))
        self.workers.append(self._start("worker", self.address, *options))
        return self.workers[-1]

    def _start(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context(
            (self._folder / f"{program}-{len(self.workers)}.log").open("wb")
        )
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{program}", *options, "--no-dashboard"],
            stdout=log,
            stderr=log,
            env=_environment(self._ttl),
        )
        self._stack.callback(_end, process)
        return process


def _environment(ttl: int) -> dict[str, Any]:
    paths = [path for path in sys.path if path]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{ttl}s",
    }


def _address(file: Path, scheduler: subprocess.Popen[bytes]) -> str:
    while not (file.exists() and (text := file.read_text())):
        assert scheduler.poll() is None, "the scheduler did not start"
        time.sleep(0.05)
    address: str = json.loads(text)["address"]
    return address


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)  # works for a stopped process, too
    process.wait()
