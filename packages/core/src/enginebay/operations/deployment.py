"""The result of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.artifact import Artifact
from enginebay.display import Fields, Result, Table, document, join_names
from enginebay.inference import Receipt
from enginebay.operations.steps import Step
from enginebay.rewriting import RewriteReport
from enginebay.sources import weights_text
from enginebay.verdict import Verification

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.display import Block
    from enginebay.tensors import TensorSpec


class Deployment(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`enginebay.deploy`.

    Attributes:
        artifact: The published artifact.
        verification: The verdict, with the error metrics of each output.
        receipt: The engine's effective settings; None if the engine crashed or cannot run on this
            machine.
        steps: The steps with their durations in seconds; empty if the artifact was up to date.
        notes: Notes such as the reasons why an exporter or IR was not used.
        rewriting: The report of the rewriters; None for a model file that needs no export.
    """

    artifact: Artifact
    verification: Verification
    receipt: Receipt | None
    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    rewriting: RewriteReport | None

    @classmethod
    def of(cls, artifact: Artifact) -> Deployment:
        """Return the result for an artifact that is up to date."""
        manifest = artifact.manifest
        return cls(
            artifact=artifact,
            verification=manifest.verification or Verification(verdict="unverified"),
            receipt=manifest.receipt,
            steps=(),
            notes=("up to date: nothing that it was built from has changed",),
            rewriting=None,
        )

    @property
    def verdict(self) -> str:
        """``verified``, ``mismatched``, ``unverified`` or ``crashed``."""
        return self.verification.verdict

    @property
    def is_elsewhere(self) -> bool:
        """True if the engine is built for other machines, and did not run on this machine."""
        ran = self.receipt is not None or self.verdict == "crashed"
        return bool(self.artifact.manifest.built_for) and not ran

    def __repr__(self) -> str:
        backend = self.artifact.backend
        return f"<Deployment on {backend}, {self.verdict}, in '{self.artifact.path}'>"

    def blocks(self) -> Iterator[Block]:
        """Yield the text and tables to print: steps, verdict, artifact, and a row per output."""
        manifest, receipt = self.artifact.manifest, self.receipt
        precision = manifest.requested_precision
        report = self.rewriting or RewriteReport()
        rewriting = report.summarize(manifest.plugin.distribution)
        if self.steps:
            yield _steps_table(self.steps)
            yield ""
        yield Fields(
            (
                ("verdict", self.verification.headline()),
                *self.verification.fields(),
                ("sizes", sizes_text(manifest.inputs)),
                ("weights", weights_text(manifest.weights)),
                ("engine", "" if receipt is None else receipt.describe(precision)),
                *(("note", note) for note in self.notes),
                ("kept", join_names(manifest.kept)),
                *(("rewriters", line) for line in rewriting),
                ("artifact", self.artifact.describe()),
            )
        )
        if outputs := list(self.verification.output_blocks()):
            yield from ("", *outputs)

    def to_dict(self) -> dict[str, object]:
        """Return the document that ``enginebay deploy --json`` prints."""
        report = self.rewriting
        rewriting = report and {
            "fired": report.fired,
            "never_fired": report.never_fired,
            "not_found": report.not_found,
            "not_served": report.not_served,
            "lost": report.lost,
        }
        return document(
            {
                "kind": "deployment",
                "verdict": self.verdict,
                "artifact": str(self.artifact.path),
                "notes": self.notes,
                "steps": self.steps,
                "rewriting": rewriting,
                "manifest": self.artifact.manifest,
            }
        )


def _steps_table(steps: Sequence[Step]) -> Table:
    rows = [
        (step.name, f"{step.seconds or 0.0:.2f}", "failed" if step.failed else step.detail)
        for step in steps
    ]
    total = sum(step.seconds or 0.0 for step in steps)
    return Table(("STEP", "SECONDS", ""), [*rows, ("total", f"{total:.2f}", "")], ("SECONDS",))


def sizes_text(inputs: Sequence[TensorSpec]) -> str:
    """Return a text about the inputs' dynamic dimensions, or about how to make one dynamic.

    Example:
        >>> from enginebay.tensors import TensorSpec
        >>> sizes_text([TensorSpec("x", "float32", ("batch", 3))])
        'dynamic: x[batch, 3]'
        >>> sizes_text([TensorSpec("x", "float32", (1, 3))])
        'all fixed; for a dynamic batch: --dynamic batch'
    """
    dynamic = [
        f"{spec.name}[{', '.join(map(str, spec.dims or ()))}]"
        for spec in inputs
        if not spec.is_static
    ]
    if dynamic:
        return f"dynamic: {join_names(dynamic)}"
    return "all fixed; for a dynamic batch: --dynamic batch"
