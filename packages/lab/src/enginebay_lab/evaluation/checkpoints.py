"""The file that rows are written to as they come, and how far an evaluation has come.

Rows are JSON, a line each, and each line is written at once: several evaluations may write to one
file. Beside it lies ``NAME.DIGEST.part`` until the evaluation has ended, with the state of its
metrics after some of the items, replaced every few seconds. It is MessagePack and runs no code.
"""

from __future__ import annotations

import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import write_whole
from enginebay_lab.evaluation.evaluation_rows import ROW_KIND, Row
from enginebay_lab.evaluation.shards import Shard
from enginebay_lab.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: Seconds between two checkpoints.
INTERVAL = 2.0


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far an evaluation has come.

    Attributes:
        key: What it evaluates, as a digest.
        count: How many items were evaluated without a gap, in whole shards.
        digest: Of these items.
        totals: What was found on them.
        shards: What was found on items behind them.
    """

    key: str
    count: int
    digest: str
    totals: Shard
    shards: list[Shard]


class EvaluationJournal(Journal):
    """The file of one evaluation, with its checkpoint.

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
        super().__init__(path, ROW_KIND)
        found = self.read(Row) if resume else []
        self.rows = {row.key: row for _, row in found if row.key and not row.error}
        self.open(resume=resume, hint="go on with it with --resume, or name another file")
        self._part: Path | None = None
        self._key = ""
        self._last = time.monotonic()

    def start(self, key: str) -> Checkpoint | None:
        """Say what is evaluated; returns how far an earlier run with the same key has come."""
        self._key, self._last = key, time.monotonic()
        assert self.path is not None
        digest = blake2b(key.encode(), digest_size=4).hexdigest()
        self._part = self.path.with_name(f"{self.path.name}.{digest}.part")
        with suppress(OSError, msgspec.MsgspecError):
            found = msgspec.msgpack.decode(self._part.read_bytes(), type=Checkpoint)
            if found.key == key:
                shards = [shard.unpacked() for shard in found.shards]
                totals = found.totals.unpacked()
                return msgspec.structs.replace(found, totals=totals, shards=shards)
        return None

    @property
    def is_due(self) -> bool:
        """True some seconds after the last checkpoint."""
        return self._part is not None and time.monotonic() - self._last > INTERVAL

    def save(self, count: int, digest: str, totals: Shard, shards: Iterable[Shard]) -> None:
        """Replace the checkpoint; nothing happens where a metric does not say its state.

        Args:
            count: How many items were evaluated without a gap.
            digest: Of these items.
            totals: What was found on them.
            shards: What was found on items behind them.

        Raises:
            EnginebayError: The disk is full or read-only; the one before stays.
            OSError: It cannot be written for another reason.
        """
        assert self._part is not None
        self._last = time.monotonic()
        try:
            found = Checkpoint(
                key=self._key,
                count=count,
                digest=digest,
                totals=totals.packed(),
                shards=[shard.packed() for shard in shards],
            )
        except TypeError:
            return
        write_whole(self._part, msgspec.msgpack.encode(found))

    def finish(self) -> None:
        """Remove the checkpoint: all rows are written."""
        if self._part is not None:
            self._part.unlink(missing_ok=True)
