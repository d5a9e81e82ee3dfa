"""One evaluation: the artifacts, metrics and data, and the keys of the result rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from enginebay_lab.evaluation.batches import describe_whole_batches
from enginebay_lab.evaluation.evaluation_subjects import common_specs
from enginebay_lab.evaluation.item_reader import digest_data_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay import DataSet, TensorSpec
    from enginebay_lab.evaluation.checkpoints import EvaluationJournal
    from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
    from enginebay_lab.evaluation.evaluation_subjects import EvaluationSubject
    from enginebay_lab.evaluation.metric_sources import MetricSource


@dataclass
class EvaluationRun:
    """The artifacts, metrics, data and result file of one evaluation.

    Attributes:
        subjects: The artifacts.
        sources: The objects that build the metrics, one for each metric.
        data: The data set, whose items are split or batched as the artifacts' inputs require.
        journal: The result file and the checkpoint; None to write no file.
        model_digest: A digest of the model's weights and source file; empty until the model is
            loaded, and if no result file is written.
        other_weights: The artifacts made from other weights than the model's, with the name of the
            model that each was made from; empty until the model is loaded.
        inputs: The specs of the inputs, which all artifacts share; ``dims`` is None for an input
            whose ranks differ between the artifacts.
        outputs: The specs of the outputs, with ``dims`` as in ``inputs``.
        batch_note: Why an item of the result is a whole batch; empty if it is one row.
    """

    subjects: Sequence[EvaluationSubject]
    sources: Sequence[MetricSource]
    data: DataSet
    journal: EvaluationJournal | None = None
    model_digest: str = ""
    other_weights: dict[str, str] = field(default_factory=dict)
    inputs: tuple[TensorSpec, ...] = field(init=False)
    outputs: tuple[TensorSpec, ...] = field(init=False)
    batch_note: str = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = common_specs(self.subjects, "inputs")
        self.outputs = common_specs(self.subjects, "outputs")
        accepts_rows = all(
            limits[0][0] <= 1
            for subject in self.subjects
            for limits in subject.request.sizes.values()
            if 0 in limits
        )
        # Items are rows, as in a deployment, so that one item is one decision and one call.
        self.data = self.data.for_inputs(self.inputs, split="all" if accepts_rows else "none")
        self.batch_note = describe_whole_batches(self.inputs, self.outputs)

    def checkpoint_key(self, subjects: Sequence[EvaluationSubject]) -> str:
        """Return a digest of the artifacts, the metrics and the model, but not of the data."""
        artifacts = [f"{subject.name} {subject.identity}" for subject in subjects]
        metrics = [source.identity for source in self.sources]
        return _digest(*artifacts, *metrics, self.model_digest)

    @property
    def has_earlier_rows(self) -> bool:
        """True if the journal (result file) contains rows of an earlier run."""
        return bool(self.journal and self.journal.rows)

    def read_finished_rows(self) -> dict[str, list[EvaluationRow]]:
        """Return the rows that an earlier run wrote for the same items, by the artifact's name.

        An artifact is left out if a metric has no row for it. If the result file has any rows, the
        whole data set is read to compute its digest.
        """
        if self.journal is None or not self.has_earlier_rows:
            return {}
        data_digest = digest_data_set(self.data, self.inputs)
        finished = {}
        for subject in self.subjects:
            keys = self._row_keys(subject, data_digest)
            rows = [row for key in keys if (row := self.journal.rows.get(key))]
            if len(rows) == len(keys):
                # The earlier run may have named the same artifact by a different path.
                replace = msgspec.structs.replace
                finished[subject.name] = [replace(row, artifact=subject.name) for row in rows]
        return finished

    def write_rows(
        self, subject: EvaluationSubject, rows: Sequence[EvaluationRow], data_digest: str
    ) -> list[EvaluationRow]:
        """Append an artifact's rows to the result file; return the rows with their keys filled in.

        Without a result file, return the rows unchanged.

        Raises:
            OSError: The file cannot be written.
        """
        if self.journal is None:
            return list(rows)
        keys = zip(rows, self._row_keys(subject, data_digest), strict=True)
        keyed = [msgspec.structs.replace(row, key=key) for row, key in keys]
        for row in keyed:
            self.journal.append(row)
        return keyed

    def _row_keys(self, subject: EvaluationSubject, data_digest: str) -> list[str]:
        return [
            _digest(subject.identity, source.identity, self.model_digest, data_digest)
            for source in self.sources
        ]


def _digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
