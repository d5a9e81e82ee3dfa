"""The rows file of an evaluation, and the checkpoint from which an evaluation is resumed.

The rows file has one row of JSON on each line; several evaluations may append to it. Until an
evaluation ends, its checkpoint ``NAME.DIGEST.part`` lies next to the rows file and is replaced
every few seconds. The checkpoint contains the metrics' states after some items, as MessagePack.
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

#: The shortest time between two checkpoints.
CHECKPOINT_SECONDS = 2.0


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an evaluation that has not ended.

    Attributes:
        key: A digest of the evaluation's artifacts, metrics and model.
        count: The number of items in ``totals``, which are the first items of the data set.
        digest: The digest of these items.
        totals: The merged results on these items.
        shards: The results on later items, which cannot be merged yet.
    """

    key: str
    count: int
    digest: str
    totals: Shard
    shards: list[Shard]


class EvaluationJournal(Journal):
    """The rows file of one evaluation, and its checkpoint.

    Args:
        path: The rows file.
        resume: Continue with the rows and the checkpoint of an earlier run; without it, the file
            must not exist.

    Attributes:
        rows: The file's rows by their keys, without rows that have an error instead of a value.

    Raises:
        UsageError: The file exists and ``resume`` is False, or it contains other lines than rows.
        OSError: The file cannot be written.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        super().__init__(path, ROW_KIND)
        lines = self.read(EvaluationRow) if resume else []
        # Without a row in this dict, an artifact whose engine failed is evaluated again.
        self.rows = {row.key: row for _, row in lines if row.key and not row.error}
        self.open(resume=resume, hint="add --resume to continue it, or name a different file")
        self._checkpoint_path: Path | None = None
        self._key = ""
        self._last_save = time.monotonic()

    def start(self, key: str) -> Checkpoint | None:
        """Start an evaluation, and return the checkpoint of an earlier run with the same key.

        Args:
            key: A digest of the evaluation's artifacts, metrics and model.
        """
        self._key, self._last_save = key, time.monotonic()  # the clock starts with the items
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
        """True if the last checkpoint is older than :data:`CHECKPOINT_SECONDS`."""
        elapsed = time.monotonic() - self._last_save
        return self._checkpoint_path is not None and elapsed > CHECKPOINT_SECONDS

    def save(self, count: int, digest: str, totals: Shard, shards: Iterable[Shard]) -> None:
        """Replace the checkpoint; do nothing if a metric's state cannot be stored.

        Args:
            count: The number of items in ``totals``.
            digest: The digest of these items.
            totals: The merged results on the first items of the data set.
            shards: The results on later items, which cannot be merged yet.

        Raises:
            EnginebayError: The disk is full or read-only; the earlier checkpoint stays.
            OSError: The file cannot be written for another reason.
        """
        assert self._checkpoint_path is not None
        self._last_save = time.monotonic()  # also if it fails: not tried again at each chunk
        try:
            checkpoint = Checkpoint(
                key=self._key,
                count=count,
                digest=digest,
                totals=totals.pack_metrics(),
                shards=[shard.pack_metrics() for shard in shards],
            )
        except TypeError:  # a metric's state contains other objects than numbers and arrays
            return
        write_whole(self._checkpoint_path, msgspec.msgpack.encode(checkpoint))

    def finish(self) -> None:
        """Remove the checkpoint; called after all rows are written."""
        if self._checkpoint_path is not None:
            self._checkpoint_path.unlink(missing_ok=True)
