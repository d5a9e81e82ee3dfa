"""The rows file of an evaluation, and the checkpoint that an interrupted one resumes from.

Rows are lines of JSON, each written at once, so that several evaluations may write to one file.
The checkpoint ``NAME.DIGEST.part`` is next to it until the evaluation has ended: the states of the
metrics after some of the items, replaced every few seconds. It is MessagePack, and runs no code.
"""

from __future__ import annotations

import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import write_whole
from enginebay_lab.evaluation.evaluation_rows import ROW_KIND, EvaluationRow
from enginebay_lab.evaluation.shards import Shard
from enginebay_lab.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: Minimum time between two checkpoints.
CHECKPOINT_SECONDS = 2.0


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an evaluation that has not ended.

    Attributes:
        key: A digest of its artifacts, metrics and model.
        count: The number of items in complete, consecutive shards.
        digest: The digest of these items.
        totals: The results on these items.
        shards: The results on later items.
    """

    key: str
    count: int
    digest: str
    totals: Shard
    shards: list[Shard]


class EvaluationJournal(Journal):
    """The rows file of one evaluation, and its checkpoint.

    Args:
        path: The file of rows.
        resume: Continue with the rows and the checkpoint of an earlier run; else the file must not
            exist.

    Attributes:
        rows: The rows in the file by their keys, without those of lost artifacts.

    Raises:
        UsageError: The file exists and ``resume`` is not set, or it contains something else.
        OSError: It cannot be written.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        super().__init__(path, ROW_KIND)
        lines = self.read(EvaluationRow) if resume else []
        # Without a row in this dict, a lost artifact is evaluated again.
        self.rows = {row.key: row for _, row in lines if row.key and not row.error}
        self.open(resume=resume, hint="add --resume to continue it, or name a different file")
        self._checkpoint_path: Path | None = None
        self._key = ""
        self._last_save = time.monotonic()

    def start(self, key: str) -> Checkpoint | None:
        """Start an evaluation, and return the checkpoint of an earlier run with the same key.

        Args:
            key: A digest of its artifacts, metrics and model.
        """
        self._key, self._last_save = key, time.monotonic()
        assert self.path is not None
        # A checkpoint for each key, since several evaluations may write to one file of rows.
        digest = blake2b(key.encode(), digest_size=4).hexdigest()
        self._checkpoint_path = self.path.with_name(f"{self.path.name}.{digest}.part")
        # A checkpoint that cannot be read is as good as none.
        with suppress(OSError, msgspec.MsgspecError):
            data = self._checkpoint_path.read_bytes()
            checkpoint = msgspec.msgpack.decode(data, type=Checkpoint)
            if checkpoint.key == key:
                shards = [shard.unpack_metrics() for shard in checkpoint.shards]
                totals = checkpoint.totals.unpack_metrics()
                return msgspec.structs.replace(checkpoint, totals=totals, shards=shards)
        return None

    @property
    def is_due(self) -> bool:
        """True if the last checkpoint is :data:`CHECKPOINT_SECONDS` old."""
        elapsed = time.monotonic() - self._last_save
        return self._checkpoint_path is not None and elapsed > CHECKPOINT_SECONDS

    def save(self, count: int, digest: str, totals: Shard, shards: Iterable[Shard]) -> None:
        """Replace the checkpoint; a no-op if a metric's state cannot be stored.

        Args:
            count: The number of items in complete, consecutive shards.
            digest: The digest of these items.
            totals: The results on these items.
            shards: The results on later items.

        Raises:
            EnginebayError: The disk is full or read-only; the earlier checkpoint stays.
            OSError: The file cannot be written for another reason.
        """
        assert self._checkpoint_path is not None
        self._last_save = time.monotonic()
        try:
            checkpoint = Checkpoint(
                key=self._key,
                count=count,
                digest=digest,
                totals=totals.pack_metrics(),
                shards=[shard.pack_metrics() for shard in shards],
            )
        except TypeError:
            return
        write_whole(self._checkpoint_path, msgspec.msgpack.encode(checkpoint))

    def finish(self) -> None:
        """Remove the checkpoint: all rows are written."""
        if self._checkpoint_path is not None:
            self._checkpoint_path.unlink(missing_ok=True)
