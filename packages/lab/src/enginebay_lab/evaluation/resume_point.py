"""Loads the results of an earlier run, for items that have not changed since that run."""

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
    """Load the results of an earlier run, up to the first shard that is incomplete or missing.

    Args:
        run: The artifacts, metrics, data and result file of the evaluation.
        subjects: The artifacts to evaluate.
        has_model: True if the artifacts are compared with a PyTorch model.

    Returns:
        The merged results of the complete shards (ranges of items); a reader at the next item to
        evaluate; and the results of the incomplete shard, or None.
    """
    totals, reader, shards = load_checkpoint(run, subjects, has_model=has_model)
    for shard in find_unchanged_shards(reader, shards):
        if shard.start != totals.count:
            break  # shards before this one are missing: workers finish them in any order
        if shard.count < SHARD_ITEMS:
            return totals, reader, shard
        totals.merge(shard)
    if reader.count != totals.count:
        # The reader has read items of shards that are not used, and a reader cannot go back.
        reader = ItemReader(run.data, run.inputs)
        reader.skip_items(totals.count)
    return totals, reader, None


def load_checkpoint(
    run: EvaluationRun, subjects: Sequence[EvaluationSubject], *, has_model: bool
) -> tuple[TotalAccumulator, ItemReader, list[Shard]]:
    """Load the checkpoint of an earlier run, unless items have changed since that run.

    Only the items of the merged results are checked for changes.

    Args:
        run: The artifacts, metrics, data and result file of the evaluation.
        subjects: The artifacts to evaluate.
        has_model: True if the artifacts are compared with a PyTorch model.

    Returns:
        The merged results of the first items; a reader that has read these items; and the results
        of later shards (ranges of items), whose items are not checked yet. Without a valid
        checkpoint, there are no results, and the reader is at the first item.
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
    """Read the items of shards (ranges of items) in order; yield shards with unchanged items."""
    for shard in sorted(shards, key=lambda shard: shard.start):
        stop = shard.start + shard.count
        reader.skip_items(stop - reader.count)
        if reader.item_digests(shard.start, stop) == shard.items:
            yield shard
