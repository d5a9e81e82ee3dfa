"""The data of a report: the unchanged results of other commands."""

from __future__ import annotations

import msgspec

from enginebay import __version__
from enginebay.authors.artifacts import Manifest
from enginebay_lab.comparison.comparison import Comparison
from enginebay_lab.diagnosis.bisection import Bisection
from enginebay_lab.diagnosis.rank_layers import Sensitivity
from enginebay_lab.evaluation.evaluation_rows import Evaluation
from enginebay_lab.journal import SCHEMA
from enginebay_lab.measurement.benchmark import Benchmark
from enginebay_lab.sweeps.sweep_rows import Sweep


class ReportedArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact in a report.

    Attributes:
        path: The artifact's folder.
        manifest: The artifact's manifest. If a result of ``verify`` was passed, the manifest
            contains this verification.
    """

    path: str
    manifest: Manifest

    @property
    def size(self) -> int:
        """The total size of the artifact's files in bytes."""
        return sum(file.size for file in self.manifest.files)


class Findings(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="report"):
    """Base class of :class:`enginebay_lab.Report`, which describes the fields."""

    schema: int = SCHEMA
    enginebay: str = __version__
    created: str
    artifacts: tuple[ReportedArtifact, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    benchmarks: tuple[Benchmark, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    sensitivities: tuple[Sensitivity, ...] = ()
    bisections: tuple[Bisection, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    command: str = ""
