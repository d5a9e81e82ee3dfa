"""The verdict, what it rests on, and the warning that says what limits it."""

from __future__ import annotations

import warnings
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from enginebay.display import Fields, Result, document, labelled
from enginebay.verdict.compared import compared
from enginebay.verdict.figures import EXAMPLE, OutputComparison, Signal, Simulation
from enginebay.verdict.matching import Matching

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.display import Block

Verdict: TypeAlias = Literal["verified", "mismatched", "unverified", "crashed"]


class VerdictWarning(UserWarning):
    """Says what limits a verdict: a device that was not there, a value that Python reads."""


#: How many probes there are by default: all kinds that an example without open sizes has, and more.
PROBES = 8


_UNDECIDED = (
    "rounding alone decides what the model returns on {}: PyTorch itself is as far off with other "
    "roundings, or another order of equal values; {}; give an example away from steps and ties, "
    "name outputs whose order may differ (--compare), or a tolerance (--rtol)"
)


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict rests on, besides its figures.

    Attributes:
        labels: What each recorded sample is: ``example``, ``redrawn``.
        beyond: Labels of the samples with values outside of what the example has.
        dropped: Probes that say nothing, and why: the model raises, or gives NaN alone.
        undecided: Labels of the samples on which rounding alone decides. Probes are dropped; what
            the caller gave stays, and its verdict is ``unverified``.
        untried: Inputs that hold the example's one value in every sample.
        tried: The largest sizes that were compared of open dimensions without a limit, by name.
        refused: The sizes of such dimensions at which the model itself fails.
        unchanging: Outputs without floats, or without any values, that are the same in all samples.
        warnings: What limits the verdict, a sentence each.
        branches: Lines where Python read values that differ between samples: ``net.py:12``.
        domain: Bounds of the probes by input, where the caller gave some.
        targets: Of items of a data set whose targets are classes, these classes.
        doubt: Why nothing can be verified: the model is not deterministic.
    """

    labels: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    tried: dict[str, int] = {}
    refused: dict[str, int] = {}
    unchanging: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    domain: dict[str, tuple[float, float]] = {}
    targets: dict[str, int] = {}
    doubt: str = ""

    def limits(self) -> tuple[str, ...]:
        """What limits the verdict, a sentence each."""
        texts = [*self.warnings]
        out = [label for label in self.undecided if label not in self.labels]
        if out and not self.doubt:
            count = len(out) + sum(label != EXAMPLE for label in self.labels)
            texts.append(
                f"rounding alone decides what the model returns on {len(out)} of "
                f"{count} probes, which are left out: {', '.join(out)}"
            )
        texts += [f"nothing is known about other values of '{name}'" for name in self.untried]
        texts += [
            f"the model itself fails where '{name}' is {size}, and the others are the example's: "
            "give it a largest size"
            for name, size in self.refused.items()
        ]
        texts += [
            f"'{name}' is the same in all samples, so that an engine that always gives it would "
            "pass: give an example, or --data, with other results"
            for name in self.unchanging
        ]
        return tuple(texts)

    def traced(self, notes: Sequence[str]) -> Basis:
        """Without the lines whose values the exporter did not make constants of.

        Many models look at their inputs only where nothing traces them, and torch.export refuses
        to; a tracer says in its notes which lines it passed.
        """

        def is_baked(line: str) -> bool:
            return any(f"({line})" in note for note in notes)

        return msgspec.structs.replace(
            self,
            warnings=tuple(text for text in self.warnings if is_baked(text.partition(": ")[0])),
            branches=tuple(line for line in self.branches if is_baked(line)),
        )


class Verification(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on an artifact, and how it came about.

    Attributes:
        verdict: ``verified``, ``mismatched``, ``unverified`` or ``crashed``.
        reference: What the artifact was held against: ``the PyTorch model, unpatched``.
        outputs: Each output's comparison, out of the sample where it was worst.
        samples: How many sets of inputs were run.
        precision: The effective precision that the tolerances were chosen for.
        reason: Why there are no figures, for ``unverified`` and ``crashed``.
        failed: Labels of the samples that do not pass.
        basis: What the verdict rests on; None where nothing is known but the figures.
        signals: Of an 8-bit engine, each output's signal beside its noise.
        matchings: Of each comparator, what it found.
        simulation: Of an engine that cannot run where it was built, the figures of the graph that
            it is built from, run by another engine; None where there are none.
        fallbacks: One sentence for each request that the engine did not follow, as in its receipt.
        non_finite: What the engine makes of NaN and infinity in its inputs, if the model does not.

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
    def of(
        cls,
        samples: Sequence[Sequence[OutputComparison]],
        *,
        reference: str,
        precision: str = "fp32",
        basis: Basis | None = None,
        doubt: str = "",
        signals: tuple[Signal, ...] = (),
        matchings: tuple[Matching, ...] = (),
        fallbacks: tuple[str, ...] = (),
    ) -> Verification:
        """The verdict on several samples; of each output, the worst one is kept.

        Args:
            samples: The result of :func:`~enginebay.verification.compare` for each set of inputs.
            reference: What the expected values came from.
            precision: The effective precision of the engine.
            basis: What the verdict rests on.
            doubt: Why it cannot be ``verified``, whatever the figures say.
            signals: The signals of an 8-bit engine.
            matchings: What the comparators found.
            fallbacks: What the engine fell back on.

        Returns:
            ``verified`` or ``mismatched``; ``unverified`` where not one number was compared, or
            where agreement proves nothing.
        """
        labels = (basis and basis.labels) or (EXAMPLE,) * len(samples)
        worst: dict[str, OutputComparison] = {}
        failed: dict[str, None] = {}
        moved: dict[str, str] = {}
        undecided = basis.undecided if basis is not None else ()
        for label, outputs in zip(labels, samples, strict=True):
            for output in outputs:
                if not output.passed and label in undecided:
                    moved[label.replace(EXAMPLE, "the example")] = output.describe()
                    continue
                if not output.passed:
                    failed[label] = None
                known = worst.get(output.name)
                if known is None or output.badness > known.badness:
                    worst[output.name] = msgspec.structs.replace(output, sample=label)
        is_wrong = bool(failed) or not all(signal.passed for signal in signals)
        verdict: Verdict = "mismatched" if is_wrong else "verified"
        if not failed and not any(o.total for o in chain.from_iterable(samples)):
            doubt = doubt or "not one number was compared"
        if moved:
            doubt = _UNDECIDED.format(", ".join(moved), next(iter(moved.values())))
        elif len(set(undecided) - set(labels)) > len(labels) - 1:
            doubt = doubt or "rounding alone decides what the model returns on most probes"
        if basis is not None and basis.doubt:
            verdict, doubt = "unverified", basis.doubt
        elif doubt and not is_wrong:
            verdict = "unverified"
        else:
            doubt = ""
        return cls(
            verdict=verdict,
            reference=reference,
            outputs=tuple(worst.values()),
            samples=len(samples),
            precision=precision,
            reason=doubt,
            failed=tuple(failed),
            basis=basis,
            signals=signals,
            matchings=matchings,
            fallbacks=fallbacks,
        )

    @classmethod
    def unverified(cls, reason: str) -> Verification:
        """Nothing was compared, and why."""
        return cls(verdict="unverified", reason=reason)

    @classmethod
    def crashed(cls, reason: str, *, reference: str = "") -> Verification:
        """The artifact or the reference did not survive the comparison, and how it ended."""
        return cls(verdict="crashed", reason=reason, reference=reference)

    @property
    def passed(self) -> bool:
        """True for ``verified`` and nothing else."""
        return self.verdict == "verified"

    def summary(self) -> str:
        """One line: the verdict, the worst element, its place, the tolerance that would pass."""
        if self.reason or not self.outputs:
            return f"{self.verdict}: {self.reason}"
        worst = max(self.outputs, key=lambda output: output.badness)
        against = f" against {self.reference}" if self.reference else ""
        count = f"{len(self.outputs)} output{'' if len(self.outputs) == 1 else 's'}"
        text = f"{self.verdict}{against} on {count}, {self.extent()}; worst: {worst.describe()}"
        matched = (one.describe() for one in self.matchings)
        accuracy = (one.accuracy() for one in self.signals if one.passed and one.accuracy())
        return "; ".join((text, *matched, *self.fallbacks, *accuracy, *self.causes()))

    def explain(self) -> str:
        """The same in lines of their own: the verdict, the place, causes, and what limits it."""
        if self.reason or not self.outputs:
            return self.headline()
        worst = max(self.outputs, key=lambda output: output.badness)
        place, _, allowed = worst.describe().partition("; allowed ")
        fields = sorted(self.fields(), key=lambda field: field[0] != "cause")
        lines = labelled([("place", place), ("allowed", allowed), *fields])
        return "\n".join((self.headline(), *(label + text for _, label, text in lines)))

    def extent(self) -> str:
        """The extent of the comparison: ``3 samples``, ``the example alone``."""
        if self.samples == 1 and self.basis is not None:
            return "the example alone"
        text = f"{self.samples} sample{'' if self.samples == 1 else 's'}"
        domain = self.basis.domain if self.basis else {}
        within = " and ".join(f"{name}={low:g},{high:g}" for name, (low, high) in domain.items())
        tried = self.basis.tried.items() if self.basis else ()
        sizes = "".join(f", '{name}' up to {size}" for name, size in tried)
        return (f"{text} within {within}" if within else text) + sizes

    def __repr__(self) -> str:
        return f"<Verification {self.headline()}>"

    def headline(self) -> str:
        """The verdict, its reference and the number of samples; or the reason for none."""
        if self.reason or not self.outputs:
            return f"{self.verdict}: {self.reason}"
        return f"{self.verdict} against {self.reference} on {self.extent()}"

    def blocks(self) -> Iterator[Block]:
        """The verdict, what limits it, and a row for each output."""
        yield self.headline()
        yield Fields(self.fields())
        yield from self.output_blocks()

    def fields(self) -> list[tuple[str, str]]:
        """What limits the verdict, what comparators found, and likely causes of a mismatch."""
        dropped = self.basis.dropped if self.basis else ()
        return [
            *(("warning", text) for text in self.warnings),
            *(("compared", matching.describe()) for matching in self.matchings),
            *(("signal", signal.describe()) for signal in self.signals if signal.passed),
            *(("cause", text) for text in self.causes()),
            *(("left out", text) for text in dropped),
        ]

    def output_blocks(self) -> Iterator[Block]:
        """A row for each output; those of a simulation below a line that says whose they are."""
        yield from compared(self.outputs)
        if simulation := self.simulation:
            count = f"{simulation.samples} sample{'' if simulation.samples == 1 else 's'}"
            if self.outputs:
                yield ""
            yield (
                f"The graph that the engine is built from, run by {simulation.engine} on {count}; "
                "the engine itself gave none of these figures:"
            )
            yield from compared(simulation.outputs)

    def to_dict(self) -> dict[str, Any]:
        """The figures, as ``enginebay verify --json`` prints them."""
        return document({"kind": "verification", "verification": self})

    def warn(self) -> None:
        """Warn of what limits the verdict: a :class:`~enginebay.VerdictWarning` for each.

        Not of NaN and infinity, which few engines keep in a ReLU or in the maximum of a pool.
        """
        for text in self.warnings:
            if text != self.non_finite:
                warnings.warn(text, VerdictWarning, stacklevel=3)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the engine fell back on, and what else limits the verdict, a sentence each."""
        limits = self.basis.limits() if self.basis is not None else ()
        return (*self.fallbacks, *limits, *([self.non_finite] if self.non_finite else ()))

    def causes(self) -> tuple[str, ...]:
        """Likely causes of a mismatch, and what to type."""
        if self.verdict != "mismatched" or self.basis is None:
            return ()
        causes = []
        figures = self if self.outputs else self.simulation or self
        causes += [
            f"{signal.describe()}: calibrate with data like what the engine will meet, or give "
            "the worst layers back to floating point: enginebay quantize"
            for signal in figures.signals
            if not signal.passed
        ]
        if self.basis.branches:
            lines = ", ".join(self.basis.branches)
            causes.append(
                f"Python reads values at {lines}, so the engine holds for one branch only"
            )
        if figures.failed and set(figures.failed) <= set(self.basis.beyond):
            causes.append(
                "it shows only outside of the example's range; if inputs never go there, "
                "say so: --domain NAME=LOW,HIGH (domain={...})"
            )
        return tuple(causes)
