"""The result of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact import Artifact
from enginebay.display import Fields, Result, Table, document, join_names
from enginebay.inference import Receipt
from enginebay.models import weights_text
from enginebay.operations.steps import Step
from enginebay.rewriting import RewriteReport
from enginebay.verdict import Verification

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.display import Block
    from enginebay.tensors import TensorSpec


class Deployment(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`enginebay.deploy`.

    Attributes:
        artifact: The artifact under its final name.
        verification: The verdict with its figures.
        receipt: What the engine says that it ran; None where it crashed.
        steps: The steps, and how long each took, in seconds.
        notes: For the caller: which exporter or IR was not used and why.
        rewriting: Which rewriters fired, how often, and which never did; None where the model
            came as a file that needs no export.
    """

    artifact: Artifact
    verification: Verification
    receipt: Receipt | None
    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    rewriting: RewriteReport | None

    @property
    def verdict(self) -> str:
        """``verified``, ``mismatched``, ``unverified`` or ``crashed``."""
        return self.verification.verdict

    @property
    def is_elsewhere(self) -> bool:
        """True if the engine is built for other machines, so that it did not run here."""
        ran = self.receipt is not None or self.verdict == "crashed"
        return bool(self.artifact.manifest.built_for) and not ran

    def __repr__(self) -> str:
        backend = self.artifact.backend
        return f"<Deployment on {backend}, {self.verdict}, in '{self.artifact.path}'>"

    def blocks(self) -> Iterator[Block]:
        """The steps, the verdict, the artifact, and a row for each output."""
        manifest, receipt = self.artifact.manifest, self.receipt
        yield _steps_table(self.steps)
        yield ""
        yield Fields(
            (
                ("verdict", self.verification.headline()),
                *self.verification.fields(),
                ("sizes", sizes_text(manifest.inputs)),
                ("weights", weights_text(manifest.weights)),
                ("engine", "" if receipt is None else receipt.describe()),
                *(("note", note) for note in self.notes),
                ("kept", join_names(manifest.kept)),
                *(("rewriters", line) for line in _rewriter_lines(self)),
                ("artifact", self.artifact.describe()),
            )
        )
        if outputs := list(self.verification.output_blocks()):
            yield from ("", *outputs)

    def to_dict(self) -> dict[str, Any]:
        """The document that ``enginebay deploy --json`` prints."""
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
        (one.name, f"{one.seconds or 0.0:.2f}", "failed" if one.failed else one.detail)
        for one in steps
    ]
    total = sum(step.seconds or 0.0 for step in steps)
    return Table(("STEP", "SECONDS", ""), [*rows, ("total", f"{total:.2f}", "")], ("SECONDS",))


def sizes_text(inputs: Sequence[TensorSpec]) -> str:
    """Which sizes of the inputs are open; of none, that all are fixed, and how to open one.

    Example:
        >>> from enginebay.tensors import TensorSpec
        >>> sizes_text([TensorSpec("x", "float32", ("batch", 3))])
        'open: x[batch, 3]'
        >>> sizes_text([TensorSpec("x", "float32", (1, 3))])
        'all fixed; --dynamic batch opens the first dimension of the inputs'
    """
    opened = [
        f"{spec.name}[{', '.join(map(str, spec.dims or ()))}]"
        for spec in inputs
        if not spec.is_static
    ]
    if opened:
        return f"open: {join_names(opened)}"
    return "all fixed; --dynamic batch opens the first dimension of the inputs"


def _rewriter_lines(deployment: Deployment) -> Iterator[str]:
    report = deployment.rewriting
    if report is None:
        return
    fired = [f"{each.name} ({each.count})" for each in report.applied if each.count]
    if fired:
        yield f"fired: {join_names(fired)}"
    # Core's and the backend's own rarely fire: most models need few of them. --json has them all.
    own = ("enginebay", deployment.artifact.manifest.plugin.distribution)
    idle = [r.name for r in report.applied if not r.count and r.distribution not in own]
    if idle:
        yield f"never fired: {join_names(idle)}"
    yield from report.not_found
    yield from report.not_served
    yield from (f"lost: {each.loss}" for each in report.lost if each.distribution not in own)
