"""Shards: ranges of items whose results are merged in the order of the items.

Floating-point sums depend on the order of the additions. Every evaluation is therefore a merge of
shards of :data:`SHARD_ITEMS` items, on one process or on many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay_lab.evaluation.digests import DIGEST_BYTES, ItemDigests
from enginebay_lab.evaluation.metric_state import pack_state, unpack_state
from enginebay_lab.evaluation.output_accumulator import AccumulatorState

if TYPE_CHECKING:
    from collections.abc import Callable

#: Items in a shard. Merging takes about 50 µs per artifact, so smaller shards would slow down small
#: models; the tasks of larger shards would take minutes on large models.
SHARD_ITEMS = 64


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """The results on a range of items.

    Attributes:
        start: The index of the first item in the data set.
        items: Digests of the items.
        reference: PyTorch's results; None without a model.
        artifacts: Each artifact's results, by its name, without lost artifacts.
        lost: Why an artifact is lost, by its name.
    """

    start: int
    items: ItemDigests
    reference: AccumulatorState | None
    artifacts: dict[str, AccumulatorState]
    lost: dict[str, str]

    @property
    def count(self) -> int:
        """The number of items."""
        return len(self.items.targets) // DIGEST_BYTES

    def pack_metrics(self) -> Shard:
        """Return the shard with the metrics' states as plain data for MessagePack.

        Raises:
            TypeError: A metric's state contains something else than numbers and arrays.
        """
        return self._convert_metrics(pack_state)

    def unpack_metrics(self) -> Shard:
        """Undo :meth:`pack_metrics`; tensors become arrays."""
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
