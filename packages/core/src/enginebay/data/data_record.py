"""Which items of a data set were used, as a manifest keeps it."""

from __future__ import annotations

import msgspec


class DataRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which items were used, as a manifest keeps it.

    Attributes:
        source: What the user named.
        count: How many items were used.
        indices: Their numbers in the source; empty where all of them were used.
        digest: BLAKE2b over the inputs of all of them, in hexadecimal.
        targets: What the targets are numbered by, in the words of the task that read the files;
            empty for others.
    """

    source: str
    count: int
    indices: tuple[int, ...] = ()
    digest: str = ""
    targets: str = ""
