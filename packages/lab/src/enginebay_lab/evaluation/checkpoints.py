"""The result file of an evaluation, and the checkpoint from which an evaluation is resumed.

The result file has one row (one artifact and metric) as JSON on each line; several evaluations may
append to it. While an evaluation runs, its checkpoint ``NAME.DIGEST.part`` is next to the result
file, and is replaced every few seconds. The checkpoint contains the states of the metrics after the
items that have been evaluated, as MessagePack.
"""

from __future__ import annotations

import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors.files import write_whole
from enginebay.errors import Hint, argument
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
        digest: The digest of the inputs and targets of these ``count`` items.
        totals: The merged results on these ``count`` items.
        shards: The results on later ranges of items. They are not merged yet, because a range is
            incomplete, or items before it are missing.
    """

    key: str
    count: int
    digest: str
    totals: Shard
    shards: list[Shard]


class EvaluationJournal(Journal):
    """The result file of one evaluation, and the checkpoint of the evaluation.

    Args:
        path: The result file.
        resume: Continue with the rows and the checkpoint of an earlier run; if False, the file must
            not exist.

    Attributes:
        rows: The result rows of an earlier run, without failed rows, by the rows' keys.

    Raises:
        UsageError: The file exists and ``resume`` is False, or a line of the file is not a
            result row.
        OSError: The file cannot be written.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        super().__init__(path, ROW_KIND)
        lines = self.read(EvaluationRow) if resume else []
        # Without a row in this dict, an artifact whose engine failed is evaluated again.
        self.rows = {row.key: row for _, row in lines if row.key and not row.error}
        self.open(
            resume=resume,
            hint=Hint(
                "add {} to continue the evaluation, or name a different file",
                argument("resume", True),
            ),
        )
        self._checkpoint_path: Path | None = None
        self._key = ""
        self._last_save = time.monotonic()

    def start(self, key: str) -> Checkpoint | None:
        """Start an evaluation; return the checkpoint of an earlier run with this key, or None.

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
        """Replace the checkpoint file; do nothing if a metric's state cannot be encoded.

        Args:
            count: The number of items in ``totals``.
            digest: The digest of the inputs and targets of these ``count`` items.
            totals: The merged results on the first ``count`` items of the data set.
            shards: The results on later ranges of items. They are not merged yet, because a range
                is incomplete, or items before it are missing.

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
        """Delete the checkpoint file; called after all rows are written."""
        if self._checkpoint_path is not None:
            self._checkpoint_path.unlink(missing_ok=True)
