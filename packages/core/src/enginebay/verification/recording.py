"""The inputs that a deployment is compared on, with the reference's outputs."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import EnginebayError, InputError, ModelError, first_line, nearest
from enginebay.tensors import Sample
from enginebay.verdict import EXAMPLE, ITEM, Basis
from enginebay.verification.group import Measure
from enginebay.verification.groups import check_comparators, compare_sample
from enginebay.verification.output_arrays import says_nothing
from enginebay.verification.probes import NON_FINITE, Probe, Probes, ProbeSettings, is_constant
from enginebay.verification.reference import reference_for
from enginebay.verification.tolerance import CALIBRATED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from enginebay.comparators import Comparator
    from enginebay.data import Item
    from enginebay.models import BoundModel, Observation
    from enginebay.tensors import NumpyArray
    from enginebay.verdict import OutputComparison
    from enginebay.verification.probes import Domain
    from enginebay.verification.reference import Reference

    Arrays = dict[str, NumpyArray]

#: Seconds that onnx's evaluator, which is written for clarity, may take for an example whose
#: probes it is to evaluate as well. Most of them start its process, more on a busy machine.
_QUICK = 5.0


@dataclass(frozen=True)
class RecordedReference:
    """The reference's outputs, recorded.

    Attributes:
        description: Its name in the verdict: ``the PyTorch model, unpatched``.
        samples: The example inputs, the smallest and the largest sizes, and the probes, with
            their outputs; without outputs where something is missing.
        basis: What the verdict will rest on, with a label for each sample.
        missing: Why nothing can give any outputs; empty where they are there.
        model: The model that gave them; None where it is not at hand, or not one that PyTorch runs.
    """

    description: str
    samples: tuple[Sample, ...]
    basis: Basis
    missing: str = ""
    model: BoundModel | None = None


def record_reference(
    model: BoundModel,
    backend: str,
    *,
    precision: str = "fp32",
    settings: ProbeSettings,
    items: Iterable[Item] = (),
    comparators: Sequence[Comparator] = (),
) -> RecordedReference:
    """Record what the model gives, before any rewriter touches it.

    Otherwise a wrong rewriter would verify itself.

    Args:
        model: The model.
        backend: The engine that is to be verified, which cannot vouch for itself.
        precision: The coarsest precision that the engine may compute in.
        settings: Which probes to take.
        items: Entries of a data set to compare on as well.
        comparators: What will compare outputs that are sets.

    Raises:
        InputError: An item does not fit the model, the domain names no input, or the example lies
            outside of it.
        ModelError: The model does not run at a size that should be open.
        UsageError: A comparator cannot compare the model's outputs.
    """
    _check_domain(settings.domain, model.examples)
    reference = reference_for(model, backend)
    probes = Probes(model.examples, settings, below=model.below)
    drawn = probes.all(model.dynamic, precision)
    if model.signature is None:
        recorded = _recorded_elsewhere(model, reference, drawn, precision, settings.domain, items)
        if not recorded.missing:
            check_comparators(comparators, recorded.samples)
        return recorded
    recorder = _Recorder(settings.domain, precision, model=model, comparators=comparators)
    recorder.record_example()
    for item in items:
        recorder.record_item(item)
    for probe in drawn:
        recorder.record(probe)
    check_comparators(comparators, recorder.samples[1:])
    if settings.count and precision not in CALIBRATED:
        recorder.note_untried(model.examples)
        if not comparators and (arrays := probes.non_finite()):
            recorder.record_non_finite(arrays)
    return recorder.recorded(reference.description)


def sample_model(
    model: BoundModel,
    backend: str,
    recorded: Sequence[tuple[str, Arrays]],
    *,
    precision: str,
    domain: Domain,
) -> RecordedReference:
    """Record what a model gives for recorded inputs, and for probes that are drawn anew.

    Args:
        model: The model.
        backend: The engine that is to be verified.
        recorded: Labels and inputs, the example first.
        precision: The coarsest precision that the engine may compute in.
        domain: Bounds that the probes stay inside of.

    Raises:
        ModelError: The model does not run on recorded inputs.
    """
    reference = reference_for(model, backend)
    if model.signature is None:
        labels, inputs = zip(*recorded, strict=True)
        found = zip(inputs, reference.outputs(inputs), strict=True)
        samples = tuple(Sample(*pair) for pair in found)
        return RecordedReference(
            reference.description, samples, Basis(labels=labels, domain=domain)
        )
    recorder = _Recorder(domain, precision, model=model)
    for label, arrays in recorded:
        if label == NON_FINITE:
            recorder.record_non_finite(arrays)
        else:
            recorder.record(Probe(label, arrays, required=True, tiled=arrays))
    example = recorded[0][1]
    drawn = Probes(example, ProbeSettings(domain=domain), below=model.below, seed=1)
    for probe in drawn.all({}, precision):
        recorder.record(replace(probe, label=f"{probe.label} anew"))
    return recorder.recorded(reference.description)


def _recorded_elsewhere(
    model: BoundModel,
    reference: Reference,
    drawn: Sequence[Probe],
    precision: str,
    domain: Domain,
    items: Iterable[Item],
) -> RecordedReference:
    """A file that PyTorch cannot run: its outputs come from a child process."""
    start = time.monotonic()
    try:
        (outputs,) = reference.outputs([model.examples])
    except EnginebayError as err:
        sample, basis = Sample(model.examples, {}), Basis(labels=(EXAMPLE,), domain=domain)
        return RecordedReference(reference.description, (sample,), basis, missing=str(err))
    quick = time.monotonic() - start < _QUICK
    kept = _Kept(domain, precision)
    kept.add(EXAMPLE, Sample(model.examples, outputs))
    held = [
        item._replace(inputs={name: array.copy() for name, array in item.inputs.items()})
        for item in items
    ]
    found = reference.outputs([item.inputs for item in held]) if held else []
    for item, result in zip(held, found, strict=True):
        kept.add(f"{ITEM}{item.number}", Sample(item.inputs, result, "item"))
    chosen = drawn if quick else drawn[:1]
    try:
        found = reference.outputs([probe.inputs for probe in chosen]) if chosen else []
    except EnginebayError as err:
        found = []
        kept.dropped.append(f"the probes: {first_line(err)}")
    for probe, result in zip(chosen, found, strict=False):
        if kept.accepts(probe.label, result):
            kept.add(probe.label, Sample(probe.inputs, result, kind="probe"), beyond=probe.beyond)
    return RecordedReference(reference.description, tuple(kept.samples), kept.basis())


@dataclass
class _Kept:
    """The samples that a verdict will rest on, and what else it will."""

    domain: Domain
    precision: str
    samples: list[Sample] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    untried: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Say what is not tried at all."""
        if self.precision in CALIBRATED:
            reason = f"{self.precision} holds for values like those it was calibrated with"
            self.dropped.append(f"the probes: {reason}")

    def accepts(self, label: str, outputs: Arrays) -> bool:
        """True if outputs say anything; else the probe is noted as dropped."""
        if all(map(says_nothing, outputs.values())):
            self.dropped.append(f"{label}: the model gives nothing but NaN and infinity")
            return False
        return True

    def add(self, label: str, sample: Sample, *, beyond: bool = False) -> None:
        """Keep a sample."""
        self.samples.append(sample)
        self.labels.append(label)
        if beyond:
            self.beyond.append(label)

    def note_untried(self, example: Arrays) -> None:
        """Note the inputs that hold the example's one value in every sample."""
        self.untried = tuple(
            name
            for name, array in example.items()
            if is_constant(array)
            and all((one.inputs[name] == array.flat[0]).all() for one in self.samples)
        )

    def basis(self) -> Basis:
        """What the verdict will rest on."""
        return Basis(
            labels=tuple(self.labels),
            beyond=tuple(self.beyond),
            dropped=tuple(self.dropped),
            untried=self.untried,
            domain=self.domain,
        )


@dataclass
class _Recorder(_Kept):
    """Runs the model on one sample after the other, and keeps what Python saw."""

    model: BoundModel = field(kw_only=True)
    comparators: Sequence[Comparator] = ()
    doubt: str = ""
    orders: bool = False
    #: What Python read, by the sizes of the inputs.
    observed: dict[str, list[Observation]] = field(default_factory=dict)

    def record_example(self) -> None:
        """The example, which the model ran on when it was bound; twice, to see chance."""
        first, again = self.model.example_outputs(), self._run(self.model.examples)
        check_comparators(self.comparators, [Sample(self.model.examples, first)])
        if unequal := [o.describe() for o in self._compare(first, again) if not o.passed]:
            self.doubt = f"the model is not deterministic, a second run differs: {unequal[0]}"
        elif kept := self._kept():
            self.doubt = (
                f"the model keeps what it computes from its inputs in {', '.join(kept)}, and goes "
                "on with it; an engine keeps nothing"
            )
        self.add(EXAMPLE, Sample(self.model.examples, first))

    def _kept(self) -> list[str]:
        """The attributes that the model wrote into, if another run goes on with what is there."""
        assert self.model.signature is not None
        observation = self.model.signature.observation
        kept = observation.kept if observation else ()
        if not kept:
            return []
        other = Probes(self.model.examples, ProbeSettings(domain=self.domain)).redrawn()
        afterwards = self.model.run(other.inputs)
        changed = [each.exchange() for each in kept]
        try:
            alone = self.model.run(other.inputs)
        finally:
            for each in changed:
                each.exchange()
        same = all(output.passed for output in self._compare(alone, afterwards))
        return [] if same else [each.name for each in kept]

    def _compare(self, expected: Arrays, found: Arrays) -> tuple[OutputComparison, ...]:
        return compare_sample(expected, found, Measure(), self.comparators).outputs

    def record_item(self, item: Item) -> None:
        """An entry of a data set, which the model must take."""
        # Copied: a data set may fill one array again for each item.
        inputs = {name: array.copy() for name, array in item.inputs.items()}
        self.add(f"{ITEM}{item.number}", Sample(inputs, self._run(inputs), "item"))

    def record(self, probe: Probe) -> None:
        """A probe, if the model says anything to it."""
        if probe.tied and self.orders:
            self.dropped.append(f"{probe.label}: the model orders values, and these are equal")
            return
        try:
            outputs = self._run(probe.inputs)
        except ModelError as err:
            if probe.required:
                self._record_tiled(probe, err)
            else:
                self.dropped.append(f"{probe.label}: {first_line(err)}")
            return
        if self.accepts(probe.label, outputs):
            self._keep(probe, probe.inputs, outputs)
        elif probe.required:
            self._record_tiled(probe, None)

    def record_non_finite(self, inputs: Arrays) -> None:
        """NaN and infinity, unless the model raises, or reads numbers: a loop might not end."""
        if any(one.readings for group in self.observed.values() for one in group):
            return
        with suppress(ModelError):
            self.add(NON_FINITE, Sample(inputs, self.model.run(inputs), "non_finite"))

    def _record_tiled(self, probe: Probe, error: ModelError | None) -> None:
        """Sizes that the caller wants open: with the example's own values, and else an error."""
        assert probe.tiled is not None
        try:
            self._keep(probe, probe.tiled, self._run(probe.tiled))
        except ModelError as err:
            if probe.tiled is probe.inputs:
                raise
            raise ModelError(
                f"at {probe.label}, which should be open, {error or err}",
                hint="keep the smallest and the largest sizes to what the model takes",
            ) from err

    def _keep(self, probe: Probe, inputs: Arrays, outputs: Arrays) -> None:
        sample = Sample(inputs, outputs, kind="example" if probe.required else "probe")
        self.add(probe.label, sample, beyond=probe.beyond)

    def _run(self, inputs: Arrays) -> Arrays:
        from enginebay.models import Observer  # imports torch

        observer = Observer()
        outputs = self.model.run(inputs, observer)
        sizes = ",".join(str(array.shape) for array in inputs.values())
        self.observed.setdefault(sizes, []).append(observer.observation)
        self.orders |= observer.observation.orders
        return outputs

    def recorded(self, description: str) -> RecordedReference:
        """All of it, for a reference of this name."""
        samples = tuple(self.samples)
        return RecordedReference(description, samples, self.basis(), model=self.model)

    def basis(self) -> Basis:
        """What the verdict will rest on."""
        branches, warnings = _python_values(self.observed.values())
        basis = super().basis()
        return msgspec.structs.replace(
            basis, warnings=warnings, branches=branches, doubt=self.doubt
        )


def _python_values(
    groups: Iterable[Sequence[Observation]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines whose values differ between samples of one size, and a warning for each other."""
    values: dict[str, list[set[tuple[str, ...]]]] = {}
    for group in groups:
        for place in {reading.place for one in group for reading in one.readings}:
            found = {
                tuple(reading.value for reading in one.readings if reading.place == place)
                for one in group
            }
            values.setdefault(place, []).append(found)
    differing = sorted(place for place, found in values.items() if any(len(s) > 1 for s in found))
    warnings = [
        f"{place}: Python reads a value that depends on the inputs "
        f"({', '.join(next(iter(found[0]))) or 'nothing'} in all samples); "
        "if it decides a branch, the engine holds for that branch only"
        for place, found in sorted(values.items())
        if place not in differing
    ]
    return tuple(differing), tuple(warnings)


def _check_domain(domain: Domain, examples: Mapping[str, NumpyArray]) -> None:
    for name, (low, high) in domain.items():
        if name not in examples:
            guess = nearest(name, examples)
            raise InputError(
                f"the domain names '{name}', which is not an input; inputs: {', '.join(examples)}",
                hint=f"did you mean '{guess}'?" if guess else None,
            )
        if not low < high:
            raise InputError(f"the domain of '{name}' is {low:g}:{high:g}; wanted the least first")
        values = examples[name]
        if values.size and not (low <= values.min() and values.max() <= high):
            raise InputError(
                f"the example of '{name}' goes from {values.min()} to {values.max()}, outside of "
                f"its domain {low}:{high}",
                hint="give the model's whole range, or another example",
            )
