"""The file that rows are written to as they come, and how far an evaluation has come.

Rows are JSON, a line each, and each line is written at once: several evaluations may write to one
file. Beside it lies ``NAME.DIGEST.part`` until the evaluation has ended, with the state of its
metrics after some of the items, replaced every few seconds. It is MessagePack and runs no code.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import UsageError
from enginebay.evaluation.packing import pack_state, unpack_state
from enginebay.evaluation.rows import SCHEMA, Row

if TYPE_CHECKING:
    from pathlib import Path

#: Seconds between two checkpoints.
INTERVAL = 2.0


class _Line(msgspec.Struct, frozen=True):
    """What every line has beside a row's fields."""

    schema: int


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far an evaluation has come.

    Attributes:
        key: What it evaluates, as a digest.
        count: How many items were evaluated.
        digest: Of these items.
        state: The states of all tallies.
    """

    key: str
    count: int
    digest: str
    state: dict[str, Any]


class Journal:
    """The file of one evaluation.

    Args:
        path: The file.
        resume: Go on with what is there; else there must be nothing.

    Attributes:
        rows: The rows that are there, by their keys; those of lost artifacts are left out.

    Raises:
        UsageError: There is a file and ``resume`` is not set, or it holds something else.
        OSError: It cannot be written.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        if not resume and path.exists():
            raise UsageError(
                f"'{path}' exists already",
                hint="go on with it with --resume, or name another file",
            )
        self._torn = False
        self.rows = {row.key: row for row in self._read() if row.key and not row.error}
        with path.open("ab"):  # what cannot be written fails before anything is measured
            pass
        self._part: Path | None = None
        self._key = ""
        self._last = time.monotonic()

    def append(self, row: Row) -> None:
        """Write a row.

        Raises:
            OSError: The disk does not take it.
        """
        row_line = msgspec.json.encode({"schema": SCHEMA, **msgspec.structs.asdict(row)})
        line = (b"\n" if self._torn else b"") + row_line + b"\n"
        self._torn = True
        try:
            with self._path.open("ab", buffering=0) as file:
                written = file.write(line)
                while written < len(line):  # the disk is full: the next write says so
                    written += file.write(line[written:])
                os.fsync(file.fileno())
        except OSError as err:
            err.filename = str(self._path)
            raise
        self._torn = False

    def start(self, key: str) -> Checkpoint | None:
        """Say what is evaluated; returns how far an earlier run with the same key has come."""
        self._key, self._last = key, time.monotonic()
        digest = blake2b(key.encode(), digest_size=4).hexdigest()
        self._part = self._path.with_name(f"{self._path.name}.{digest}.part")
        with suppress(OSError, msgspec.MsgspecError):
            found = msgspec.msgpack.decode(self._part.read_bytes(), type=Checkpoint)
            if found.key == key:
                return msgspec.structs.replace(found, state=unpack_state(found.state))
        return None

    @property
    def is_due(self) -> bool:
        """True some seconds after the last checkpoint."""
        return self._part is not None and time.monotonic() - self._last > INTERVAL

    def save(self, count: int, digest: str, states: dict[str, Any] | None) -> None:
        """Replace the checkpoint; nothing happens where a metric does not say its state.

        Raises:
            OSError: The disk does not take it; the one before stays.
        """
        assert self._part is not None
        self._last = time.monotonic()
        if states is None:
            return
        try:
            state = pack_state(states)
        except TypeError:
            return
        found = Checkpoint(key=self._key, count=count, digest=digest, state=state)
        new = self._part.with_suffix(f".{os.getpid()}")
        try:
            new.write_bytes(msgspec.msgpack.encode(found))
            new.replace(self._part)
        except BaseException:
            new.unlink(missing_ok=True)
            raise

    def finish(self) -> None:
        """Remove the checkpoint: all rows are written."""
        if self._part is not None:
            self._part.unlink(missing_ok=True)

    def _read(self) -> list[Row]:
        if not self._path.exists():
            return []
        data = self._path.read_bytes()
        self._torn = bool(data) and not data.endswith(b"\n")
        rows = []
        lines = data.splitlines()
        for line in lines:
            # A line that is cut short was the last one when its writer was killed.
            with suppress(msgspec.MsgspecError):
                msgspec.json.decode(line, type=_Line)
                rows.append(msgspec.json.decode(line, type=Row))
        if lines and not rows and not (self._torn and len(lines) == 1):
            raise UsageError(
                f"'{self._path}' holds no rows of an evaluation", hint="name another file"
            )
        return rows
