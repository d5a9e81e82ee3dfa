"""Recording of the samples on which an artifact is compared: inputs and the reference's outputs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import EnginebayError, InputError, nearest
from enginebay.ir import summarise_onnx
from enginebay.reference.covering_plan import record_plan
from enginebay.reference.decision_search import search_decisions
from enginebay.reference.file_reference import OnnxReference
from enginebay.reference.larger_sizes import record_larger_sizes
from enginebay.reference.mask_values import find_float_masks
from enginebay.reference.probes import (
    NON_FINITE,
    REDRAWN,
    Probe,
    ProbeGenerator,
    ProbeSettings,
)
from enginebay.reference.recorded_samples import (
    RecordedModel,
    SampleCollection,
    measure_range,
)
from enginebay.reference.recorder import Recorder
from enginebay.reference.reference_outputs import reference_for
from enginebay.tensors import Sample, is_all_non_finite
from enginebay.verdict import EXAMPLE, ITEM, Basis
from enginebay.verification import RecordedReference, check_comparators

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from enginebay.comparators import Comparator
    from enginebay.data import Item
    from enginebay.models import BoundModel
    from enginebay.reference.probes import Domain
    from enginebay.state import ModelState
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]


#: ONNX's operators that draw random numbers.
_RANDOM = frozenset(
    (
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
    )
)


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
    """Record the model's outputs without rewriters, since a wrong rewriter would falsify them.

    Args:
        model: The model.
        backend: The backend to verify, which is not used as a reference.
        state: The model's state before the first run.
        precision: The coarsest precision that the engine may compute in.
        settings: Which probe inputs (generated, similar to the example) to add.
        items: Items of a data set to record as well.
        comparators: Comparators for outputs that are compared as sets, such as detections.

    Raises:
        InputError: An item does not fit the model, or the bounds of the generated values
            (``settings.domain``) name an unknown input or exclude a value of the example.
        ModelError: The model fails at a size for which it is deployed.
        UsageError: A comparator cannot compare the model's outputs.
    """
    _check_domain(settings.domain, model.examples)
    reference = reference_for(model, backend)
    draw = partial(
        _make_generator, model, model.examples, settings, precision, dynamic=model.dynamic
    )
    if isinstance(reference, OnnxReference):
        recorded = _record_foreign_file(model, reference, draw().draw_all(), settings, items)
        if not recorded.missing:
            check_comparators(comparators, recorded.samples)
        return recorded
    recorder = Recorder(
        settings.domain,
        settings.calibrated,
        model=model,
        comparators=comparators,
        effort=settings.effort,
        timeout=settings.timeout,
    )
    recorder.record_example(state)
    recorder.state = warm = state.record_again() if state and state.changed() else state
    for item in items:
        recorder.record_item(item)
    if stacked := recorder.stack_items(model.dynamic):
        recorder.record_probe(Probe(*stacked))
    generator = draw(masks=[*find_float_masks(model)])
    record_plan(recorder, generator)
    if settings.count and not settings.calibrated:
        # The larger sizes follow from the cost of the last run, at about the example's sizes.
        search_decisions(recorder, generator)
        record_larger_sizes(recorder, generator)
        recorder.note_untried(model.examples)
        if not comparators and (arrays := generator.draw_non_finite(recorder.positions)):
            recorder.record_non_finite(arrays, state)
    check_comparators(comparators, recorder.samples[1:])
    recorder.note_state(state)
    if warm and recorder.doubt:
        warm.restore()  # the exporter shall not see what the probes have left
    return recorder.build_reference(reference.description)


def sample_model(
    model: BoundModel,
    backend: str,
    recorded: Sequence[tuple[str, Arrays]],
    *,
    precision: str,
    settings: ProbeSettings,
) -> RecordedReference:
    """Record a model's outputs for recorded inputs, and for newly generated probe inputs.

    Args:
        model: The model.
        backend: The backend to verify, which is not used as a reference.
        recorded: The label and the inputs of each recorded sample, the example first.
        precision: The coarsest precision that the engine may compute in.
        settings: Which probe inputs to generate.

    Raises:
        ModelError: The model does not run on recorded inputs.
    """
    from enginebay.state import ModelState

    reference = reference_for(model, backend)
    if isinstance(reference, OnnxReference):
        labels, inputs = zip(*recorded, strict=True)
        outputs = reference.compute_outputs(inputs)
        samples = tuple(Sample(*pair) for pair in zip(inputs, outputs, strict=True))
        basis = Basis(labels=labels, domain=settings.domain)
        return _build_reference(model, reference, samples, basis)
    state = ModelState(model.source.module, fully=True)
    recorder = Recorder(settings.domain, settings.calibrated, model=model, state=state)
    for label, arrays in recorded:
        if label == NON_FINITE:
            recorder.record_non_finite(arrays)
        else:
            # A file takes ids below 0, for example, which its model refuses.
            required = label == EXAMPLE or label.startswith(ITEM)
            recorder.record_probe(Probe(label, arrays, required=required, tiled=arrays))
    example = recorded[0][1]
    # A different seed: the default would draw the recorded probes again.
    masks = [*find_float_masks(model)]
    generator = _make_generator(model, example, settings, precision, masks=masks, seed=1)
    for probe in generator.draw_all():
        recorder.record_probe(replace(probe, label=f"{probe.label} anew"))
    return recorder.build_reference(reference.description)


def _make_generator(
    model: BoundModel, example: Arrays, settings: ProbeSettings, precision: str, **options: Any
) -> ProbeGenerator:
    """Return a generator of inputs that resemble an example, with what is known of the model's."""
    return ProbeGenerator(
        example,
        settings,
        precision=precision,
        below=model.below,
        special=model.special,
        ascending=model.ascending,
        **options,
    )


def _record_foreign_file(
    model: BoundModel,
    reference: OnnxReference,
    probes: Sequence[Probe],
    settings: ProbeSettings,
    items: Iterable[Item],
) -> RecordedReference:
    """Record samples of a file that PyTorch cannot run; a child process computes the outputs."""
    collection = SampleCollection(settings.domain, settings.calibrated)
    collection.add_sample(EXAMPLE, Sample(model.examples, {}))
    for item in items:
        # Copied: a data set may fill the same array again for each item.
        inputs = {name: array.copy() for name, array in item.inputs.items()}
        collection.add_item(item._replace(inputs=inputs), {})
    # The first is run in any case, so it changes all inputs.
    probes = sorted(probes, key=lambda probe: probe.label != REDRAWN)
    if stacked := collection.stack_items(model.dynamic):
        probes = [Probe(*stacked), *probes]
    required = len(collection.samples)
    given = [sample.inputs for sample in collection.samples] + [probe.inputs for probe in probes]
    try:
        results = reference.compute_some(given, required)
    except EnginebayError as err:
        return RecordedReference(
            description=reference.description,
            samples=tuple(collection.samples[:1]),
            basis=Basis(labels=(EXAMPLE,), domain=settings.domain),
            missing=str(err),
        )
    for sample, outputs in zip(collection.samples, results, strict=False):
        assert not isinstance(outputs, str)
        sample.outputs.update(outputs)
    witnessed: dict[str, str] = {}
    for number, (probe, outputs) in enumerate(zip(probes, results[required:], strict=True)):
        if isinstance(outputs, str):
            collection.dropped[probe.label] = outputs
        elif lost := _find_lost(collection.samples[0].outputs, outputs):
            collection.dropped[probe.label] = f"the file returns no number as '{lost}'"
        elif collection.accept_outputs(probe.label, outputs):
            sample = Sample(probe.inputs, outputs, kind="probe")
            collection.add_sample(probe.label, sample, beyond=probe.beyond)
            if engine := reference.witnessed.get(required + number):
                witnessed[probe.label] = engine
    basis = msgspec.structs.replace(
        collection.build_basis(),
        range=measure_range(model, collection.samples),
        decisions=None,
        doubt=_find_randomness(model),
        witnessed=witnessed,
    )
    return _build_reference(model, reference, tuple(collection.samples), basis)


def _find_lost(example: Arrays, outputs: Arrays) -> str:
    """Return an output that is nothing but NaN and infinity, and is not so for the example."""
    lost = (name for name, array in outputs.items() if is_all_non_finite(array))
    return next((name for name in lost if not is_all_non_finite(example[name])), "")


def _build_reference(
    model: BoundModel, reference: OnnxReference, samples: tuple[Sample, ...], basis: Basis
) -> RecordedReference:
    assert model.source.ir is not None
    basis = note_precision(basis, model.source.ir.path)
    basis = msgspec.structs.replace(basis, inexact=reference.inexact)
    described = reference.description
    if reference.inexact:
        return RecordedReference(description=described, samples=samples, basis=basis)
    return RecordedModel(
        description=described,
        samples=samples,
        basis=basis,
        model=model,
        runs=({},) * len(samples),
    )


def _find_randomness(model: BoundModel) -> str:
    """Return a doubt if an ONNX file draws random numbers; else an empty text."""
    assert model.source.ir is not None
    operators = summarise_onnx(model.source.ir.path).operators.get("ai.onnx", {})
    drawn = ", ".join(name for name in operators if name in _RANDOM)
    return f"the file draws random numbers ({drawn})" if drawn else ""


def note_precision(basis: Basis, path: Path) -> Basis:
    """Return a basis with the precision that an ONNX file itself computes in."""
    summary = summarise_onnx(path)
    return msgspec.structs.replace(
        basis, precision=summary.precision, stores_8_bits=summary.stores_8_bits
    )


def _check_domain(domain: Domain, examples: Mapping[str, NumpyArray]) -> None:
    for name, (low, high) in domain.items():
        if name not in examples:
            guess = nearest(name, examples)
            raise InputError(
                f"the domain has bounds for '{name}', which is not an input; inputs: "
                f"{', '.join(examples)}",
                hint=f"did you mean '{guess}'?" if guess else None,
            )
        if not low < high:
            raise InputError(
                f"invalid domain {low:g}:{high:g} of '{name}': expected the lower bound first"
            )
        values = examples[name]
        if values.size and not (low <= values.min() and values.max() <= high):
            raise InputError(
                f"the example of '{name}' has values from {values.min()} to {values.max()}, "
                f"outside of the domain {low}:{high} of this input",
                hint="pass a domain that includes the example, or a different example",
            )
