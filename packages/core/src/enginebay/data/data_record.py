"""Record of the data set items that a command has read, for manifests and reports."""

from __future__ import annotations

import msgspec


class DataRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of the data set items that calibrated, verified or evaluated an artifact.

    Attributes:
        source: The data set, as the user named it.
        count: The number of items that were read.
        indices: The indices of the chosen items in the data set; empty for all or the first items.
        digest: BLAKE2b over the inputs of all items that were read, in hexadecimal.
        targets: The meaning of a class index in targets, as described by the task that converted
            the data set's files to items; empty without a task.
    """

    source: str
    count: int
    indices: tuple[int, ...] = ()
    digest: str = ""
    targets: str = ""
