"""Measures cells: each deployment as a user would do it, all of a model in one child process.

The child writes down each cell when it is done. If it dies, the cell that it was at has crashed,
and another child does the rest.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

import enginebay as eb
from enginebay.errors import ChildCrashedError, ChildTimeoutError, ModelError
from enginebay.isolation import call

from .models import build
from .results import Cell, Column

if TYPE_CHECKING:
    from enginebay import Verification

#: Seconds that one cell may take; they take 2 to 20.
LIMIT = 180
#: The parameters of a backend, besides its own.
PARAMS: dict[str, dict[str, Any]] = {"tensorrt-rtx": {"compute_capability": ("sm89",)}}


def measure_model(
    model: str, columns: list[Column], function: str = f"{__name__}:measure_here"
) -> list[Cell]:
    """The cells of a model, whatever happens to the process that measures them.

    Args:
        model: Its name in the zoo.
        columns: The ways to go.
        function: What the child process calls.
    """
    cells: list[Cell] = []
    with TemporaryDirectory(prefix="enginebay-zoo-") as folder:
        journal = Path(folder) / "cells.jsonl"
        journal.touch()
        while left := columns[len(cells) :]:
            died = ""
            try:
                call(
                    function,
                    *(model, left, journal),
                    timeout=LIMIT * (len(left) + 1),
                    result_type=type(None),
                )
            except (ChildCrashedError, ChildTimeoutError) as err:
                died = f"it ran past {LIMIT} s" if "SIGALRM" in str(err) else _line(str(err))
            cells = msgspec.json.Decoder(Cell).decode_lines(journal.read_bytes())
            if died and len(cells) < len(columns):
                at = columns[len(cells)]
                cells.append(Cell(model=model, column=at, state="crashed", reason=died))
                _write(journal, cells[-1])
    return cells


def measure_here(model: str, columns: list[Column], journal: Path) -> None:
    """Measure cells one after the other, and write down each when it is done."""
    import transformers

    transformers.logging.set_verbosity_error()
    for column in columns:
        signal.alarm(LIMIT)  # its default action ends a process that is deep in an engine, too
        cell = measure(model, column)
        signal.alarm(0)
        _write(journal, cell)


def measure(model: str, column: Column) -> Cell:
    """Deploy a model and say what came of it."""
    start = time.perf_counter()
    found = _deployed(model, column)
    seconds = round(time.perf_counter() - start, 1)
    return Cell(model=model, column=column, seconds=seconds, **found)


def _deployed(name: str, column: Column) -> dict[str, Any]:
    with TemporaryDirectory(prefix="enginebay-zoo-") as folder:
        try:
            model, inputs = build(name)
            deployment = eb.deploy(
                model,
                inputs,
                backend=column.backend,
                exporter=column.exporter,
                work_dir=Path(folder) / "artifact",
                params=PARAMS.get(column.backend),
                allow_mismatch=True,
                timeout=LIMIT / 2,
            )
        except eb.EnginebayError as err:
            state = "broken" if isinstance(err, ModelError) else "unsupported"
            return {"state": state, "reason": _line(str(err).replace(folder, "…"))}
        except Exception as err:  # the zoo goes on, and the page says what it was
            return {"state": "broken", "reason": _line(f"{type(err).__name__}: {err}")}
    verification = deployment.verification
    figures = verification.simulation or verification
    errors = [o.max_abs_error for o in figures.outputs if o.max_abs_error is not None]
    state = "built" if _is_built(verification) else deployment.verdict
    return {
        "state": state,
        "worst": max(errors, default=None),
        "via": [step.detail for step in deployment.steps if step.name == "export"][-1],
        "reason": "" if state in ("verified", "built") else _line(verification.summary()),
    }


def _is_built(verification: Verification) -> bool:
    """Whether nothing but the engine's GPU is lacking: its graph agrees with the model."""
    basis, simulation = verification.basis, verification.simulation
    return (
        verification.verdict == "unverified"
        and simulation is not None
        and not simulation.failed
        and not (basis and basis.doubt)
    )


def _write(journal: Path, cell: Cell) -> None:
    with journal.open("ab") as file:
        file.write(msgspec.json.encode(cell) + b"\n")


def _line(text: str) -> str:
    """On one line, and not endless."""
    text = " ".join(text.split())
    return text if len(text) <= 400 else f"{text[:399]}…"
