"""The data of a report: the unchanged results of other commands."""

from __future__ import annotations

import shlex
from itertools import pairwise

import msgspec

from enginebay import Verification, __version__
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


class FailedDeployment(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment that ended with an error, and made no artifact.

    Attributes:
        path: The file with the error.
        command: The command line.
        reason: The error's message.
        hint: What to type next; empty if there is no suggestion.
        verification: The verdict, if the outputs were compared.
    """

    path: str
    command: str
    reason: str
    hint: str = ""
    verification: Verification | None = None

    @property
    def model(self) -> str:
        """The model, as the command line names it; empty if it comes after a flag."""
        words = pairwise(shlex.split(self.command)[1:])
        return next((w for before, w in words if "-" not in (before[:1], w[:1])), "")

    @property
    def verdict(self) -> str:
        """``mismatched``, ``crashed`` or ``unverified``; ``failed`` if nothing was compared."""
        return self.verification.verdict if self.verification else "failed"


class Findings(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="report"):
    """Base class of :class:`enginebay_lab.Report`, which describes the fields."""

    schema: int = SCHEMA
    enginebay: str = __version__
    created: str
    artifacts: tuple[ReportedArtifact, ...] = ()
    failures: tuple[FailedDeployment, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    benchmarks: tuple[Benchmark, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    sensitivities: tuple[Sensitivity, ...] = ()
    bisections: tuple[Bisection, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    command: str = ""
