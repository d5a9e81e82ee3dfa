"""The results of an earlier run, for items that are still the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay_lab.evaluation.digests import TotalDigest
from enginebay_lab.evaluation.item_reader import ItemReader
from enginebay_lab.evaluation.shard_accumulator import TotalAccumulator
from enginebay_lab.evaluation.shards import SHARD_ITEMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.evaluation.evaluation_run import EvaluationRun
    from enginebay_lab.evaluation.evaluation_subjects import EvaluationSubject
    from enginebay_lab.evaluation.shards import Shard


def resume_in_order(
    run: EvaluationRun, subjects: Sequence[EvaluationSubject], *, has_model: bool
) -> tuple[TotalAccumulator, ItemReader, Shard | None]:
    """Load the results of an earlier run that evaluated the items in order.

    Args:
        run: The evaluation.
        subjects: The artifacts without rows.
        has_model: True if the artifacts are compared with a PyTorch model.

    Returns:
        The totals of the complete shards; a reader that has read these items and those of the
        next value; and the incomplete shard, if any.
    """
    totals, reader, shards = load_checkpoint(run, subjects, has_model=has_model)
    for shard in find_unchanged_shards(reader, shards):
        if shard.start != totals.count:
            break  # a gap: an executor's workers finished in another order
        if shard.count < SHARD_ITEMS:
            return totals, reader, shard
        totals.merge(shard)
    if reader.count != totals.count:
        # It has read items of shards that cannot be used; a reader does not go back.
        reader = ItemReader(run.data, run.inputs)
        reader.skip_items(totals.count)
    return totals, reader, None


def load_checkpoint(
    run: EvaluationRun, subjects: Sequence[EvaluationSubject], *, has_model: bool
) -> tuple[TotalAccumulator, ItemReader, list[Shard]]:
    """Load an earlier run's checkpoint.

    Args:
        run: The evaluation.
        subjects: The artifacts without rows.
        has_model: True if the artifacts are compared with a PyTorch model.

    Returns:
        The totals of the first items; a reader that has read them; and later shards, whose items
        may have changed since.
    """
    totals = TotalAccumulator(run, subjects, has_model=has_model)
    reader = ItemReader(run.data, run.inputs)
    checkpoint = run.journal.start(run.checkpoint_key(subjects)) if run.journal else None
    if checkpoint is None:
        return totals, reader, []
    reader.skip_items(checkpoint.count)
    items, digest = reader.item_digests(0, checkpoint.count), TotalDigest()
    digest.add(items)
    if digest.text != checkpoint.digest:
        return totals, ItemReader(run.data, run.inputs), []
    totals.merge(msgspec.structs.replace(checkpoint.totals, items=items))
    return totals, reader, checkpoint.shards


def find_unchanged_shards(reader: ItemReader, shards: Sequence[Shard]) -> Iterator[Shard]:
    """Read the items of shards in order, and yield the shards whose items have not changed."""
    for shard in sorted(shards, key=lambda shard: shard.start):
        stop = shard.start + shard.count
        reader.skip_items(stop - reader.count)
        if reader.item_digests(shard.start, stop) == shard.items:
            yield shard
