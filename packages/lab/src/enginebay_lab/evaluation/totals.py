"""The figures of an evaluation: its shards, merged in the order of the items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay_lab.evaluation.digests import ItemDigests, TotalDigest
from enginebay_lab.evaluation.evaluation_rows import Row
from enginebay_lab.evaluation.shards import Shard
from enginebay_lab.evaluation.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from enginebay_lab.evaluation.candidates import Candidate
    from enginebay_lab.evaluation.checkpoints import EvaluationJournal
    from enginebay_lab.evaluation.run import Run


class Totals:
    """What is known of some artifacts, and of PyTorch, on all items so far.

    Args:
        run: The evaluation.
        candidates: The artifacts.
        compared: There is a PyTorch model.

    Attributes:
        count: How many items.
        digest: Of the items.
        lost: Why an artifact is lost, by its name.
    """

    def __init__(self, run: Run, candidates: Sequence[Candidate], *, compared: bool) -> None:
        self._sources, name = run.sources, run.data.description
        self._reference = Tally(run.sources, name) if compared else None
        self._tallies = {
            each.name: Tally(run.sources, name, keep_errors=compared) for each in candidates
        }
        self.lost: dict[str, str] = {}
        self.count = 0
        self.digest = TotalDigest()

    def add(self, shard: Shard) -> None:
        """Add the shard that comes next.

        Raises:
            MetricError: A metric cannot merge its states.
        """
        assert shard.start == self.count
        self.lost = {**shard.lost, **self.lost}
        for name, state in shard.artifacts.items():
            if name not in self.lost:
                self._tallies[name].merge(state)
        if self._reference and shard.reference:
            self._reference.merge(shard.reference)
        self.count += shard.count
        self.digest.add(shard.items)

    def save(self, journal: EvaluationJournal, shards: Iterable[Shard]) -> None:
        """Replace a journal's checkpoint.

        Args:
            journal: The journal.
            shards: What was found on items behind those that were added.

        Raises:
            OSError: The disk does not take it.
        """
        journal.save(self.count, self.digest.text, self._as_shard(), shards)

    def _as_shard(self) -> Shard:
        """All items as one shard, without their digests."""
        kept = [name for name in self._tallies if name not in self.lost]
        return Shard(
            start=0,
            items=ItemDigests(b"", b""),
            reference=None if self._reference is None else self._reference.state,
            artifacts={name: self._tallies[name].state for name in kept},
            lost=self.lost,
        )

    def rows(self, candidate: Candidate) -> list[Row]:
        """The rows of an artifact, without their key."""
        return [self._row(candidate, source.name) for source in self._sources]

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
