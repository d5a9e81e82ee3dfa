"""The figures of an evaluation: its shards, merged in the order of the items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay_lab.evaluation.digests import ItemDigests, TotalDigest
from enginebay_lab.evaluation.evaluation_rows import Row
from enginebay_lab.evaluation.shards import Shard
from enginebay_lab.evaluation.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from enginebay.authors import Item, NumpyArray
    from enginebay_lab.evaluation.candidates import Candidate
    from enginebay_lab.evaluation.checkpoints import EvaluationJournal
    from enginebay_lab.evaluation.run import Run

    Outputs = Sequence[Mapping[str, NumpyArray]]


class Tallies:
    """What is known of PyTorch, and of some artifacts, on items that follow one another.

    Args:
        run: What is evaluated.
        names: The artifacts.
        start: The place of the first item.
        compared: There is a PyTorch model.

    Attributes:
        start: The place of the first item.
        count: How many items were added.
        lost: Why an artifact is lost, by its name.
    """

    def __init__(self, run: Run, names: Iterable[str], start: int = 0, *, compared: bool) -> None:
        sources, data = run.sources, run.data.description
        self.start, self.count = start, 0
        self.lost: dict[str, str] = {}
        self._reference = Tally(sources, data) if compared else None
        self._tallies = {name: Tally(sources, data, keep_errors=compared) for name in names}

    def add(
        self, items: Sequence[Item], expected: Outputs | None, outputs: Mapping[str, Outputs]
    ) -> None:
        """Add items with PyTorch's outputs, and those of each artifact that is not lost."""
        if self._reference and expected is not None:
            self._reference.add(items, expected, expected)
        for name, found in outputs.items():
            self._tallies[name].add(items, found, expected)
        self.count += len(items)

    def merge(self, shard: Shard) -> None:
        """Add the items of a shard, which come next.

        Raises:
            MetricError: A metric cannot merge its states.
        """
        assert shard.start == self.start + self.count
        self.lost = {**shard.lost, **self.lost}
        for name, state in shard.artifacts.items():
            if name not in self.lost:
                self._tallies[name].merge(state)
        if self._reference and shard.reference:
            self._reference.merge(shard.reference)
        self.count += shard.count

    def shard(self, items: ItemDigests) -> Shard:
        """All of it as a shard with the digests of its items."""
        return Shard(
            start=self.start,
            items=items,
            reference=None if self._reference is None else self._reference.state,
            artifacts={n: tally.state for n, tally in self._tallies.items() if n not in self.lost},
            lost=dict(self.lost),
        )

    def advance(self) -> None:
        """Go on behind its items, and forget them."""
        self.start, self.count = self.start + self.count, 0
        for tally in (self._reference, *self._tallies.values()):
            if tally is not None:
                tally.reset()


class Totals(Tallies):
    """What is known of some artifacts, and of PyTorch, on all items so far.

    Attributes:
        digest: Of the items.
    """

    def __init__(self, run: Run, candidates: Sequence[Candidate], *, compared: bool) -> None:
        super().__init__(run, (each.name for each in candidates), compared=compared)
        self._metrics = [source.name for source in run.sources]
        self.digest = TotalDigest()

    def merge(self, shard: Shard) -> None:
        """Add the items of a shard and their digests."""
        super().merge(shard)
        self.digest.add(shard.items)

    def save(self, journal: EvaluationJournal, shards: Iterable[Shard]) -> None:
        """Replace a journal's checkpoint.

        Args:
            journal: The journal.
            shards: What was found on items behind those that were added.

        Raises:
            OSError: The disk does not take it.
        """
        whole = self.shard(ItemDigests(b"", b""))  # whose items are known by their digest
        journal.save(self.count, self.digest.text, whole, shards)

    def rows(self, candidate: Candidate) -> list[Row]:
        """The rows of an artifact, without their key."""
        return [self._row(candidate, metric) for metric in self._metrics]

    def _row(self, candidate: Candidate, metric: str) -> Row:
        tally, replace = self._tallies[candidate.name], msgspec.structs.replace
        reference = self._reference.value(metric) if self._reference else None
        row = Row(
            artifact=candidate.name,
            backend=candidate.request.backend,
            metric=metric,
            reference=reference,
            count=self.count,
        )
        if candidate.name in self.lost:
            return replace(row, error=self.lost[candidate.name])
        value = tally.value(metric)
        return replace(
            row,
            value=value,
            drop=tally.meters[metric].drop(value, reference),
            agreement=tally.agreement,
            worst=tally.worst,
            error=tally.errors.get(metric, ""),
        )
