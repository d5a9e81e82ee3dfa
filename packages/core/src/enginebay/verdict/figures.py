"""The figures that a verdict rests on, as records: of outputs, of signals, of a simulation."""

from __future__ import annotations

import math

import msgspec

from enginebay.verdict.matching import Matching

#: The label of a sample that the caller gave.
EXAMPLE = "example"

#: The start of an item's label; its number follows.
ITEM = "item "


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
        sample: What was compared on: ``example``, or a probe such as ``redrawn``.
        comparator: What compared it as a set: ``detections:0.5``; empty for place by place.
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
    sample: str = EXAMPLE
    comparator: str = ""

    @property
    def badness(self) -> tuple[bool, float, float]:
        """Sorts comparisons of one output: the largest is the one to show."""
        needed = math.inf if self.rtol_that_passes is None else self.rtol_that_passes
        return (not self.passed, needed, self.max_abs_error or 0.0)

    def describe(self) -> str:
        """The comparison in one line, for messages."""
        text = f'"{self.name}"'
        if self.sample != EXAMPLE:
            is_item = self.sample.startswith(ITEM)
            text += f" on {self.sample}" if is_item else f" on the probe '{self.sample}'"
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


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """The signal of one output of an 8-bit engine beside its noise.

    Attributes:
        output: The output's name.
        place: Where it was measured: ``items`` of a data set, or ``the example`` at every size.
        samples: How many sets of inputs that is.
        agreed: In how many of them the largest values along the last axis are at the same places.
        decibels: The signal above the noise; None where there is no noise at all.
        wanted: What it should be at least, in dB.
        agreed_wanted: In how many of them the largest value stays under the noise that is allowed.
        right: On how many of them the largest value is at the target; None where this is unknown.
        right_in_model: On how many of them the model's is.
        right_wanted: The least ``right`` that passes.
    """

    output: str
    place: str
    samples: int
    agreed: int
    decibels: float | None
    wanted: float
    agreed_wanted: int = 0
    right: int | None = None
    right_in_model: int = 0
    right_wanted: int = 0

    @property
    def passed(self) -> bool:
        """True if the signal is high enough, and the engine decides as the model does."""
        is_right = self.right is None or self.right >= self.right_wanted
        is_clear = self.decibels is None or self.decibels >= self.wanted
        return is_clear and is_right and self.agreed >= self.agreed_wanted

    def describe(self) -> str:
        """One line: the signal, how often the largest value agrees, and what was wanted."""
        place = f"{self.samples} items" if self.place == "items" else self.place
        level = "no noise" if self.decibels is None else f"{self.decibels:.1f} dB above noise"
        wanted = f" (wanted {self.agreed_wanted})" if self.agreed_wanted else ""
        return (
            f'"{self.output}" {level} on {place} (wanted {self.wanted:.1f}), '
            f"largest value agrees in {self.agreed}{wanted}"
            f"{', ' if self.place == 'items' else ''}{self.accuracy()}"
        )

    def accuracy(self) -> str:
        """How often engine and model are right on items, or that nobody knows."""
        if self.right is None:
            return "accuracy was not measured" if self.place == "items" else ""
        return (
            f"right on {self.right} of {self.samples} and the model on {self.right_in_model} "
            f"(wanted {self.right_wanted})"
        )


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """The graph that an engine is built from, run by another engine and held to the reference.

    Its figures are the other engine's: they show that the graph is right, and not that the engine
    which was built from it is.

    Attributes:
        engine: Name and version of the other engine: ``onnxruntime 1.31.1``.
        precision: Its effective precision, which the tolerances were chosen for.
        samples: How many sets of inputs were run.
        outputs: Each output's comparison, out of the sample where it was worst.
        failed: Labels of the samples that do not pass.
        signals: In 8 bits, each output's signal beside its noise.
        matchings: Of each comparator, what it found.
    """

    engine: str
    precision: str = ""
    samples: int = 0
    outputs: tuple[OutputComparison, ...] = ()
    failed: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()
    matchings: tuple[Matching, ...] = ()

    def describe(self) -> str:
        """One line: which engine ran the graph, on how much, and the worst that was found."""
        worst = max(self.outputs, key=lambda output: output.badness)
        outputs = f"{len(self.outputs)} output{'' if len(self.outputs) == 1 else 's'}"
        samples = f"{self.samples} sample{'' if self.samples == 1 else 's'}"
        return f"{self.engine} ran the graph: {outputs} on {samples}; worst: {worst.describe()}"
