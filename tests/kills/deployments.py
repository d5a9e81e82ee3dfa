"""A deployment that receives a signal: its exit code and the files that it left."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.errors import ArtifactError
from enginebay_testing.command_runs import command, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = """\
import torch
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)), torch.randn(2, 64)
"""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: In the environment of every process of a run.
_MARK = "ENGINEBAY_KILLS_RUN"
#: Seconds that a process may take to end after its signal, or after its parent, on a busy machine.
_PATIENCE = 300.0


@dataclass
class Tally:
    """The outcomes of the runs on one backend.

    Attributes:
        sent: The signals that came before the command had printed its report.
        ended: The signals after which the exit code was that of the signal.
        half: Incomplete artifacts.
        lost: Old artifacts that disappeared.
        orphans: Processes left running, and files left by a run that could still remove them.
        swallowed: Runs that ended with exit code 0 in spite of the signal.
        odd: Runs that ended with any other exit code.
    """

    sent: int = 0
    ended: int = 0
    half: int = 0
    lost: int = 0
    orphans: int = 0
    swallowed: int = 0
    odd: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """The number of failures."""
        return self.half + self.lost + self.orphans + self.swallowed + self.odd


class Victim:
    """A deployment on one backend, run again and again in one folder.

    Args:
        folder: An empty folder.
        backend: The backend's name.
        model: The model to deploy, as the command line names it there.
    """

    def __init__(self, folder: Path, backend: str, model: str = "net.py:build") -> None:
        self.folder = folder
        self.tally = Tally()
        self._out, self._old = folder / "out", folder / "old"
        self._report = folder / "report"
        self._temporary = folder / "tmp"
        self._temporary.mkdir(parents=True)
        (folder / "net.py").write_text(MODEL)
        self._words = command(
            *("deploy", model, "--backend", backend, "--work-dir", "out", "--overwrite"),
        )
        start = time.monotonic()
        code = self._start("whole").wait()
        assert code == 0, (folder / "errors").read_text()
        self.seconds = time.monotonic() - start
        shutil.copytree(self._out, self._old)

    def run(self, number: signal.Signals, moment: float, *, over_old: bool) -> None:
        """Deploy once and send a signal.

        Args:
            number: The signal.
            moment: The time of the signal, as a fraction of the time of a whole deployment.
            over_old: True to replace an artifact, False to deploy to a new path.
        """
        if not over_old:
            shutil.rmtree(self._out, ignore_errors=True)
        elif not self._out.exists():  # the previous run had a new path
            shutil.copytree(self._old, self._out)
        before = set(self._leftovers())
        mark = uuid.uuid4().hex
        start = time.monotonic()
        process = self._start(mark)
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment * self.seconds)
            self.seconds = time.monotonic() - start  # the machine has become faster
        too_late = process.poll() is not None or self._report.stat().st_size > 0
        process.send_signal(number)
        code = process.wait(_PATIENCE)
        if not too_late:
            self._judge_end(number, moment, code)
        self._judge_artifact(must_be_there=over_old or code == 0)
        self._judge_orphans(mark, before, was_killed=number == signal.SIGKILL)

    def finish(self) -> None:
        """Deploy to the end, which must remove the leftovers of a killed run."""
        assert self._start("whole").wait() == 0
        self._judge_artifact(must_be_there=True)
        left = [path for path in self._leftovers() if path.parent == self.folder]
        self.tally.orphans += len(left)

    def _start(self, mark: str) -> subprocess.Popen[bytes]:
        with self._report.open("wb") as out, (self.folder / "errors").open("wb") as err:
            return subprocess.Popen(
                self._words,
                cwd=self.folder,
                env=environment(TMPDIR=str(self._temporary), **{_MARK: mark}),
                stdout=out,
                stderr=err,
                preexec_fn=_listen,
            )

    def _judge_end(self, number: signal.Signals, moment: float, code: int) -> None:
        self.tally.sent += 1
        if code in (-number, 128 + number):
            self.tally.ended += 1
            return
        if code == 0:
            self.tally.swallowed += 1
        else:
            self.tally.odd += 1
        said = (self.folder / "errors").read_text().strip()
        self.tally.notes.append(f"{number.name} at {moment:.2f}: exit code {code}: {said}")

    def _judge_artifact(self, *, must_be_there: bool) -> None:
        if not self._out.exists():
            self.tally.lost += must_be_there
            return
        try:
            eb.open_artifact(self._out)
        except ArtifactError as err:
            self.tally.half += 1
            self.tally.notes.append(str(err))

    def _judge_orphans(self, mark: str, before: set[Path], *, was_killed: bool) -> None:
        deadline = time.monotonic() + _PATIENCE
        while (running := list(_marked(mark))) and time.monotonic() < deadline:
            time.sleep(0.02)
        files = [] if was_killed else list(set(self._leftovers()) - before)
        self.tally.orphans += len(running) + len(files)
        self.tally.notes += [f"left running: {name}" for name in running]
        self.tally.notes += [f"left: {file}" for file in files]

    def _leftovers(self) -> Iterator[Path]:
        """Yield the temporary files of a run, which it has to remove."""
        yield from self.folder.glob(".out.*")
        yield from self._temporary.glob("enginebay-*")


def random_runs(victim: Victim, count: int, seed: int) -> Iterator[None]:
    """Send every signal in turn at random moments, half of them while an artifact is replaced."""
    moments = random.Random(seed)
    for index in range(count):
        number = SIGNALS[index % len(SIGNALS)]
        victim.run(number, moments.uniform(0.0, 1.02), over_old=index // len(SIGNALS) % 2 == 0)
        yield
    victim.finish()


def _listen() -> None:
    """Restore the default signal handlers, which nohup and a shell's background change."""
    for number in SIGNALS[1:]:
        signal.signal(number, signal.SIG_DFL)


def _marked(mark: str) -> Iterator[str]:
    """Yield the running processes of one run."""
    wanted = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            if wanted in (folder / "environ").read_bytes():
                yield f"{folder.name} {(folder / 'cmdline').read_bytes().decode(errors='replace')}"
        except OSError:  # the process has ended, or belongs to another user
            continue
