"""The verdict that an artifact carries, with the figures it rests on.

The figures are measured in :mod:`enginebay.verification`; these are only their records. A record
is plain JSON: no NaN and no infinity, so a value that may be one of them is kept as text.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

Verdict: TypeAlias = Literal["verified", "mismatched", "unverified", "crashed"]


class OutputComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One output of the artifact held against the reference.

    A place passes when ``|found - expected| <= atol + rtol * |expected|``, when both are NaN, or
    when both are the same infinity.

    Attributes:
        name: The output's name.
        dtype: The expected dtype, in NumPy's names; the found one where none was expected.
        shape: The expected shape, likewise.
        total: How many places were compared.
        mismatched_count: How many of them did not pass.
        max_abs_error: The largest ``|found - expected|`` over places that are finite in both;
            None where nothing was compared.
        max_rel_error: The largest ``|found - expected| / |expected|`` over places that are finite
            in both and not 0 in ``expected``; None where nothing was compared.
        worst_index: The place furthest outside its tolerance, or nearest to leaving it.
        worst_expected: What the reference has there, as text.
        worst_found: What the artifact has there, as text.
        rtol: The relative tolerance that was applied.
        atol: The absolute tolerance that was applied, the output's own scale included.
        rtol_that_passes: The ``rtol`` that would just pass; None where none would.
        atol_that_passes: An ``atol`` that would pass; None where none would.
        passed: Whether the output agrees with the reference.
        reason: What is wrong, or what is remarkable about an output that passed.
    """

    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    total: int = 0
    mismatched_count: int = 0
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    worst_index: tuple[int, ...] | None = None
    worst_expected: str = ""
    worst_found: str = ""
    rtol: float = 0.0
    atol: float = 0.0
    rtol_that_passes: float | None = None
    atol_that_passes: float | None = None
    passed: bool
    reason: str = ""

    @property
    def badness(self) -> tuple[bool, float, float]:
        """Sorts comparisons of one output: the largest is the one to show."""
        needed = math.inf if self.rtol_that_passes is None else self.rtol_that_passes
        return (not self.passed, needed, self.max_abs_error or 0.0)

    def describe(self) -> str:
        """The comparison in one line, for messages."""
        text = f'"{self.name}"'
        if self.worst_index is not None:
            place = ", ".join(map(str, self.worst_index))
            text += f" at [{place}]: expected {self.worst_expected}, found {self.worst_found}"
        if self.reason:
            text += f"; {self.reason}" if self.worst_index is not None else f": {self.reason}"
        return text + self._tolerance_text()

    def _tolerance_text(self) -> str:
        """The tolerance, and the one that would have passed, where numbers were compared."""
        if self.worst_index is None:
            return ""
        text = f"; allowed rtol {self.rtol:.3g}, atol {self.atol:.3g}"
        if self.passed:
            return text
        if self.rtol_that_passes is not None:
            return f"{text}; rtol {self.rtol_that_passes:.3g} would pass"
        if self.atol_that_passes is not None:
            return f"{text}; atol {self.atol_that_passes:g} would pass"
        return f"{text}; no tolerance would pass"


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on an artifact, and how it came about.

    Attributes:
        verdict: ``verified``, ``mismatched``, ``unverified`` or ``crashed``.
        reference: What the artifact was held against: ``the PyTorch model, unpatched``.
        outputs: Each output's comparison, out of the sample where it was worst.
        samples: How many sets of inputs were run.
        precision: The effective precision that the tolerances were chosen for.
        reason: Why there are no figures, for ``unverified`` and ``crashed``.

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

    @classmethod
    def of(
        cls,
        samples: Sequence[Sequence[OutputComparison]],
        *,
        reference: str,
        precision: str = "fp32",
    ) -> Verification:
        """The verdict on several samples; of each output, the worst one is kept.

        Args:
            samples: The result of :func:`~enginebay.verification.compare` for each set of inputs.
            reference: What the expected values came from.
            precision: The effective precision of the engine.

        Returns:
            ``verified`` or ``mismatched``; ``unverified`` where not one number was compared.
        """
        worst: dict[str, OutputComparison] = {}
        for output in chain.from_iterable(samples):
            known = worst.get(output.name)
            if known is None or output.badness > known.badness:
                worst[output.name] = output
        verdict: Verdict = "verified" if all(o.passed for o in worst.values()) else "mismatched"
        reason = ""
        if verdict == "verified" and not any(o.total for o in chain.from_iterable(samples)):
            verdict, reason = "unverified", "not one number was compared"
        return cls(
            verdict=verdict,
            reference=reference,
            outputs=tuple(worst.values()),
            samples=len(samples),
            precision=precision,
            reason=reason,
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
        return f"{self.verdict}{against} on {self._extent()}; worst: {worst.describe()}"

    def _extent(self) -> str:
        """The extent of the comparison: ``2 outputs, 3 samples``."""
        parts = (("output", len(self.outputs)), ("sample", self.samples))
        return ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in parts)
