"""One evaluation: its artifacts, metrics and data, and what identifies its rows."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from enginebay_lab.evaluation.candidates import common_specs
from enginebay_lab.evaluation.chunks import fingerprint

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from enginebay import DataSet
    from enginebay_lab.evaluation.candidates import Candidate
    from enginebay_lab.evaluation.checkpoints import EvaluationJournal
    from enginebay_lab.evaluation.evaluation_rows import Row
    from enginebay_lab.evaluation.find import MetricSource


@dataclass
class Run:
    """One evaluation.

    Attributes:
        candidates: The artifacts.
        sources: The metrics.
        data: The items, as the artifacts take them: with the batch axis, one by one.
        journal: Where rows and checkpoints go; None for nowhere.
        digest: Of all items; empty until they were read.
        model: A digest of the model's weights and its source; empty without a journal.
        unused: Inputs that items may have, and that no artifact takes.
    """

    candidates: Sequence[Candidate]
    sources: Sequence[MetricSource]
    data: DataSet
    journal: EvaluationJournal | None = None
    digest: str = ""
    model: str = ""
    unused: Collection[str] = ()

    def __post_init__(self) -> None:
        self.inputs = common_specs(self.candidates, "takes", lambda request: request.inputs)
        self.outputs = common_specs(self.candidates, "gives", lambda request: request.outputs)
        self.data = self.data.for_inputs(self.inputs)

    def key(self, candidates: Sequence[Candidate]) -> str:
        """A digest of what is evaluated, but for the data."""
        artifacts = [f"{each.name} {each.identity}" for each in candidates]
        metrics = [source.identity for source in self.sources]
        return _digest(*artifacts, *metrics, self.model)

    @property
    def may_be_finished(self) -> bool:
        """True if an earlier run has written any rows."""
        return bool(self.journal and self.journal.rows)

    def finished(self) -> dict[str, list[Row]]:
        """The rows of artifacts that an earlier run has finished, on the same items."""
        if self.journal is None or not self.may_be_finished:
            return {}
        self.digest = fingerprint(self.data, self.inputs)
        found = {}
        for candidate in self.candidates:
            rows = [self.journal.rows.get(key) for key in self._keys(candidate)]
            if None not in rows:
                named = [
                    msgspec.structs.replace(row, artifact=candidate.name) for row in rows if row
                ]
                found[candidate.name] = named
        return found

    def write(self, candidate: Candidate, rows: Sequence[Row]) -> list[Row]:
        """Write an artifact's rows to the journal, and return them with their keys.

        Raises:
            OSError: The disk does not take them.
        """
        if self.journal is None:
            return list(rows)
        keys = zip(rows, self._keys(candidate), strict=True)
        keyed = [msgspec.structs.replace(row, key=key) for row, key in keys]
        for row in keyed:
            self.journal.append(row)
        return keyed

    def _keys(self, candidate: Candidate) -> list[str]:
        return [
            _digest(candidate.identity, source.identity, self.model, self.digest)
            for source in self.sources
        ]


def _digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
