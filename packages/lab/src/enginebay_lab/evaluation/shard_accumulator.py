"""Accumulators of the results of artifacts and PyTorch: for a range of items, and for all items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay_lab.evaluation.digests import ItemDigests, TotalDigest
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.evaluation.output_accumulator import OutputAccumulator
from enginebay_lab.evaluation.shards import Shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from enginebay.authors.arrays import NumpyArray
    from enginebay.authors.sources import Item
    from enginebay_lab.evaluation.checkpoints import EvaluationJournal
    from enginebay_lab.evaluation.evaluation_run import EvaluationRun
    from enginebay_lab.evaluation.evaluation_subjects import EvaluationSubject

    #: The outputs for each item, by name.
    Outputs = Sequence[Mapping[str, NumpyArray]]


class ShardAccumulator:
    """Accumulates the results of artifacts, and of PyTorch, on consecutive items.

    Args:
        run: The artifacts, metrics and data of the evaluation.
        names: The names of the artifacts.
        start: The index of the first item.
        has_model: True if the artifacts are compared with a PyTorch model.

    Attributes:
        start: The index of the first item.
        count: The number of items that were added.
        lost: The errors of artifacts whose engines failed, by the artifacts' names.
    """

    def __init__(
        self, run: EvaluationRun, names: Iterable[str], start: int = 0, *, has_model: bool
    ) -> None:
        sources, data = run.sources, run.data.description
        self.start, self.count = start, 0
        self.lost: dict[str, str] = {}
        # With a model, bad data or a bad metric has already raised on PyTorch's outputs.
        self._reference = OutputAccumulator(sources, data) if has_model else None
        ranges = {subject.name: subject.artifact.verified_range for subject in run.subjects}
        self._artifacts = {
            name: OutputAccumulator(
                sources,
                data,
                record_errors=has_model,
                find_beyond=known.find_beyond if (known := ranges[name]) else None,
            )
            for name in names
        }

    def add(
        self, items: Sequence[Item], expected: Outputs | None, outputs: Mapping[str, Outputs]
    ) -> None:
        """Add items with the outputs of PyTorch, if any, and of each engine that has not failed."""
        if self._reference and expected is not None:
            self._reference.add(items, expected, expected)
        for name, artifact_outputs in outputs.items():
            self._artifacts[name].add(items, artifact_outputs, expected)
        self.count += len(items)

    def merge(self, shard: Shard) -> None:
        """Append the results of the next shard (range of items).

        Raises:
            MetricError: A metric cannot merge its states.
        """
        assert shard.start == self.start + self.count
        self.lost = {**shard.lost, **self.lost}
        for name, state in shard.artifacts.items():
            if name not in self.lost:
                self._artifacts[name].merge(state)
        if self._reference and shard.reference:
            self._reference.merge(shard.reference)
        self.count += shard.count

    def to_shard(self, items: ItemDigests) -> Shard:
        """Return the accumulated results as a shard (results on a range of items).

        Args:
            items: The digests of the accumulated items.
        """
        artifacts = self._artifacts.items()
        return Shard(
            start=self.start,
            items=items,
            reference=None if self._reference is None else self._reference.state,
            artifacts={name: entry.state for name, entry in artifacts if name not in self.lost},
            lost=dict(self.lost),
        )

    def start_next(self) -> None:
        """Remove all results, and start a new shard (range of items) after the last item."""
        self.start, self.count = self.start + self.count, 0
        for accumulator in (self._reference, *self._artifacts.values()):
            if accumulator is not None:
                accumulator.reset()


class TotalAccumulator(ShardAccumulator):
    """Accumulates the results of artifacts, and of PyTorch, from the data set's first item on.

    Attributes:
        digest: The running digest of the items.
    """

    def __init__(
        self, run: EvaluationRun, subjects: Sequence[EvaluationSubject], *, has_model: bool
    ) -> None:
        super().__init__(run, (subject.name for subject in subjects), has_model=has_model)
        self._metric_names = [source.name for source in run.sources]
        self.digest = TotalDigest()

    def merge(self, shard: Shard) -> None:
        """Append the results of the next shard (range of items), and the digests of its items."""
        super().merge(shard)
        self.digest.add(shard.items)

    def save_checkpoint(self, journal: EvaluationJournal, later_shards: Iterable[Shard]) -> None:
        """Write the results to the checkpoint file of an evaluation.

        Args:
            journal: The result file and the checkpoint of the evaluation.
            later_shards: The shards that cannot be merged yet, because they are incomplete or
                follow a missing shard.

        Raises:
            OSError: The file cannot be written.
        """
        # self.digest stands for the digests of all these items.
        totals = self.to_shard(ItemDigests(b"", b""))
        journal.save(self.count, self.digest.text, totals, later_shards)

    def make_rows(self, subject: EvaluationSubject) -> list[EvaluationRow]:
        """Return a result row for each metric of an artifact; the keys of the rows are empty."""
        return [self._make_row(subject, metric) for metric in self._metric_names]

    def _make_row(self, subject: EvaluationSubject, metric: str) -> EvaluationRow:
        artifact, replace = self._artifacts[subject.name], msgspec.structs.replace
        # An artifact whose engine failed has counted none.
        entries = [*self._artifacts.values(), *([self._reference] if self._reference else ())]
        reference = self._reference.metric_value(metric) if self._reference else None
        row = EvaluationRow(
            artifact=subject.name,
            backend=subject.request.backend,
            precision=subject.precision,
            metric=metric,
            reference=reference,
            count=max(entry.count for entry in entries),
        )
        if subject.name in self.lost:
            return replace(row, error=self.lost[subject.name])
        value = artifact.metric_value(metric)
        return replace(
            row,
            value=value,
            drop=artifact.metrics[metric].drop(value, reference),
            agreement=artifact.agreement,
            beyond=artifact.beyond if subject.artifact.verified_range else None,
            worst=artifact.worst_items,
            error=artifact.errors.get(metric, ""),
        )
