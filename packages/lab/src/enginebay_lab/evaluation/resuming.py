"""What an earlier run has found, as far as its items are still the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay_lab.evaluation.chunks import Reader
from enginebay_lab.evaluation.digests import TotalDigest
from enginebay_lab.evaluation.shards import SHARD
from enginebay_lab.evaluation.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.evaluation.candidates import Candidate
    from enginebay_lab.evaluation.run import Run
    from enginebay_lab.evaluation.shards import Shard


def resumed(
    run: Run, candidates: Sequence[Candidate], *, compared: bool
) -> tuple[Totals, Reader, Shard | None]:
    """What an earlier run has found on the first items.

    Args:
        run: The evaluation.
        candidates: The artifacts.
        compared: There is a PyTorch model.

    Returns:
        The totals of its whole shards; a reader that has read its items; and the shard that it
        had begun.
    """
    totals, reader, shards = first_shards(run, candidates, compared=compared)
    for shard in unchanged_shards(reader, shards):
        if shard.start != totals.count:
            break
        if shard.count < SHARD:
            return totals, reader, shard
        totals.merge(shard)
    if reader.count != totals.count:
        reader = Reader(run.data, run.inputs, run.unused)
        reader.read(totals.count)
    return totals, reader, None


def first_shards(
    run: Run, candidates: Sequence[Candidate], *, compared: bool
) -> tuple[Totals, Reader, list[Shard]]:
    """The same, with all shards that it had begun or ended behind these items.

    Whether the items of these shards are still the same is not known.
    """
    totals = Totals(run, candidates, compared=compared)
    reader = Reader(run.data, run.inputs, run.unused)
    found = run.journal.start(run.key(candidates)) if run.journal else None
    if found is None:
        return totals, reader, []
    reader.read(found.count)
    items, digest = reader.digests(0, found.count), TotalDigest()
    digest.add(items)
    if digest.text != found.digest:
        return totals, Reader(run.data, run.inputs, run.unused), []
    totals.merge(msgspec.structs.replace(found.totals, items=items))
    return totals, reader, found.shards


def unchanged_shards(reader: Reader, shards: Sequence[Shard]) -> Iterator[Shard]:
    """The shards whose items, which are read, are still the same."""
    for shard in sorted(shards, key=lambda each: each.start):
        stop = shard.start + shard.count
        reader.read(stop - reader.count)
        if reader.digests(shard.start, stop) == shard.items:
            yield shard
