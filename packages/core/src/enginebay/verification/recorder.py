"""Runs a model on one sample after the other, and keeps what a verdict will rest on."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay.errors import ModelError, first_line
from enginebay.models import unlimited_sizes
from enginebay.tensors import Sample
from enginebay.verdict import EXAMPLE, ITEM, Basis
from enginebay.verification.group import Measure
from enginebay.verification.groups import check_comparators, compare_sample
from enginebay.verification.output_arrays import equal, is_float, says_nothing
from enginebay.verification.probes import NON_FINITE, Probe, Probes, ProbeSettings, is_constant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from enginebay.comparators import Comparator
    from enginebay.data import Item
    from enginebay.models import BoundModel, ModelState, Observation
    from enginebay.tensors import NumpyArray
    from enginebay.verdict import OutputComparison
    from enginebay.verification.probes import Domain

    Arrays = dict[str, NumpyArray]

#: What the runs at larger sizes may take: seconds, and bytes of the largest tensor.
_SECONDS = 0.75
_BYTES = 1 << 27

#: How many places the verdict names, where the model keeps something.
_NAMED = 3

#: Two runs of a model that draws at random may be near by chance, and an engine's further off.
_CHANCE = Measure(rtol=2.0**-16)


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


@dataclass
class KeptSamples:
    """The samples that a verdict will rest on, and what else it will."""

    domain: Domain
    calibrated: str
    samples: list[Sample] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    untried: tuple[str, ...] = ()
    refused: dict[str, int] = field(default_factory=dict)
    targets: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Say what is not tried at all."""
        if self.calibrated:
            reason = f"{self.calibrated} holds for values like those it was calibrated with"
            self.dropped.append(f"the probes: {reason}")

    def accepts(self, label: str, outputs: Arrays) -> bool:
        """True if outputs say anything; else the probe is noted as dropped."""
        if all(map(says_nothing, outputs.values())):
            self.dropped.append(f"{label}: the model gives nothing but NaN and infinity")
            return False
        return True

    def add_item(self, item: Item, outputs: Arrays) -> None:
        """Keep an entry of a data set."""
        label = f"{ITEM}{item.number}"
        self.add(label, Sample(item.inputs, outputs, "item"))
        if (target := _class_of(item.target)) is not None:
            self.targets[label] = target

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
            refused=self.refused,
            domain=self.domain,
            targets=self.targets,
        )


@dataclass
class Recorder(KeptSamples):
    """Runs the model on one sample after the other, and keeps what Python saw."""

    model: BoundModel = field(kw_only=True)
    comparators: Sequence[Comparator] = ()
    doubt: str = ""
    orders: bool = False
    #: What the last run took, as a part of what those at larger sizes may take.
    cost: float = 0.0
    #: What Python read, by the sizes of the inputs.
    observed: dict[str, list[Observation]] = field(default_factory=dict)

    def record_example(self, state: ModelState | None) -> None:
        """The example, which the model ran on when it was bound; twice, to see chance."""
        first, again = self.model.example_outputs(), self._run(self.model.examples)
        check_comparators(self.comparators, [Sample(self.model.examples, first)])
        if kept := self._remembered(state):
            self.doubt = (
                f"what the model keeps from one run to the next in {kept} changes what it gives; "
                "an engine keeps nothing"
            )
        else:
            self._note_chance(first, again, Measure())
        self.add(EXAMPLE, Sample(self.model.examples, first))

    def _remembered(self, state: ModelState | None) -> str:
        """Where the model keeps what changes its outputs; empty where it keeps no such thing."""
        if state is None:
            return ""
        if written := state.changed_parameters():
            return ", ".join(written[:_NAMED])
        if not (changed := state.changed()):
            return ""
        other = Probes(self.model.examples, ProbeSettings(domain=self.domain)).redrawn().inputs
        now = state.again()
        try:
            afterwards = self.model.run(other)
            alone = []
            for _ in range(2):
                state.restore()
                alone.append(self.model.run(other))
        except ModelError:  # it does not take these values
            return ""
        finally:
            now.restore()
        by_chance = any(not output.passed for output in self._compare(*alone))
        same = all(output.passed for output in self._compare(alone[0], afterwards))
        return "" if same or by_chance else ", ".join(changed[:_NAMED])

    def _compare(self, expected: Arrays, found: Arrays) -> tuple[OutputComparison, ...]:
        return compare_sample(expected, found, Measure(), self.comparators).outputs

    def record_item(self, item: Item) -> None:
        """An entry of a data set, which the model must take."""
        # Copied: a data set may fill one array again for each item.
        inputs = {name: array.copy() for name, array in item.inputs.items()}
        self.add_item(item._replace(inputs=inputs), self._run(inputs))

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
                hint=self.advise_on_sizes(),
            ) from err

    def advise_on_sizes(self) -> str:
        """Advise to open what shares its size with an open dimension; else to narrow the range."""
        dynamic, shapes = self.model.dynamic, self.model.example_shapes
        opened = {
            shapes[name][axis]: dim for name, axes in dynamic.items() for axis, dim in axes.items()
        }
        shared = [
            f"--dynamic {name}:{axis}={opened[size].name}"
            for name, shape in shapes.items()
            for axis, size in enumerate(shape)
            if size in opened and size != 1 and dynamic.get(name, {}).get(axis) != opened[size]
        ]
        if shared:
            return f"open what has the same size, under the same name: {', '.join(shared)}"
        return "keep the smallest and the largest sizes to what the model takes"

    def _keep(self, probe: Probe, inputs: Arrays, outputs: Arrays) -> None:
        sample = Sample(inputs, outputs, kind="example" if probe.required else "probe")
        self.add(probe.label, sample, beyond=probe.beyond)

    def _run(self, inputs: Arrays) -> Arrays:
        from enginebay.models import Observer  # imports torch

        # This thread's time: a busy machine would make the sizes those of chance.
        observer, start = Observer(), time.thread_time()
        outputs = self.model.run(inputs, observer)
        spent = (time.thread_time() - start) / _SECONDS
        self.cost = max(spent, observer.observation.largest / _BYTES, 1e-9)
        sizes = ",".join(str(array.shape) for array in inputs.values())
        self.observed.setdefault(sizes, []).append(observer.observation)
        self.orders |= observer.observation.orders
        if observer.observation.random and not self.doubt:
            self._note_chance(outputs, self.model.run(inputs), _CHANCE)
        return outputs

    def _note_chance(self, first: Arrays, again: Arrays, measure: Measure) -> None:
        found = compare_sample(first, again, measure, self.comparators).outputs
        if unequal := [one.describe() for one in found if not one.passed]:
            self.doubt = f"the model is not deterministic, a second run differs: {unequal[0]}"

    def recorded(self, description: str) -> RecordedReference:
        """All of it, for a reference of this name."""
        samples = tuple(self.samples)
        return RecordedReference(description, samples, self.basis(), model=self.model)

    def basis(self) -> Basis:
        """What the verdict will rest on."""
        branches, warnings = _python_values(self.observed.values())
        basis = super().basis()
        return msgspec.structs.replace(
            basis,
            unchanging=tuple(self._unchanging()),
            warnings=warnings,
            branches=branches,
            tried=tried_sizes(self.model, self.samples),
            doubt=self.doubt,
        )

    def _unchanging(self) -> Iterator[str]:
        """The outputs that are the same in all samples, among others that are not."""
        first, *others = (each.outputs for each in self.samples if each.kind != "non_finite")
        if all(equal(first, other) for other in others):
            return  # the verdict says so
        compared = {name for one in self.comparators for name in one.outputs}
        for name, array in first.items():
            if name in compared or (is_float(array) and array.size):
                continue
            if all(np.array_equal(array, other[name]) for other in others):
                yield name


def tried_sizes(model: BoundModel, samples: Iterable[Sample]) -> dict[str, int]:
    """The largest size of each open dimension without a limit, over some samples."""
    shapes = [{name: array.shape for name, array in one.inputs.items()} for one in samples]
    found = [unlimited_sizes(model.dynamic, each) for each in shapes]
    return {name: max(sizes[name] for sizes in found) for name in found[0]}


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


def _class_of(target: Any) -> int | None:
    """The class that a target is; None for anything else, and below 0: it is to be ignored."""
    with suppress(AttributeError, ValueError, RuntimeError):  # no array, or of several numbers
        target = target.item()
    return target if isinstance(target, int) and target >= 0 else None
