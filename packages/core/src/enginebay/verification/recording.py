"""The inputs that a deployment is compared on, with the reference's outputs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from enginebay.errors import EnginebayError, InputError, first_line, nearest
from enginebay.tensors import Sample
from enginebay.verdict import EXAMPLE, Basis
from enginebay.verification.groups import check_comparators
from enginebay.verification.larger_sizes import record_larger
from enginebay.verification.probes import NON_FINITE, Probe, Probes, ProbeSettings
from enginebay.verification.recorder import KeptSamples, RecordedReference, Recorder
from enginebay.verification.reference import reference_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from enginebay.comparators import Comparator
    from enginebay.data import Item
    from enginebay.models import BoundModel, ModelState
    from enginebay.tensors import NumpyArray
    from enginebay.verification.probes import Domain
    from enginebay.verification.reference import Reference

    Arrays = dict[str, NumpyArray]

#: Seconds that onnx's evaluator, which is written for clarity, may take for an example whose
#: probes it is to evaluate as well. Most of them start its process, more on a busy machine.
_QUICK = 5.0


def record_reference(
    model: BoundModel,
    backend: str,
    *,
    state: ModelState | None = None,
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
        state: What the model held before it ran for the first time.
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
        recorded = _recorded_elsewhere(model, reference, drawn, settings, items)
        if not recorded.missing:
            check_comparators(comparators, recorded.samples)
        return recorded
    recorder = Recorder(settings.domain, settings.calibrated, model=model, comparators=comparators)
    recorder.record_example(state)
    for item in items:
        recorder.record_item(item)
    for probe in drawn:
        recorder.record(probe)
    if settings.count and not settings.calibrated:
        record_larger(recorder, probes)
        recorder.note_untried(model.examples)
        if not comparators and (arrays := probes.non_finite()):
            recorder.record_non_finite(arrays)
    check_comparators(comparators, recorder.samples[1:])
    return recorder.recorded(reference.description)


def sample_model(
    model: BoundModel,
    backend: str,
    recorded: Sequence[tuple[str, Arrays]],
    *,
    precision: str,
    settings: ProbeSettings,
) -> RecordedReference:
    """Record what a model gives for recorded inputs, and for probes that are drawn anew.

    Args:
        model: The model.
        backend: The engine that is to be verified.
        recorded: Labels and inputs, the example first.
        precision: The coarsest precision that the engine may compute in.
        settings: Which probes to take.

    Raises:
        ModelError: The model does not run on recorded inputs.
    """
    reference = reference_for(model, backend)
    if model.signature is None:
        labels, inputs = zip(*recorded, strict=True)
        found = zip(inputs, reference.outputs(inputs), strict=True)
        samples = tuple(Sample(*pair) for pair in found)
        basis = Basis(labels=labels, domain=settings.domain)
        return RecordedReference(reference.description, samples, basis)
    recorder = Recorder(settings.domain, settings.calibrated, model=model)
    for label, arrays in recorded:
        if label == NON_FINITE:
            recorder.record_non_finite(arrays)
        else:
            recorder.record(Probe(label, arrays, required=True, tiled=arrays))
    example = recorded[0][1]
    drawn = Probes(example, settings, below=model.below, seed=1)
    for probe in drawn.all({}, precision):
        recorder.record(replace(probe, label=f"{probe.label} anew"))
    return recorder.recorded(reference.description)


def _recorded_elsewhere(
    model: BoundModel,
    reference: Reference,
    drawn: Sequence[Probe],
    settings: ProbeSettings,
    items: Iterable[Item],
) -> RecordedReference:
    """A file that PyTorch cannot run: its outputs come from a child process."""
    start = time.monotonic()
    try:
        (outputs,) = reference.outputs([model.examples])
    except EnginebayError as err:
        sample, basis = Sample(model.examples, {}), Basis(labels=(EXAMPLE,), domain=settings.domain)
        return RecordedReference(reference.description, (sample,), basis, missing=str(err))
    quick = time.monotonic() - start < _QUICK
    kept = KeptSamples(settings.domain, settings.calibrated)
    kept.add(EXAMPLE, Sample(model.examples, outputs))
    held = [
        item._replace(inputs={name: array.copy() for name, array in item.inputs.items()})
        for item in items
    ]
    found = reference.outputs([item.inputs for item in held]) if held else []
    for item, result in zip(held, found, strict=True):
        kept.add_item(item, result)
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
