"""Records of error metrics: comparisons of outputs, signal-to-noise ratios, simulations."""

from __future__ import annotations

import math

import msgspec

from enginebay.verdict.matching import Matching

#: The label of the caller's own sample.
EXAMPLE = "example"

#: The prefix of the label of a data set's item; the item's number follows.
ITEM = "item "


class OutputComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of one output of the artifact with the reference.

    An element passes if ``|found - expected| <= atol + rtol * |expected|``, if both are NaN, or if
    both are the same infinity.

    Attributes:
        name: The output's name.
        dtype: NumPy's name of the expected dtype; for an unexpected output, of the actual dtype.
        shape: The expected shape; for an unexpected output, the actual shape.
        dims: The output's dimensions, with names for the dynamic ones; None if all are fixed.
        total: Number of compared elements.
        mismatched_count: Number of elements that did not pass.
        max_abs_error: The largest ``|found - expected|`` over elements that are finite in both;
            None if nothing was compared.
        max_rel_error: The largest ``|found - expected| / |expected|`` over elements that are finite
            in both and not 0 in ``expected``; None if nothing was compared.
        worst_index: Index of the element with the largest error relative to its tolerance.
        worst_expected: The reference's value at ``worst_index``, as text.
        worst_found: The artifact's value at ``worst_index``, as text.
        rtol: The relative tolerance that was applied.
        atol: The absolute tolerance that was applied to the element at ``worst_index``, including
            the part that is relative to the magnitude of the output.
        rtol_that_passes: The smallest ``rtol`` with which the output would pass; None if there is
            none.
        atol_that_passes: An ``atol`` with which the output would pass; None if there is none.
        passed: True if the output agrees with the reference.
        reason: Why the output did not pass, or a remark on an output that passed.
        sample: Label of the compared sample: ``example``, ``item 3``, or ``redrawn`` (generated
            inputs).
        comparator: Name of the comparator: ``detections:0.5``; empty if the output was compared
            element by element.
        is_score: True if the output consists of scores, and their logits determine the tolerance.
        rounded_count: Number of elements beyond the tolerance that pass, since the model's own
            rounding explains them.
    """

    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    dims: tuple[int | str, ...] | None = None
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
    is_score: bool = False
    rounded_count: int = 0

    @property
    def badness(self) -> tuple[bool, float, float]:
        """Sort key for comparisons of the same output: the worst has the largest key."""
        # No tolerance that passes is worse than any tolerance.
        needed = math.inf if self.rtol_that_passes is None else self.rtol_that_passes
        return (not self.passed, needed, self.max_abs_error or 0.0)

    def describe(self) -> str:
        """Describe the comparison in one line, for messages."""
        text = f'"{self.name}"'
        # The example is the usual case and is not named.
        if self.sample != EXAMPLE:
            is_item = self.sample.startswith(ITEM)
            text += f" on {self.sample}" if is_item else f" on the probe '{self.sample}'"
        if self.worst_index is not None:
            index = ", ".join(map(str, self.worst_index))
            text += f" at [{index}]: expected {self.worst_expected}, found {self.worst_found}"
        if self.reason:
            text += f"; {self.reason}" if self.worst_index is not None else f": {self.reason}"
        return text + self._describe_tolerance()

    def describe_rounding(self) -> str:
        """Describe in one line the elements that rounding decides; "" if there are none."""
        if not self.rounded_count or not self.passed or not self.rtol_that_passes:
            return ""
        place = "" if self.sample == EXAMPLE else f" on '{self.sample}'"
        return (
            f'"{self.name}"{place}: {self.rounded_count} of {self.total} elements differ by up to '
            f"{self.rtol_that_passes / self.rtol:.2g} times the tolerance, no more than the "
            "model's own rounding: PyTorch is as far from double precision"
        )

    def _describe_tolerance(self) -> str:
        if self.worst_index is None:
            return ""
        text = f"; allowed rtol {self.rtol:.3g}, atol {self.atol:.3g}"
        text += " as for its logit" if self.is_score else ""
        if self.passed:
            return text
        if self.rtol_that_passes is not None:
            return f"{text}; rtol {self.rtol_that_passes:.3g} would pass"
        if self.atol_that_passes is not None:
            return f"{text}; atol {self.atol_that_passes:g} would pass"
        return f"{text}; no tolerance would pass"


class Rounding(msgspec.Struct, frozen=True, kw_only=True):
    """How far the elements of one output may lie beyond their tolerance, by the model's rounding.

    Attributes:
        elements: The largest number of such elements.
        error: The largest absolute error of such an element.
    """

    elements: int
    error: float


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """The signal-to-noise ratio of one output of an 8-bit engine.

    Attributes:
        output: The output's name.
        place: The measured samples: ``items`` for the items of a data set; ``the example`` for
            all other samples.
        samples: Number of measured samples.
        agreed: Number of samples in which the largest values along the last axis have the same
            indices in the engine's and the model's output; None if the model's are the same in all
            samples.
        decibels: The signal-to-noise ratio in dB; None without any noise.
        wanted: The smallest ``decibels`` that pass.
        varying: The signal-to-noise ratio in dB without each element's own mean over the samples;
            None without any noise, or if no two samples of the same shape differ.
        varying_wanted: The smallest ``varying`` that passes.
        lost: The slices of the output whose noise is more than half of their signal without means:
            ``[..., 4:85]``; empty if there are none.
        faint: Such slices of which the samples show too little to call the engine wrong.
        agreed_wanted: The smallest ``agreed`` that passes.
        right: Number of samples in which the engine's largest value is at the index of the true
            class; None if the true classes are unknown.
        right_in_model: Number of samples in which the model's largest value is at the index of the
            true class.
        right_wanted: The smallest ``right`` that passes.
    """

    output: str
    place: str
    samples: int
    agreed: int | None
    decibels: float | None
    wanted: float
    varying: float | None = None
    varying_wanted: float = 0.0
    lost: str = ""
    faint: str = ""
    agreed_wanted: int = 0
    right: int | None = None
    right_in_model: int = 0
    right_wanted: int = 0

    @property
    def passed(self) -> bool:
        """True if the ratios, the count of equal decisions and the accuracy are high enough."""
        is_right = self.right is None or self.right >= self.right_wanted
        is_clear = self.decibels is None or self.decibels >= self.wanted
        varies = self.varying is None or self.varying >= self.varying_wanted
        agrees = self.agreed is None or self.agreed >= self.agreed_wanted
        return is_clear and varies and not self.lost and is_right and agrees

    def describe(self) -> str:
        """Describe in one line the ratio in dB, how often classes agree, and the accuracy."""
        place = f"{self.samples} items" if self.place == "items" else self.place
        level = "no noise" if self.decibels is None else f"{self.decibels:.1f} dB above noise"
        parts = [f'"{self.output}" {level} on {place} (required {self.wanted:.1f})']
        if self.varying is not None:
            required = f" (required {self.varying_wanted:.1f})"
            is_low = self.varying < self.varying_wanted
            parts.append(
                f"{self.varying:.1f} dB without each element's mean{required if is_low else ''}"
            )
        elif self.place == "items" and self.samples == 1:
            parts.append("each element's mean included")
        if self.lost:
            parts.append(f"noise is more than half of the signal in {self.lost}")
        if self.agreed is not None:
            required = f" (required {self.agreed_wanted})" if self.agreed_wanted else ""
            parts.append(f"largest value agrees in {self.agreed}{required}")
        return ", ".join([*parts, *filter(None, [self.accuracy()])])

    def remedy(self) -> str:
        """Return what to do if the signal does not pass."""
        text = (
            "calibrate with data like those that the engine will receive, or run the worst layers "
            "in floating point: enginebay quantize MODEL"
        )
        if not self.lost:
            return text
        return (
            "values of different size share a scale: return them as separate outputs, or keep the "
            f"node that joins them in floating point with --int8-keep (int8_keep=), or {text}"
        )

    def limit(self) -> str:
        """Describe in one line the slices of which the verdict says nothing; "" if there are none.

        The engine is not called wrong, since the samples may just not show what they are about.
        """
        if not self.faint:
            return ""
        return (
            f'"{self.output}" varies by less than twice the noise of 8 bits in {self.faint}, so an '
            "engine that is wrong there would pass: pass --data in which it varies, or leave "
            "layers in floating point with --int8-keep (int8_keep=)"
        )

    def accuracy(self) -> str:
        """Describe how often engine and model predict the true class; "" without data items."""
        if self.right is None:
            return "accuracy was not measured" if self.place == "items" else ""
        return (
            f"engine right on {self.right} of {self.samples}, model right on "
            f"{self.right_in_model} (required {self.right_wanted})"
        )


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """Error metrics of the graph that an engine is built from, when another engine runs the graph.

    These metrics can show that the graph is right, but not that the engine is right.

    Attributes:
        engine: Name and version of the other engine: ``onnxruntime 1.31.1``.
        precision: The precision that the other engine computed in; it selects the tolerances.
        samples: Number of samples that were run.
        outputs: Each output's comparison in its worst sample.
        failed: Labels of the samples in which an output does not pass.
        signals: Each output's signal-to-noise ratio, if the precision has 8 bits.
        matchings: Each comparator's results.
    """

    engine: str
    precision: str = ""
    samples: int = 0
    outputs: tuple[OutputComparison, ...] = ()
    failed: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ()
    matchings: tuple[Matching, ...] = ()

    def describe(self) -> str:
        """Describe in one line the engine, the number of samples and the worst output."""
        worst = max(self.outputs, key=lambda output: output.badness)
        outputs = f"{len(self.outputs)} output{'' if len(self.outputs) == 1 else 's'}"
        samples = f"{self.samples} sample{'' if self.samples == 1 else 's'}"
        return f"{self.engine} ran the graph: {outputs} on {samples}; worst: {worst.describe()}"
