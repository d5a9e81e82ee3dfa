"""Shards: stretches of items whose figures are merged, in the order of the items.

Floating-point sums depend on what is added to what. An evaluation is therefore always a merge of
shards of :data:`SHARD` items, whether one process computed them or many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay_lab.evaluation.digests import SIZE, ItemDigests
from enginebay_lab.evaluation.packing import pack_state, unpack_state
from enginebay_lab.evaluation.tally import TallyState

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Items in a shard. Merging takes some 50 µs for each artifact, so fewer would slow down small
#: models; and a task of more would take minutes on large ones.
SHARD = 64


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """What was found on some items.

    Attributes:
        start: The place of the first one in the data set.
        items: Digests of the items.
        reference: What is known of PyTorch; None without a model.
        artifacts: What is known of each artifact, by its name; not of those that are lost.
        lost: Why an artifact is lost, by its name.
    """

    start: int
    items: ItemDigests
    reference: TallyState | None
    artifacts: dict[str, TallyState]
    lost: dict[str, str]

    @property
    def count(self) -> int:
        """How many items."""
        return len(self.items.targets) // SIZE

    def packed(self) -> Shard:
        """The same, with metrics' states as MessagePack takes them.

        Raises:
            TypeError: A metric's state holds something that is no number and no array.
        """
        return self._with_metrics(pack_state)

    def unpacked(self) -> Shard:
        """What :meth:`packed` was called on, with arrays for tensors."""
        return self._with_metrics(unpack_state)

    def _with_metrics(self, change: Callable[[Any], Any]) -> Shard:
        replace = msgspec.structs.replace

        def changed(state: TallyState) -> TallyState:
            return replace(state, metrics=change(state.metrics))

        return replace(
            self,
            reference=None if self.reference is None else changed(self.reference),
            artifacts={name: changed(state) for name, state in self.artifacts.items()},
        )
