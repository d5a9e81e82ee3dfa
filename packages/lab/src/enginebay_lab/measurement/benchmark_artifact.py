"""``benchmark``: measure the speed of artifacts side by side, with confidence intervals."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from enginebay import Artifact, get_backend
from enginebay.authors import Steps
from enginebay.authors.arrays import inputs_for, to_numpy
from enginebay.authors.artifacts import input_sets, load_request, use_artifact
from enginebay.errors import EnginebayError, Hint, InputError, ParamsError, UsageError, argument
from enginebay_lab.journal import Journal
from enginebay_lab.measurement.benchmark import Benchmark
from enginebay_lab.measurement.benchmark_rows import LINE_KIND
from enginebay_lab.measurement.benchmark_subject import (
    SubjectSpec,
    describe_artifact,
    describe_torch_model,
)
from enginebay_lab.measurement.interleaved_run import InterleavedRun
from enginebay_lab.measurement.machine import this_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.authors import Step
    from enginebay.authors.arrays import Array, NumpyArray
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
    from enginebay_lab.measurement.machine import Machine

    Arrays = Mapping[str, NumpyArray]

_STEADY_HINT = "to get measurements that agree, measure longer, or on an idle machine"
_OTHER_INPUTS_NOTE = (
    "measured with other inputs: this artifact does not accept the first artifact's inputs"
)


def benchmark(
    artifacts: str | Path | Artifact | Sequence[str | Path | Artifact],
    inputs: Mapping[str, Array] | None = None,
    *,
    against: Literal["pytorch"] | None = None,
    model: str | Path | None = None,
    duration: float = 10.0,
    batches: int | Sequence[int] = (),
    threads: int | Sequence[int] = (1,),
    layers: bool = False,
    device: str | None = None,
    params: Mapping[str, object] | None = None,
    strict: bool = False,
    timeout: float = 1800.0,
    output: str | Path | None = None,
    watch: Callable[[Step], None] | None = None,
) -> Benchmark:
    """Measure the latency of artifacts on this machine, side by side.

    Each artifact runs in a separate child process. The artifacts run in turn, each for a window
    (group of timed calls) of a tenth of a second while the others sleep, and in a different order
    in each round, so that a disturbance of the machine slows all of them. If an artifact cannot be
    loaded, crashes or exceeds the time limit, only the rows of this artifact fail.

    Args:
        artifacts: One artifact or several: a folder, or the artifact that :func:`enginebay.deploy`
            returned.
        inputs: Arrays or tensors by name, for all artifacts; by default the first inputs that the
            first artifact was verified with, or generated inputs if there are none. An artifact
            that does not accept these default inputs gets its own default inputs.
        against: ``pytorch`` to measure the PyTorch model too, and compare the artifacts with it;
            by default, the artifacts are compared with the first one.
        model: The PyTorch model as a string, as on the command line: a child process loads it.
        duration: The longest time in seconds that each row is measured; it ends earlier once the
            windows agree: the 95 % confidence interval of the median of their latencies is at most
            2 % of this median.
        batches: Batch sizes, each measured in separate rows; by default that of the inputs.
        threads: Numbers of threads that call an engine at the same time, each measured in separate
            rows. The engine's own threads are set by its backend's parameters.
        layers: Time the layers of each engine too, if its backend supports this.
        device: The device on which the engines run; by default the device that each artifact
            records.
        params: Other values of run-time parameters, such as the engines' threads, each for the
            artifacts whose backend declares it.
        strict: Raise if an engine falls back from the requested device or precision.
        timeout: Time limit in seconds for loading and for each window.
        output: A new file to which the windows and rows are written during the measurement, with
            one JSON document on each line.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: An argument is wrong, or ``output`` exists.
        ModelSourceError: ``model`` is not the name of a PyTorch model.
        InputError: The inputs do not fit the model.
        ParamsError: A parameter is unknown, has an invalid value, or is built into an artifact.
        ArtifactError: An artifact is damaged, or bound to another engine or device.
        EnginebayError: All rows failed; this is the error of the first row.
    """
    sizes = (batches,) if isinstance(batches, int) else batches
    counts = (threads,) if isinstance(threads, int) else threads
    check_numbers({"duration": duration, "timeout": timeout}, {"batches": sizes, "threads": counts})
    _check_model(against, model)
    specs = _describe_artifacts(
        artifacts, inputs, device=device, params=params or {}, strict=strict
    )
    if model is not None:
        specs = [_describe_pytorch(str(model), specs), *specs]  # the first is the baseline
    journal = Journal(None if output is None else Path(output), LINE_KIND)
    journal.open(resume=False, hint="name another file")  # fails before any engine is loaded
    machine = this_machine()
    journal.append({"machine": machine})  # at once, for a benchmark that is killed
    steps = Steps(watch)
    rows: list[BenchmarkRow] = []
    errors: list[EnginebayError] = []
    for size in sizes or (None,):  # None: the batch size of the inputs
        for count in counts or (1,):
            run = InterleavedRun(specs, size, count, timeout=timeout, journal=journal)
            with steps("measure") as set_detail:
                on_progress = _prefix_progress(set_detail, size, count)
                rows += run.measure_rows(duration, on_progress, layers=layers)
            errors += run.errors
    if all(row.failure for row in rows):
        raise errors[0]
    return Benchmark(
        rows=tuple(rows),
        machine=machine,
        baseline=specs[0].name if len(specs) > 1 else "",
        notes=tuple(collect_notes(machine, rows)),
    )


def check_numbers(durations: Mapping[str, float], counts: Mapping[str, Sequence[int]]) -> None:
    """Check that numbers by the names of their arguments are positive, and that counts differ.

    Raises:
        UsageError: A number is wrong.
    """
    for name, seconds in durations.items():
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise UsageError(f"'{name}' is {seconds!r}, expected a positive number")
        if not 0 < seconds < math.inf:
            raise UsageError(f"'{name}' is {seconds:g}, expected a positive number")
    for name, numbers in counts.items():
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise UsageError(f"'{name}' is {number!r}, expected an integer of 1 or more")
        if len(set(numbers)) < len(numbers):
            raise UsageError(f"'{name}' contains a number twice", hint="remove one of them")


def _check_model(against: str | None, model: object) -> None:
    if against not in (None, "pytorch"):
        raise UsageError(f"invalid argument against={against!r}: expected 'pytorch'")
    if against is None and model is not None:
        raise UsageError(
            "a model was passed, but no comparison with PyTorch was requested",
            hint=Hint("add {}", argument("against", "pytorch")),
        )
    if against is not None and model is None:
        raise UsageError("no PyTorch model to compare with", hint="name the model: --model MODEL")
    if not isinstance(model, str | Path | None):
        raise UsageError(
            f"'model' is a {type(model).__name__}, expected the name of a model that a child "
            "process can load",
            hint="write model='file.py:attr' or 'package.module:attr'",
        )


def _prefix_progress(
    set_detail: Callable[[str], None], batch: int | None, threads: int
) -> Callable[[str], None]:
    """Return a callback that calls ``set_detail`` with the batch size, the threads and a text."""
    prefix = "" if batch is None else f"batch {batch}, "
    prefix += "" if threads == 1 else f"{threads} threads, "
    return lambda text: set_detail(prefix + text)


def _describe_artifacts(
    artifacts: str | Path | Artifact | Sequence[str | Path | Artifact],
    inputs: Mapping[str, Array] | None,
    *,
    device: str | None,
    params: Mapping[str, object],
    strict: bool,
) -> list[SubjectSpec]:
    """Return a :class:`SubjectSpec` (the calls to measure) for each artifact.

    If ``inputs`` is None, each artifact that accepts the first artifact's inputs gets these inputs.
    """
    listed = [artifacts] if isinstance(artifacts, str | PathLike | Artifact) else list(artifacts)
    if not listed:
        raise UsageError("no artifact to measure", hint="name the folder of an artifact")
    arrays = None if inputs is None else {name: to_numpy(value) for name, value in inputs.items()}
    specs: dict[str, SubjectSpec] = {}
    for artifact in listed:
        name = str(artifact.path if isinstance(artifact, Artifact) else artifact)
        if name in specs:
            raise UsageError(f"artifact '{name}' was passed twice", hint="remove one of them")
        first = next(iter(specs.values()), None)

        # Defaults bind the loop's variables now; a closure would read their later values.
        def describe(
            opened: Artifact, name: str = name, first: SubjectSpec | None = first
        ) -> SubjectSpec:
            own = _pick_params(params, opened) if len(listed) > 1 else params
            request = load_request(opened, device=device, params=own, strict=strict)
            opened.warn()
            note = ""
            feed: Arrays | None = arrays
            if feed is None and first is not None and _accepts_inputs(opened, first.inputs):
                feed = first.inputs
            if feed is None:
                feed = default_inputs(opened)
                note = _OTHER_INPUTS_NOTE if first is not None else ""
            return describe_artifact(name, request, feed, note, own)

        specs[name] = use_artifact(artifact, describe)
    if unused := sorted(params.keys() - {name for spec in specs.values() for name in spec.params}):
        raise ParamsError(f"no artifact's backend has the parameter {', '.join(unused)}")
    return list(specs.values())


def _pick_params(params: Mapping[str, object], artifact: Artifact) -> dict[str, object]:
    """Return the parameters that the artifact's backend declares."""
    if not params:
        return {}
    fields = get_backend(artifact.backend).Params.__struct_fields__
    return {name: value for name, value in params.items() if name in fields}


def default_inputs(artifact: Artifact) -> Arrays:
    """Return the first inputs that an artifact was verified with; if none, generate inputs."""
    for sample in artifact.samples():
        return sample.inputs
    return {name: to_numpy(value) for name, value in inputs_for(artifact.inputs, {}).items()}


def _accepts_inputs(artifact: Artifact, inputs: Arrays) -> bool:
    try:
        input_sets(artifact, inputs)
    except InputError:
        return False
    return True


def _describe_pytorch(model: str, artifacts: Sequence[SubjectSpec]) -> SubjectSpec:
    # With the specs of an artifact with a dynamic batch size, PyTorch gets every requested batch.
    counterpart = next(
        (a for a in artifacts if any(s.dims and isinstance(s.dims[0], str) for s in a.input_specs)),
        artifacts[0],
    )
    return describe_torch_model(model, counterpart)


def collect_notes(machine: Machine, rows: Sequence[BenchmarkRow]) -> Iterator[str]:
    """Yield the reasons why the measurements may be unreliable."""
    if machine.is_busy:
        load = f"a load of {machine.load:.1f} on {machine.cores} cores"
        yield f"the machine was busy before the benchmark: {load}"
    devices = {row.name: row.receipt.device.lower() for row in rows if row.receipt}
    if len(set(devices.values())) > 1:
        listed = ", ".join(f"'{name}' on {device}" for name, device in devices.items())
        yield f"the artifacts run on different devices: {listed}"
    if machine.is_busy or any(row.agreement and not row.agreement.agreed for row in rows):
        yield _STEADY_HINT
