"""Batches of cases in child processes; after a crash the next child continues."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType

import msgspec

from enginebay.authors.isolation import call
from enginebay.errors import ChildCrashedError, ChildTimeoutError

from .batch import Step

#: Cases per child. Its start takes 5 s; hundreds of models in an engine take much memory.
BATCH = 500
#: Seconds per child; a case takes a few hundredths.
TIMEOUT = 600.0


def run_all(engine: str, names: list[str], *, backend: str = "") -> dict[tuple[str, str], str]:
    """Return the outcome of each case by name and way; ``backend`` defaults to the engine's."""
    found: dict[tuple[str, str], str] = {}
    left = list(names)
    while left:
        found |= _run_batch(engine, backend or engine, left[:BATCH])
        left = [name for name in left if (name, "bare") not in found]
    return found


def _run_batch(engine: str, backend: str, names: list[str]) -> dict[tuple[str, str], str]:
    """Return the outcomes of the cases up to a crash of the process."""
    with TemporaryDirectory() as folder:
        record = Path(folder) / "record.jsonl"
        ended = ""
        try:
            call(
                *(f"{__package__}.batch:run", engine, backend, names, str(record)),
                timeout=TIMEOUT,
                result_type=NoneType,
            )
        except (ChildCrashedError, ChildTimeoutError) as err:
            ended = str(err)
        lines = record.read_bytes().splitlines()
    steps = [msgspec.json.decode(line, type=Step) for line in lines]
    found = {(step.case, step.way): step.outcome for step in steps}
    return {
        key: f"the process ended: {ended}" if outcome == "begun" else outcome
        for key, outcome in found.items()
    }


def lost_cases(found: dict[tuple[str, str], str]) -> dict[str, str]:
    """Return the cases that pass on the bare engine and fail in the wrapper, with the reasons."""
    return {
        name: outcome
        for (name, way), outcome in found.items()
        if way == "wrapped" and outcome != "pass"
    }
