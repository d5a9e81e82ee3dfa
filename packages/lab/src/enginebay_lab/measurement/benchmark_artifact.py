"""``benchmark``: how fast artifacts are here, side by side, and how sure that is."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from enginebay import Artifact
from enginebay.authors import Steps, input_sets, inputs_for, load_request, to_numpy, use_artifact
from enginebay.errors import EnginebayError, InputError, UsageError
from enginebay_lab.journal import Journal
from enginebay_lab.measurement.benchmark import Benchmark
from enginebay_lab.measurement.benchmark_rows import LINE_KIND
from enginebay_lab.measurement.contestant import Entrant, artifact_entry, torch_entry
from enginebay_lab.measurement.heat import Heat
from enginebay_lab.measurement.machine import this_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.authors import Array, NumpyArray, Step
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
    from enginebay_lab.measurement.machine import Machine

    Arrays = Mapping[str, NumpyArray]

_CARE = "figures that agree take longer, or a machine with nothing else running"
_OTHER_INPUTS = "it takes other inputs than the first artifact, and was measured on its own"


def benchmark(
    artifacts: str | Path | Artifact | Sequence[str | Path | Artifact],
    inputs: Mapping[str, Array] | None = None,
    *,
    against: Literal["pytorch"] | None = None,
    model: str | Path | None = None,
    seconds: float = 10.0,
    batch: Sequence[int] = (),
    threads: Sequence[int] = (1,),
    layers: bool = False,
    device: str | None = None,
    strict: bool = False,
    timeout: float = 1800.0,
    output: str | Path | None = None,
    watch: Callable[[Step], None] | None = None,
) -> Benchmark:
    """Measure artifacts on this machine, side by side.

    Each runs in a child process of its own. They take turns in windows of a tenth of a second, in
    another order each round, and sleep meanwhile, so that whatever slows the machine slows all of
    them. One that cannot be loaded, crashes or runs out of time loses its own row only.

    Args:
        artifacts: One folder, or what :func:`enginebay.deploy` returned, or several of them.
        inputs: One array or tensor by name, for all; by default the first inputs that the first
            artifact was verified with, else made-up ones. An artifact that takes others is
            measured on its own.
        against: ``pytorch`` to measure the model too, and compare the artifacts with it; by
            default they are compared with the first of them.
        model: The PyTorch model, as text that names it on the command line: a child process
            loads it.
        seconds: How long each row may take. It ends earlier once the windows agree: the 95 %
            confidence interval of their median is no longer than 2 % of it.
        batch: Sizes of the batch, each in rows of its own; by default that of the inputs.
        threads: Numbers of threads that call at once, each in rows of its own. An engine's own
            threads are among its parameters.
        layers: Time the layers of each engine too, where its backend can.
        device: Where to run instead of the device that the artifacts were made for.
        strict: Refuse engines that fall back from what was requested.
        timeout: Seconds that loading, and each window, may take before a row is given up.
        output: A file that windows and rows are written to as they come, as JSON, a line each.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: An argument is wrong, or ``output`` exists.
        ModelSourceError: ``model`` names no PyTorch model.
        InputError: The inputs do not fit the model.
        ArtifactError: An artifact is damaged, or bound to another engine or device.
        EnginebayError: Nothing could be measured: what the first row failed with.
    """
    _check_numbers({"seconds": seconds, "timeout": timeout}, {"batch": batch, "threads": threads})
    _check_model(against, model)
    entries = _entries(artifacts, inputs, device=device, strict=strict)
    if model is not None:
        entries = [_torch(str(model), entries), *entries]
    journal = Journal(None if output is None else Path(output), LINE_KIND)
    journal.open(resume=False, hint="name another file")
    machine = this_machine()
    journal.append({"machine": machine})
    steps = Steps(watch)
    rows: list[BenchmarkRow] = []
    errors: list[EnginebayError] = []
    for size in batch or (None,):
        for count in threads or (1,):
            heat = Heat(entries, size, count, timeout=timeout, journal=journal)
            with steps("measure") as set_detail:
                rows += heat.run(seconds, _described(set_detail, size, count), layers=layers)
            errors += heat.errors
    if all(row.failure for row in rows):
        raise errors[0]
    return Benchmark(
        rows=tuple(rows),
        machine=machine,
        baseline=entries[0].name if len(entries) > 1 else "",
        notes=tuple(_notes(machine, rows)),
    )


def _check_numbers(durations: Mapping[str, float], counts: Mapping[str, Sequence[int]]) -> None:
    for name, seconds in durations.items():
        if not 0 < seconds < math.inf:
            raise UsageError(f"{name} is {seconds:g}, wanted a positive number")
    for name, numbers in counts.items():
        for number in numbers:
            if not isinstance(number, int) or number < 1:
                raise UsageError(f"{name} is {number!r}, wanted whole numbers from 1 on")
        if len(set(numbers)) < len(numbers):
            raise UsageError(f"{name} has the same number twice", hint="leave one of them out")


def _check_model(against: str | None, model: Any) -> None:
    if against not in (None, "pytorch"):
        raise UsageError(f"against is {against!r}, wanted 'pytorch'")
    if against is None and model is not None:
        raise UsageError(
            "a model is named, and nothing is to be compared with it", hint="add --against pytorch"
        )
    if against is not None and model is None:
        raise UsageError("there is no PyTorch model to compare with", hint="name it: --model MODEL")
    if not isinstance(model, str | Path | None):
        raise UsageError(
            f"the model is a {type(model).__name__}, wanted text that names one: it is loaded in "
            "a process of its own",
            hint="write model='file.py:attr' or 'package.module:attr'",
        )


def _described(
    set_detail: Callable[[str], None], batch: int | None, threads: int
) -> Callable[[str], None]:
    """Put the batch and the number of threads before what is going on."""
    before = "" if batch is None else f"batch {batch}, "
    before += "" if threads == 1 else f"{threads} threads, "
    return lambda text: set_detail(before + text)


def _entries(
    artifacts: str | Path | Artifact | Sequence[str | Path | Artifact],
    inputs: Mapping[str, Array] | None,
    *,
    device: str | None,
    strict: bool,
) -> list[Entrant]:
    """Check every artifact, and give all of them the same inputs where they take the same."""
    listed = [artifacts] if isinstance(artifacts, str | PathLike | Artifact) else list(artifacts)
    if not listed:
        raise UsageError("there is no artifact to measure", hint="name its folder")
    given = None if inputs is None else {name: to_numpy(each) for name, each in inputs.items()}
    entries: dict[str, Entrant] = {}
    for each in listed:
        name = str(each.path if isinstance(each, Artifact) else each)
        if name in entries:
            raise UsageError(f"'{name}' is named twice", hint="leave one of them out")
        first = next(iter(entries.values()), None)

        def entry(opened: Artifact, name: str = name, first: Entrant | None = first) -> Entrant:
            request = load_request(opened, device=device, strict=strict)
            if given is not None:
                return artifact_entry(name, request, given)
            if first is None:
                return artifact_entry(name, request, _own_inputs(opened))
            if _fits(opened, first.inputs):
                return artifact_entry(name, request, first.inputs)
            return artifact_entry(name, request, _own_inputs(opened), _OTHER_INPUTS)

        entries[name] = use_artifact(each, entry)
    return list(entries.values())


def _own_inputs(artifact: Artifact) -> Arrays:
    """The first inputs that it was verified with, else made-up ones."""
    for sample in artifact.samples():
        return sample.inputs
    return {name: to_numpy(each) for name, each in inputs_for(artifact.inputs, {}).items()}


def _fits(artifact: Artifact, inputs: Arrays) -> bool:
    try:
        input_sets(artifact, inputs)
    except InputError:
        return False
    return True


def _torch(model: str, entries: Sequence[Entrant]) -> Entrant:
    """Enter PyTorch beside the first artifact whose batch is open, else beside the first."""
    beside = next(
        (e for e in entries if any(s.dims and isinstance(s.dims[0], str) for s in e.specs)),
        entries[0],
    )
    return torch_entry(model, beside)


def _notes(machine: Machine, rows: Sequence[BenchmarkRow]) -> Iterator[str]:
    if machine.is_busy:
        load = f"a load of {machine.load:.1f} on {machine.cores} cores"
        yield f"the machine was busy before this began: {load}"
    devices = {row.name: row.receipt.device.lower() for row in rows if row.receipt}
    if len(set(devices.values())) > 1:
        places = ", ".join(f"'{name}' on {device}" for name, device in devices.items())
        yield f"they run on different devices: {places}"
    if machine.is_busy or any(row.agreement and not row.agreement.agreed for row in rows):
        yield _CARE
