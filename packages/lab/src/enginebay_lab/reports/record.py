"""The records that a report shows, unchanged."""

from __future__ import annotations

import msgspec

from enginebay.artifact import Manifest
from enginebay.bisection import Bisection
from enginebay.evaluation import Evaluation
from enginebay.measurement import Benchmark
from enginebay.operations import Comparison, Sensitivity
from enginebay.sweeps import Sweep
from enginebay.version import __version__

#: The version of the JSON document; it grows when a key is removed or changes its meaning.
SCHEMA = 1


class ReportedArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact that a report shows.

    Attributes:
        path: Its folder.
        manifest: What it says about itself; after another verification, with its verdict.
    """

    path: str
    manifest: Manifest

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in self.manifest.files)


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a report, which :class:`enginebay.Report` describes."""

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
