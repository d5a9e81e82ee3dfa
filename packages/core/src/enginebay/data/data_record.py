"""The manifest's record of the data set items that a command used."""

from __future__ import annotations

import msgspec


class DataRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest's record of the data set items that were used.

    Attributes:
        source: The data set, as the user named it.
        count: The number of used items.
        indices: The indices of the used items in the source; empty if all items were used.
        digest: BLAKE2b over the inputs of all used items, in hexadecimal.
        targets: The meaning of a class index in targets, as the task that read the files describes
            it; empty without a task.
    """

    source: str
    count: int
    indices: tuple[int, ...] = ()
    digest: str = ""
    targets: str = ""
