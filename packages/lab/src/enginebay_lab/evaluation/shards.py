"""Shards: ranges of items whose results are merged in the order of the items.

Floating-point sums depend on the order of additions. So that one process and many workers compute
the same values, every evaluation merges shards of :data:`SHARD_ITEMS` items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay_lab.evaluation.digests import DIGEST_BYTES, ItemDigests
from enginebay_lab.evaluation.metric_state import pack_state, unpack_state
from enginebay_lab.evaluation.output_accumulator import AccumulatorState

if TYPE_CHECKING:
    from collections.abc import Callable

#: The number of items in a shard. Merging a shard takes about 50 µs per artifact, so smaller shards
#: would slow down small models; one larger shard of a large model would take minutes.
SHARD_ITEMS = 64


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """The results of an evaluation on a range of items.

    Attributes:
        start: The index, in the data set, of the range's first item.
        items: The digests of the items in the range.
        reference: PyTorch's results; None without a model.
        artifacts: The results of the artifacts whose engines did not fail, by the artifacts' names.
        lost: The errors of the artifacts whose engines failed, by the artifacts' names.
    """

    start: int
    items: ItemDigests
    reference: AccumulatorState | None
    artifacts: dict[str, AccumulatorState]
    lost: dict[str, str]

    @property
    def count(self) -> int:
        """The number of items in the range."""
        return len(self.items.targets) // DIGEST_BYTES

    def pack_metrics(self) -> Shard:
        """Return a copy of the shard, with metric states that MessagePack can encode.

        Raises:
            TypeError: A metric's state contains other objects than numbers and arrays.
        """
        return self._convert_metrics(pack_state)

    def unpack_metrics(self) -> Shard:
        """Return a copy of the shard, with decoded metric states; tensors become arrays."""
        return self._convert_metrics(unpack_state)

    def _convert_metrics(self, convert: Callable[[object], object]) -> Shard:
        replace = msgspec.structs.replace

        def convert_state(state: AccumulatorState) -> AccumulatorState:
            return replace(state, metrics=convert(state.metrics))

        return replace(
            self,
            reference=None if self.reference is None else convert_state(self.reference),
            artifacts={name: convert_state(state) for name, state in self.artifacts.items()},
        )
