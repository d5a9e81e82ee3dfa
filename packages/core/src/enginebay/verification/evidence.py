"""The evidence of a verdict: an engine's outputs and the reference's, on the same samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from enginebay.inference import coarseness
from enginebay.tensors import find_extremes, is_float
from enginebay.verdict import EXAMPLE, Basis
from enginebay.verification.output_arrays import find_small_slices
from enginebay.verification.sample_comparison import align_sample, compare_sample
from enginebay.verification.set_comparison import ToleranceOptions
from enginebay.verification.signal_to_noise import measure_signals
from enginebay.verification.tolerance import tolerance_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.comparators import Comparator
    from enginebay.tensors import NumpyArray, Sample
    from enginebay.verdict import OutputComparison, Signal
    from enginebay.verification.output_arrays import SmallSlices
    from enginebay.verification.sample_comparison import SampleComparison


@dataclass(frozen=True)
class Evidence:
    """An engine's outputs and the reference's, on the same samples.

    Attributes:
        recorded: The inputs of all runs, with the reference's outputs.
        found: The engine's outputs in each run.
        basis: A label for each run, and the cases that the samples do not cover.
        comparators: Comparators for outputs that are compared as sets, such as detections.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        precision: The precision that the engine computed in.
        allowed: The coarsest precision that it may compute in.
    """

    recorded: Sequence[Sample]
    found: Sequence[Mapping[str, NumpyArray]]
    basis: Basis = field(default_factory=Basis)
    comparators: Sequence[Comparator] = ()
    rtol: float | None = None
    atol: float | None = None
    precision: str = "fp32"
    allowed: str = "fp32"

    @property
    def all_labels(self) -> tuple[str, ...]:
        """The label of each run."""
        return self.basis.labels or (EXAMPLE,) * len(self.recorded)

    @cached_property
    def runs(self) -> list[tuple[str, Sample, Mapping[str, NumpyArray]]]:
        """The label, the sample and the engine's outputs of each run that counts.

        Runs on extreme values do not count.
        """
        rows = zip(self.all_labels, self.recorded, self.settled, strict=True)
        return [row for row in rows if row[1].kind != "non_finite"]

    @cached_property
    def settled(self) -> list[Mapping[str, NumpyArray]]:
        """The engine's outputs, with NaN where it has numbers for NaN of the model on a probe.

        A row that is masked whole, as no example is, has no defined result.
        """
        return [*map(self._settle_nan, self.recorded, self.found)]

    def _settle_nan(
        self, sample: Sample, found: Mapping[str, NumpyArray]
    ) -> Mapping[str, NumpyArray]:
        settled = dict(found)
        for name, array in sample.outputs.items() if sample.kind == "probe" else ():
            known = self.recorded[0].outputs.get(name)
            if not is_float(array) or name not in found or known is None or not is_float(known):
                continue
            other = found[name]
            if other.shape != array.shape or not is_float(other) or np.isnan(known).any():
                continue
            if (undefined := np.isnan(array) & ~np.isnan(other)).any():
                settled[name] = np.where(undefined, array, other).astype(other.dtype)
        return settled

    @property
    def undefined(self) -> list[tuple[str, str]]:
        """The label and the output of each probe on which NaN of the model counts for nothing."""
        return [
            (label, name)
            for label, found, settled in zip(self.all_labels, self.found, self.settled, strict=True)
            for name, array in settled.items()
            if array is not found[name]
        ]

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each run that counts."""
        return tuple(label for label, _, _ in self.runs)

    @property
    def samples(self) -> list[Sample]:
        """The sample of each run that counts."""
        return [sample for _, sample, _ in self.runs]

    @property
    def non_finite_runs(self) -> list[tuple[Sample, Mapping[str, NumpyArray]]]:
        """The runs on extreme values; the engine has no outputs in a run that it failed."""
        rows = zip(self.recorded, self.found, strict=True)
        return [row for row in rows if row[0].kind == "non_finite"]

    @property
    def options(self) -> ToleranceOptions:
        """The precision that selects the tolerances, and the user's tolerances."""
        # An engine that computes less precisely than allowed does not get the larger tolerance.
        precision = min(self.precision, self.allowed, key=coarseness)
        # In a file of 8 bits, the order of a sum decides which of two steps a value takes.
        precision = max(precision, self.basis.precision, key=coarseness)
        # The errors of two engines add up.
        factor = 2 if self.basis.inexact else 1
        return ToleranceOptions(precision, self.rtol, self.atol, factor, self._peaks)

    @cached_property
    def _peaks(self) -> dict[str, float]:
        """Output of scores → its largest value in all samples."""
        peaks = {}
        for name in self.basis.scores:
            arrays = [each.outputs[name] for each in self.samples if name in each.outputs]
            largest = (find_extremes(each)[1] or 0.0 for each in arrays if each.size)
            peaks[name] = max(largest, default=0.0)
        return peaks

    @cached_property
    def small_slices(self) -> dict[str, SmallSlices]:
        """Output name → the result of :func:`find_small_slices` for all samples."""
        outputs: dict[str, list[NumpyArray]] = {}
        for sample in self.samples:
            for name, array in sample.outputs.items():
                if is_float(array):
                    outputs.setdefault(name, []).append(array)
        precision = self.options.precision
        return {
            name: find_small_slices(
                arrays, noise=tolerance_for(arrays[0].dtype.name, precision).noise or 0.0
            )
            for name, arrays in outputs.items()
        }

    @cached_property
    def comparisons(self) -> list[SampleComparison]:
        """The comparison of each run that counts."""
        all_expected = [sample.outputs for sample in self.samples]
        return [
            compare_sample(
                sample.outputs,
                outputs,
                self.options,
                self.comparators,
                small_slices=self.small_slices,
                rounding=self.basis.rounding.get(label),
                all_expected=all_expected,
            )
            for label, sample, outputs in self.runs
        ]

    @property
    def labelled_outputs(self) -> list[tuple[str, OutputComparison]]:
        """Each output's comparison in each run, with the label of the run."""
        pairs = zip(self.labels, self.comparisons, strict=True)
        return [(label, output) for label, comparison in pairs for output in comparison.outputs]

    @cached_property
    def excused(self) -> dict[str, OutputComparison]:
        """Label of a run → an output that differs there, but only rounding errors decide it.

        Such a sample is the caller's: a generated one would be left out.
        """
        return {
            label: output
            for label, output in self.labelled_outputs
            if not output.passed and label in self.basis.undecided
        }

    @cached_property
    def failed(self) -> tuple[str, ...]:
        """The labels of the runs in which an output differs, and no rounding errors excuse it."""
        failed = (label for label, output in self.labelled_outputs if not output.passed)
        return tuple(dict.fromkeys(label for label in failed if label not in self.excused))

    @cached_property
    def worst_outputs(self) -> tuple[OutputComparison, ...]:
        """Each output's worst comparison, apart from excused ones."""
        by_name: dict[str, list[OutputComparison]] = {}
        for label, output in self.labelled_outputs:
            if output.passed or label not in self.excused:
                labelled = msgspec.structs.replace(output, sample=label)
                by_name.setdefault(output.name, []).append(labelled)
        return tuple(
            max(outputs, key=lambda output: output.badness) for outputs in by_name.values()
        )

    @cached_property
    def signals(self) -> tuple[Signal, ...]:
        """Each output's signal-to-noise ratio, if the engine computed in 8 bits."""
        aligned = [
            align_sample(self.comparators, sample, outputs, comparison)
            for (_, sample, outputs), comparison in zip(self.runs, self.comparisons, strict=True)
        ]
        return measure_signals(
            [sample for sample, _ in aligned],
            [outputs for _, outputs in aligned],
            precision=self.options.precision,
            rtol=self.rtol,
            targets=[self.basis.targets.get(label) for label in self.labels],
        )
