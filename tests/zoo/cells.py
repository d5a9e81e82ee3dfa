"""Measures cells: each deployment as a user would do it, all of a model in one child process.

The child writes each cell as soon as it is measured. If the child dies, its current cell has
crashed, and another child measures the rest.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import torch

import enginebay as eb
from enginebay.authors.isolation import call
from enginebay.errors import ChildCrashedError, ChildTimeoutError, ModelError

from .results import Cell, Collection, Column, collection

if TYPE_CHECKING:
    from enginebay import Verification

#: Parameters of a backend that differ from its defaults.
PARAMS: dict[str, dict[str, Any]] = {"tensorrt-rtx": {"compute_capability": ("sm89",)}}


#: This process, and the ended processes in which engines were tried.
_PROCESSES = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def measure_model(
    model: str,
    columns: list[Column],
    function: str = f"{__name__}:measure_here",
    package: str = "tests.zoo",
) -> list[Cell]:
    """Return the cells of a model, even if the process that measures them crashes.

    Args:
        model: Its name in the collection.
        columns: The backends and exporters.
        function: The function that the child process calls.
        package: The package of the collection.
    """
    limit = collection(package).limit
    cells: list[Cell] = []
    with TemporaryDirectory(prefix="enginebay-zoo-") as folder:
        journal = Path(folder) / "cells.jsonl"
        journal.touch()
        while left := columns[len(cells) :]:
            died = ""
            try:
                call(
                    function,
                    *(model, left, journal, package),
                    timeout=limit * (len(left) + 1),
                    result_type=type(None),
                )
            except (ChildCrashedError, ChildTimeoutError) as err:
                died = f"it ran past {limit} s" if "SIGALRM" in str(err) else _line(str(err))
            cells = msgspec.json.Decoder(Cell).decode_lines(journal.read_bytes())
            if died and len(cells) < len(columns):
                at = columns[len(cells)]
                cells.append(Cell(model=model, column=at, state="crashed", reason=died))
                _write(journal, cells[-1])
    return cells


def measure_here(model: str, columns: list[Column], journal: Path, package: str) -> None:
    """Measure cells one after the other, and write each as soon as it is measured."""
    models = collection(package)
    for column in columns:
        signal.alarm(models.limit)  # the default action ends a process inside an engine, too
        cell = measure(models, model, column)
        signal.alarm(0)
        _write(journal, cell)


def measure(models: Collection, model: str, column: Column) -> Cell:
    """Deploy a model and return the result."""
    start = time.perf_counter()
    found = _deployed(models, model, column)
    seconds = round(time.perf_counter() - start, 1)
    peaks = [resource.getrusage(who).ru_maxrss for who in _PROCESSES]
    memory = round(max(peaks) / 2**20, 2)  # of KiB
    return Cell(model=model, column=column, seconds=seconds, memory=memory, **found)


def _deployed(models: Collection, name: str, column: Column) -> dict[str, Any]:
    with TemporaryDirectory(prefix="enginebay-zoo-") as folder:
        try:
            model, inputs = models.build(name)
            deployment = eb.deploy(
                model,
                inputs,
                backend=column.backend,
                work_dir=Path(folder) / "artifact",
                params=PARAMS.get(column.backend),
                export=eb.ExportOptions(exporter=column.exporter),
                verify=eb.VerifyOptions(allow_mismatch=True, timeout=models.limit / 2),
            )
        except eb.EnginebayError as err:
            state = "broken" if isinstance(err, ModelError) else "unsupported"
            return {"state": state, "reason": _line(str(err).replace(folder, "…"))}
        except Exception as err:  # the zoo continues, and the page shows the error
            return {"state": "broken", "reason": _line(f"{type(err).__name__}: {err}")}
    took = {"reference": round(deployment.steps[0].seconds or 0.0, 1)}
    verification = deployment.verification
    if _became_constant(inputs, len(deployment.artifact.manifest.inputs)):
        reason = "tensors in an object of the example are constants of the artifact"
        return {"state": "unverified", "reason": reason, **took}
    figures = verification.simulation or verification
    errors = [o.max_abs_error for o in figures.outputs if o.max_abs_error is not None]
    state = "built" if _is_built(verification) else deployment.verdict
    return {
        "state": state,
        "worst": max(errors, default=None),
        "via": [step.detail for step in deployment.steps if step.name == "export"][-1],
        "reason": "" if state in ("verified", "built") else _line(verification.summary()),
        **took,
    }


def _is_built(verification: Verification) -> bool:
    """True if only the engine's GPU is missing: the graph agrees with the model."""
    basis, simulation = verification.basis, verification.simulation
    return (
        verification.verdict == "unverified"
        and simulation is not None
        and not simulation.failed
        and not (basis and basis.doubt)
    )


def _became_constant(inputs: Any, artifact_inputs: int) -> bool:
    """True if an object, such as a cache, has no inputs in the artifact."""
    plain, objects, left = 0, 0, [inputs]
    while left:
        value = left.pop()
        if type(value) in (tuple, list, dict):
            left.extend(value.values() if isinstance(value, dict) else value)
        else:
            plain += isinstance(value, torch.Tensor)
            objects += not isinstance(value, (torch.Tensor, str, int, float, type(None)))
    return objects > 0 and artifact_inputs <= plain


def _write(journal: Path, cell: Cell) -> None:
    with journal.open("ab") as file:
        file.write(msgspec.json.encode(cell) + b"\n")


def _line(text: str) -> str:
    """Shorten a reason to a single line without the paths of this environment."""
    text = " ".join(text.replace(sys.prefix, "…").split())
    return text if len(text) <= 400 else f"{text[:399]}…"
