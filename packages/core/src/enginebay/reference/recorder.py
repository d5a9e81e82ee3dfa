"""Recorder that runs a model on samples one by one, and collects the basis of a verdict."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from enginebay.errors import ModelError, first_line
from enginebay.reference.determinism import (
    HIDDEN_STATE,
    RANDOM_RUNS,
    describe_difference,
    find_hidden_state,
)
from enginebay.reference.probes import NON_FINITE, Probe, format_sizes
from enginebay.reference.recorded_samples import RecordedModel, SampleCollection, measure_range
from enginebay.reference.seen_decisions import find_decisions
from enginebay.tensors import Sample, is_float, resize
from enginebay.verdict import EXAMPLE, ReadLine
from enginebay.verification import ToleranceOptions, check_comparators

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from enginebay.comparators import Comparator
    from enginebay.data import Item
    from enginebay.models import BoundModel
    from enginebay.reference.probes import Level
    from enginebay.state import ModelState, Observation, Reading, TakenSides
    from enginebay.tensors import NumpyArray
    from enginebay.verdict import Basis, HalfPrecision

    Arrays = dict[str, NumpyArray]

#: The budget of a run at a larger size: CPU seconds, and bytes of the largest tensor.
_BUDGET_SECONDS = 0.75
_BUDGET_BYTES = 1 << 27

#: A probe input may take so many seconds of processor time, or times the example's: a loop that
#: waits for a value may never end on zeros.
PROBE_SECONDS = 10.0
_PROBE_FACTOR = 50

#: An output of smaller values is what remains of a signal that faded from layer to layer.
_FAINT = 1e-6


@dataclass
class Recorder(SampleCollection):
    """Runs a model, and records the outputs and the tensor values that Python code reads."""

    model: BoundModel = field(kw_only=True)
    comparators: Sequence[Comparator] = ()
    #: The model's state before a run; a run that fails may leave it half changed.
    state: ModelState | None = None
    effort: int = 1
    #: Seconds of processor time that a run on the caller's inputs or sizes may take.
    timeout: float = math.inf
    #: The same for a probe input; known after the example's run.
    probe_timeout: float = math.inf
    doubt: str = ""
    #: True if a run has sorted values, so that equal values have no defined order.
    orders: bool = False
    #: The cost of the last run, as a fraction of the budget of a run at a larger size.
    cost: float = 0.0
    #: The levels of each probe input that the model has accepted.
    rows: list[Mapping[str, Level]] = field(default_factory=list)
    #: Which sides of its decisions the model took, on each sample, and in the last run.
    runs: list[Mapping[str, TakenSides]] = field(default_factory=list)
    last_run: Mapping[str, TakenSides] = field(default_factory=dict)
    #: The values that Python read in each run, by the shapes of the inputs.
    observed: dict[str, list[Observation]] = field(default_factory=dict)

    def record_example(self, state: ModelState | None) -> None:
        """Record the example's outputs; run the model again to find hidden state or randomness."""
        first, second = self.model.example_outputs(), self._run(self.model.examples)
        check_comparators(self.comparators, [Sample(self.model.examples, first)])
        self.note_state(state)
        if not self.doubt:
            self._note_difference(first, second, ToleranceOptions())
        self.add_sample(EXAMPLE, Sample(self.model.examples, first))

    def note_state(self, state: ModelState | None) -> None:
        """Note the state that runs have changed since ``state``, if outputs depend on it."""
        if names := find_hidden_state(self.model, state, self.domain, self.comparators):
            stored = f"the model stores values in {names}"
            self.doubt = f"{HIDDEN_STATE}: {stored}; an engine stores none"

    def record_item(self, item: Item) -> None:
        """Record the model's outputs for an item of a data set; raise any error of the model."""
        # Copied: a data set may fill the same array again for each item.
        inputs = {name: array.copy() for name, array in item.inputs.items()}
        self.add_item(item._replace(inputs=inputs), self._run(inputs))

    def record_probe(self, probe: Probe) -> None:
        """Record the outputs for a probe input (generated), or the reason why it is dropped."""
        if probe.tied and self.orders:
            self.dropped[probe.label] = "the model sorts values, and these are all equal"
            return
        try:
            outputs = self._run(
                probe.inputs, self.timeout if probe.required else self.probe_timeout
            )
        except ModelError as err:
            if probe.required:
                self._record_tiled(probe, err)
            else:
                self.dropped[probe.label] = first_line(err)
            return
        if self.accept_outputs(probe.label, outputs):
            self._add_probe(probe, probe.inputs, outputs)
        elif probe.required:
            self._record_tiled(probe, None)

    @property
    def positions(self) -> set[str]:
        """Names of inputs that some run has not only computed with in 64-bit integers."""
        runs = (run for runs in self.observed.values() for run in runs)
        return {name for run in runs for name in run.positions}

    def record_non_finite(self, inputs: Arrays, state: ModelState | None = None) -> None:
        """Record the outputs for extreme inputs, of which nothing stays in the model's state.

        Nothing is recorded if the model raises an error, or if Python code has read tensor values.
        """
        # A model whose Python code reads values might loop on NaN for ever.
        observations = [each for runs in self.observed.values() for each in runs]
        if any(r.kind != "size" for each in observations for r in each.readings):
            return
        from enginebay.state import ModelState

        finite = ModelState(self.model.source.module)
        with suppress(ModelError):
            outputs, self.last_run = self.model.run(inputs), {}
            self.add_sample(NON_FINITE, Sample(inputs, outputs, "non_finite"))
        self.note_state(state)
        finite.restore()

    def _record_tiled(self, probe: Probe, error: ModelError | None) -> None:
        """Record the outputs for the example's values, repeated to the sizes of ``probe``.

        ``error`` is the error that the model raised on random values of these sizes, if any. If the
        model raises an error again, raise ModelError.
        """
        assert probe.tiled is not None
        try:
            self._add_probe(probe, probe.tiled, self._run(probe.tiled))
        except ModelError as err:
            if probe.tiled is probe.inputs:
                raise
            raise ModelError(
                f"the model fails at {probe.label}, within the requested ranges: {error or err}",
                hint=self.advise_on_sizes(probe.tiled),
            ) from err

    def advise_on_sizes(self, failed: Arrays | None = None) -> str:
        """Return a hint for the case that the model fails on inputs of other sizes than usual.

        Axes of the same size may have to change together. The hint is to make these axes dynamic
        under one name or, if there are none, to limit the sizes, with the nearest that work.
        """
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
            return f"make dimensions of the same size dynamic under one name: {', '.join(shared)}"
        nearest = f", such as {format_sizes(self._find_accepted(failed))}" if failed else ""
        return f"limit the smallest and the largest sizes to those that the model accepts{nearest}"

    def _find_accepted(self, failed: Arrays) -> dict[str, tuple[int, ...]]:
        """Return the shapes between the example's and those of ``failed`` at which the model runs.

        The last ones before it fails, by bisection.
        """
        usual = self.model.example_shapes
        ends = {name: [*zip(usual[name], failed[name].shape, strict=True)] for name in usual}
        steps = max(abs(end - start) for sizes in ends.values() for start, end in sizes)

        def find_shapes(step: int) -> dict[str, tuple[int, ...]]:
            return {
                name: tuple(start + (end - start) * step // steps for start, end in sizes)
                for name, sizes in ends.items()
            }

        def fails(step: int) -> bool:
            shapes = find_shapes(step)
            try:
                self._run({n: resize(x, shapes[n]) for n, x in self.model.examples.items()})
            except ModelError:
                return True
            return False

        return find_shapes(bisect_left(range(1, steps), True, key=fails)) if steps else usual

    def add_sample(self, label: str, sample: Sample, *, beyond: bool = False) -> None:
        """Add a sample on which the last run was."""
        super().add_sample(label, sample, beyond=beyond)
        self.runs.append(self.last_run)

    def _add_probe(self, probe: Probe, inputs: Arrays, outputs: Arrays) -> None:
        self.rows.append(probe.row)
        sample = Sample(inputs, outputs, kind="example" if probe.required else "probe")
        self.add_sample(probe.label, sample, beyond=probe.beyond)

    def _run(self, inputs: Arrays, limit: float | None = None) -> Arrays:
        from enginebay.state import Observer

        # CPU time of this thread: wall time on a busy machine would make the sizes random.
        observer = Observer(limit=self.timeout if limit is None else limit)
        start = time.thread_time()
        try:
            outputs = self.model.run(inputs, observer)
        except ModelError:
            if self.state is not None:
                self.state.restore()
            raise
        seconds = time.thread_time() - start
        if self.probe_timeout == math.inf:
            self.probe_timeout = max(PROBE_SECONDS, _PROBE_FACTOR * seconds)
        observation = observer.observation
        # The lower limit avoids a division by zero after a run of no measurable time.
        self.cost = max(
            seconds / (self.effort * _BUDGET_SECONDS), observation.largest / _BUDGET_BYTES, 1e-9
        )
        sizes = ",".join(str(array.shape) for array in inputs.values())
        self.observed.setdefault(sizes, []).append(observation)
        self.orders |= observation.orders
        self.last_run = observation.decisions
        if observation.random and not self.doubt:
            self._note_difference(outputs, self.model.run(inputs), RANDOM_RUNS)
        return outputs

    def _note_difference(self, first: Arrays, second: Arrays, options: ToleranceOptions) -> None:
        if difference := describe_difference(first, second, options, self.comparators):
            self.doubt = f"the model is not deterministic, a second run differs: {difference}"

    def build_reference(self, description: str) -> RecordedModel:
        """Return the recorded samples with their basis; ``description`` names the reference."""
        return RecordedModel(
            description=description,
            samples=tuple(self.samples),
            basis=self.build_basis(),
            model=self.model,
            runs=tuple(self.runs),
        )

    def build_basis(self) -> Basis:
        """Return the :class:`Basis` of a verdict on the recorded samples.

        In addition to the attributes that the base class collects, it contains the decisions that
        the model took, the lines of Python that read tensor values, and the range of the inputs.
        """
        return msgspec.structs.replace(
            super().build_basis(),
            decisions=find_decisions(self.samples, self.runs, self.comparators),
            readings=tuple(_compare_readings(self.observed.values())),
            range=measure_range(self.model, self.samples),
            doubt=self.doubt,
            half_precision=self._find_half_precision(),
            precision="int8" if self.model.is_quantised else "fp32",
            packed=max((run.packed for runs in self.observed.values() for run in runs), default=""),
            faint=dict(self._find_faint()),
        )

    def _find_half_precision(self) -> HalfPrecision | None:
        """Return an operator in half precision; None if there is none, or the outputs show it."""
        floats = [array for array in self.samples[0].outputs.values() if is_float(array)]
        if any(array.dtype.itemsize < 4 for array in floats):
            return None
        return next(run.half_precision for runs in self.observed.values() for run in runs)

    def _find_faint(self) -> Iterator[tuple[str, float]]:
        """Yield the name and the largest magnitude of each float output that is near zero."""
        samples = [sample.outputs for sample in self.samples if sample.kind != "non_finite"]
        for name, array in samples[0].items():
            if is_float(array):
                finite = (outputs[name][np.isfinite(outputs[name])] for outputs in samples)
                size = max(float(np.abs(values).max(initial=0)) for values in finite)
                if 0 < size < _FAINT:
                    yield name, size


def _compare_readings(groups: Iterable[Sequence[Observation]]) -> Iterator[ReadLine]:
    """Yield the lines of Python code that read tensor values, and what all runs read there.

    If a line reads truth values, only these count. Values that differ between two runs are those
    of a group.

    Args:
        groups: The observations of all runs, grouped by the shapes of the inputs.
    """
    # Line → for each group, the values that its runs read there.
    read: dict[str, list[set[tuple[Reading, ...]]]] = {}
    for group in groups:
        for line in {reading.place for observation in group for reading in observation.readings}:
            values = {_choose_decisive(observation, line) for observation in group}
            read.setdefault(line, []).append(values)
    for line, by_size in sorted(read.items()):
        runs = [run for values in by_size for run in values]
        first = next(iter(by_size[0]))
        kinds = {reading.kind for run in runs for reading in run}
        text = ", ".join(reading.value for reading in first) or "nothing"
        differs = any(len(values) > 1 for values in by_size)
        yield ReadLine(
            line=line,
            # A line without a truth value in one run reads other values there.
            kind=kinds.pop() if len(kinds) == 1 else "number",
            value="" if differs else text,
        )


def _choose_decisive(observation: Observation, line: str) -> tuple[Reading, ...]:
    readings = tuple(each for each in observation.readings if each.place == line)
    return tuple(each for each in readings if each.kind == "truth") or readings
