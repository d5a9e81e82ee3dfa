"""The verdict, the samples on which it is based, and its limitations."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from enginebay.display import Fields, Result, document, labelled
from enginebay.verdict.figures import EXAMPLE, OutputComparison, Rounding, Signal, Simulation
from enginebay.verdict.matching import Matching
from enginebay.verdict.observed_code import (
    Decision,
    HalfPrecision,
    ReadLine,
    describe_decisions,
    limit_decisions,
)
from enginebay.verdict.verified_range import VerifiedRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.display import Block

Verdict: TypeAlias = Literal["verified", "mismatched", "unverified", "crashed"]


class VerdictWarning(UserWarning):
    """Warning of a limitation of the verdict, such as a device that the engine did not use."""


#: Default number of probe inputs: enough for all kinds without dynamic dimensions.
PROBES = 8


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """The basis of a verdict: the compared samples, and the cases that they do not cover.

    Attributes:
        labels: Label of each recorded sample: ``example``, ``redrawn`` (generated inputs).
        beyond: Labels of the samples that have values outside the example's range.
        dropped: Labels of the probe inputs (generated, similar to the example) that were left out,
            each with the reason: the model raises an error, or returns only NaN.
        undecided: Labels of the samples on which rounding errors change the model's own outputs by
            more than the tolerance. Such probe inputs are left out. If the caller passed
            such a sample, it is kept, and makes the verdict ``unverified``.
        unexamined: Labels of the samples with a mismatch of which nobody knows whether rounding
            explains it: the runs of the model on others have taken too long.
        rounding: Label of a sample → output name → how far elements may lie beyond the tolerance,
            since the model's own rounding is as large there.
        untried: Names of the inputs whose elements all have one and the same value in all samples.
        range: The values and sizes of the inputs in the samples; None if they were not recorded.
        refused: Name of a dynamic dimension without a limit → size at which the model itself fails.
        decisions: What the samples have taken of the model's choices, conditions and classes. The
            conditions and outputs of which they have taken everything are left out. None for a
            file that PyTorch does not run, whose decisions nobody watches.
        readings: The lines of Python (``if``, ``.item()``) that read a tensor's value.
        half_precision: The first operator of a model with float32 outputs that computes in half
            precision.
        packed: Line of the model that packs padded rows into a nested tensor; otherwise empty.
        faint: Name of a float output → its largest magnitude in all samples, if that is near zero.
        inexact: Why another engine is the reference, which rounds as any engine does: onnx's
            evaluator cannot run the file; otherwise empty.
        witnessed: Label of a sample → the engine that was the reference there, since onnx's
            evaluator was too slow. It had agreed with the evaluator on all other samples.
        scores: Names of outputs that consist of results of a sigmoid or a softmax.
        precision: The coarsest precision that the model's file itself computes in.
        stores_8_bits: True if the model's file has weights of 8 bits.
        domain: Input name → lower and upper bound of generated values, if the caller set bounds.
        targets: Label of a data item → index of the true class.
        doubt: Why no comparison proves anything, for example random outputs; otherwise empty.
    """

    labels: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    unexamined: tuple[str, ...] = ()
    rounding: dict[str, dict[str, Rounding]] = {}
    untried: tuple[str, ...] = ()
    range: VerifiedRange | None = None
    refused: dict[str, int] = {}
    decisions: tuple[Decision, ...] | None = ()
    readings: tuple[ReadLine, ...] = ()
    half_precision: HalfPrecision | None = None
    packed: str = ""
    faint: dict[str, float] = {}
    inexact: str = ""
    witnessed: dict[str, str] = {}
    scores: tuple[str, ...] = ()
    precision: str = "fp32"
    stores_8_bits: bool = False
    domain: dict[str, tuple[float, float]] = {}
    targets: dict[str, int] = {}
    doubt: str = ""

    def limits(self) -> tuple[str, ...]:
        """Return a sentence for each case that the samples do not cover."""
        limited = [reading for reading in self.readings if reading.limit()]
        texts = [reading.limit() for reading in limited]
        # Probes that are not in ``labels`` were left out; those of the caller stay.
        dropped = [label for label in self.undecided if label not in self.labels]
        if dropped and not self.doubt:
            count = len(dropped) + sum(label != EXAMPLE for label in self.labels)
            texts.append(
                f"rounding alone decides what the model returns on {len(dropped)} of "
                f"{count} probe inputs, which are left out: {', '.join(dropped)}"
            )
        texts += [f"nothing is known about other values of '{name}'" for name in self.untried]
        texts += [
            f"the model itself fails if '{name}' is {size} and the other sizes are the example's: "
            f"limit the largest size of '{name}'"
            for name, size in self.refused.items()
        ]
        texts += [
            f"output '{name}' lies between {-size:.1g} and {size:.1g} in all samples: the inputs "
            "hardly reach it, so pass trained weights, or an example of the usual size"
            for name, size in self.faint.items()
        ]
        if self.inexact:
            texts.append(f"the reference is a second engine, since {self.inexact}")
        if self.witnessed:
            exact = [label for label in self.labels if label not in self.witnessed]
            texts.append(
                f"onnx's evaluator, which is slow, judged {len(exact)} samples "
                f"({', '.join(exact)}); {', '.join(sorted({*self.witnessed.values()}))}, which "
                f"agreed there within half of the tolerance, judged the other {len(self.witnessed)}"
            )
        # A warning about a line that Python reads says it of its decision, too.
        read = {reading.line for reading in limited}
        unread = [decision for decision in self.decisions or () if decision.place not in read]
        return (*texts, *limit_decisions(unread))

    @property
    def branches(self) -> tuple[str, ...]:
        """Lines of Python that read different values in different samples: ``net.py:12``."""
        return tuple(reading.line for reading in self.readings if not reading.value)

    def keep_constants(self, notes: Sequence[str]) -> Basis:
        """Return a copy without the lines of Python whose values are no constants of the graph.

        Many models read their inputs only outside of tracing, and torch.export refuses to trace
        such lines.

        Args:
            notes: The exporter's notes, which name each line whose value became a constant.
        """
        readings = tuple(reading for reading in self.readings if reading.is_constant(notes))
        return msgspec.structs.replace(self, readings=readings)


class Verification(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on an artifact, with the error metrics.

    Attributes:
        verdict: ``verified``, ``mismatched``, ``unverified`` or ``crashed``.
        reference: Name of the reference: ``the PyTorch model, unpatched``.
        outputs: Each output's comparison in its worst sample.
        samples: Number of samples that were run.
        precision: The precision that the engine computed in; it selects the tolerances.
        reason: Why the verdict is ``unverified`` or ``crashed``; for ``mismatched``, a reason that
            the error metrics do not show.
        failed: Labels of the samples in which an output does not pass.
        basis: The labels of the compared samples, and the cases that the samples do not cover; None
            if they were not recorded.
        signals: Each output's signal-to-noise ratio, for an 8-bit engine.
        matchings: Each comparator's results.
        simulation: Error metrics of the graph that the engine is built from, run by another engine,
            if the engine itself cannot run on this machine; else None.
        fallbacks: A sentence for each requested setting that the engine did not use, from its
            receipt.
        non_finite: How engine and model differ on NaN, infinity and integers beyond 2³¹, or empty.

    Example:
        >>> Verification.unverified("no reference was given").summary()
        'unverified: no reference was given'
    """

    verdict: Verdict
    reference: str = ""
    outputs: tuple[OutputComparison, ...] = ()
    samples: int = 0
    precision: str = ""
    reason: str = ""
    failed: tuple[str, ...] = ()
    basis: Basis | None = None
    signals: tuple[Signal, ...] = ()
    matchings: tuple[Matching, ...] = ()
    simulation: Simulation | None = None
    fallbacks: tuple[str, ...] = ()
    non_finite: str = ""

    @classmethod
    def unverified(cls, reason: str) -> Verification:
        """Build the verdict ``unverified``, with the reason why nothing was compared."""
        return cls(verdict="unverified", reason=reason)

    @classmethod
    def crashed(cls, reason: str, *, reference: str = "") -> Verification:
        """Build the verdict ``crashed``, with the reason why the engine has no outputs."""
        return cls(verdict="crashed", reason=reason, reference=reference)

    @property
    def passed(self) -> bool:
        """True only for ``verified``."""
        return self.verdict == "verified"

    def summary(self) -> str:
        """Describe in one line the verdict, the worst element and the tolerance that would pass."""
        if self.reason or not self.outputs:
            return f"{self.verdict}: {self.reason}"
        worst = max(self.outputs, key=lambda output: output.badness)
        against = f" against {self.reference}" if self.reference else ""
        count = f"{len(self.outputs)} output{'' if len(self.outputs) == 1 else 's'}"
        text = f"{self.verdict}{against} on {count}, {self.extent()}; worst: {worst.describe()}"
        matched = (matching.describe() for matching in self.matchings)
        # The causes below describe the signals that did not pass.
        accuracy = (s.accuracy() for s in self.signals if s.passed and s.accuracy())
        return "; ".join((text, *matched, *self.fallbacks, *accuracy, *self.causes()))

    def explain(self, suspicions: Sequence[str] = ()) -> str:
        """Describe the verdict, the worst element, causes and limitations, one per line.

        Args:
            suspicions: Further causes, which the engine's converter suspects.
        """
        if self.reason or not self.outputs:
            return self.headline()
        worst = max(self.outputs, key=lambda output: output.badness)
        # The description is one line; here, the tolerance gets a line of its own.
        position, _, allowed = worst.describe().partition("; allowed ")
        causes = [("cause", text) for text in suspicions]
        fields = sorted([*causes, *self.fields()], key=lambda field: field[0] != "cause")
        lines = labelled([("place", position), ("allowed", allowed), *fields])
        return "\n".join((self.headline(), *(label + text for _, label, text in lines)))

    def extent(self) -> str:
        """Describe which samples were compared: ``3 samples``, ``the example alone``."""
        if self.samples == 1 and self.basis is not None:
            return "the example alone"
        text = f"{self.samples} sample{'' if self.samples == 1 else 's'}"
        domain = self.basis.domain if self.basis else {}
        within = " and ".join(f"{name}={low:g},{high:g}" for name, (low, high) in domain.items())
        tried = self.basis.range.open_sizes if self.basis and self.basis.range else {}
        sizes = "".join(f", '{name}' {size}" for name, size in tried.items())
        return (f"{text} within {within}" if within else text) + sizes

    def __repr__(self) -> str:
        return f"<Verification {self.headline()}>"

    def headline(self) -> str:
        """Return the verdict with its reason; without a reason, with the reference and samples."""
        if self.reason or not self.outputs:
            return f"{self.verdict}: {self.reason}"
        return f"{self.verdict} against {self.reference} on {self.extent()}"

    def blocks(self) -> Iterator[Block]:
        """Yield the verdict, its limitations, and a table of the outputs."""
        yield self.headline()
        yield Fields(self.fields())
        yield from self.output_blocks()

    def fields(self) -> list[tuple[str, str]]:
        """Return pairs of a label and a text, such as ``("warning", "...")``.

        The texts are limitations, the verified range, the decisions taken, comparators' results,
        elements that rounding decides, signal-to-noise ratios, likely causes of a mismatch, and the
        probe inputs (generated) that were left out.
        """
        dropped = self.basis.dropped if self.basis else ()
        known = self.basis.range if self.basis else None
        decisions = describe_decisions(self.basis.decisions) if self.basis else ""
        return [
            *(("warning", text) for text in self.warnings),
            *([("range", known.describe())] if known and self.passed else ()),
            *([("decisions", decisions)] if decisions and self.passed else ()),
            *(("compared", matching.describe()) for matching in self.matchings),
            *(
                ("rounding", text)
                for output in self.outputs
                if (text := output.describe_rounding())
            ),
            *(("signal", signal.describe()) for signal in self.signals if signal.passed),
            *(("cause", text) for text in self.causes()),
            *(("left out", text) for text in dropped),
        ]

    def output_blocks(self) -> Iterator[Block]:
        """Yield a table of the outputs and, if ``simulation`` is set, a table of its outputs."""
        from enginebay.verdict.comparison_table import tabulate_outputs

        yield from tabulate_outputs(self.outputs)
        if simulation := self.simulation:
            count = f"{simulation.samples} sample{'' if simulation.samples == 1 else 's'}"
            if self.outputs:
                yield ""
            yield (
                f"The graph that the engine is built from, run by {simulation.engine} on {count}; "
                "these are not the engine's own figures:"
            )
            yield from tabulate_outputs(simulation.outputs)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that ``enginebay verify --json`` prints."""
        return document({"kind": "verification", "verification": self})

    def warn(self) -> None:
        """Emit a :class:`~enginebay.VerdictWarning` for each limitation of the verdict."""
        for text in self.warnings:
            # Few engines preserve NaN in a ReLU or in a maximum pool: no warning for that.
            if text != self.non_finite:
                warnings.warn(text, VerdictWarning, stacklevel=3)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each limitation: fallbacks, and cases that the samples do not cover."""
        limits = self.basis.limits() if self.basis is not None else ()
        faint = filter(None, (signal.limit() for signal in self.signals))
        return (
            *(*self.fallbacks, *limits, *faint),
            *([self.non_finite] if self.non_finite else ()),
        )

    def causes(self) -> tuple[str, ...]:
        """Return likely causes of a mismatch, with the remedy of each."""
        if self.verdict != "mismatched" or self.basis is None:
            return ()
        causes = []
        # If the engine cannot run here, only the error metrics of its graph show the cause.
        figures = self if self.outputs else self.simulation or self
        causes += [
            f"{signal.describe()}: {signal.remedy()}"
            for signal in figures.signals
            if not signal.passed
        ]
        if self.basis.branches:
            lines = ", ".join(self.basis.branches)
            causes.append(
                f"Python reads values at {lines}, so the engine is right for one branch only: "
                "select with torch.where or torch.cond there"
            )
        elif self.basis.packed:
            causes.append(
                f"PyTorch packs padded rows here ({self.basis.packed}) and returns 0 at their "
                "ends, which no exporter writes: nn.TransformerEncoder(…, "
                "enable_nested_tensor=False)"
            )
        elif coarse := self.basis.half_precision:
            causes.append(
                f"the model computes {coarse.describe()}, which engines round in other places: "
                "compute it in float32, or pass the tolerance of this dtype: "
                f"--rtol {0.0625 if coarse.dtype == 'bfloat16' else 0.0078125:g}"
            )
        elif figures.failed and set(figures.failed) <= set(self.basis.beyond):
            causes.append(
                "the outputs differ only for inputs outside of the example's range; if such inputs "
                "never occur, limit the probe inputs: --domain NAME=LOW,HIGH (domain={...})"
            )
        return tuple(causes)
