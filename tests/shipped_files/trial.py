"""Deploys a file as a user would, in a child process, and compares its outputs with the truth."""

from __future__ import annotations

import os
import re
import resource
import sys
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

import enginebay as eb
from enginebay.authors.isolation import call
from enginebay.errors import IsolationError
from enginebay_testing import temporary_backend

from .faults import FAULT, PLANTED
from .files import FILES, local_path
from .inputs import draw
from .made import SEEDS
from .references import MEMORY, SECONDS, can_run, distance, known, references

ENGINES = ("onnxruntime", "openvino", "ncnn")


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a file on an engine.

    Attributes:
        verdict: That of the deployment: ``told`` if it is verified with a warning, ``refused``
            after one of our errors, ``traceback`` after any other, ``crashed`` if its process died.
        said: The first line of the warning or of the error.
        off: How far the artifact is from the nearer of the two references, in deviations.
        alone: True if the engine alone runs a file that is not verified; None if it was not asked.
        seconds: The duration.
    """

    verdict: str
    said: str = ""
    off: float | None = None
    alone: bool | None = None
    seconds: float = 0.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a file: by engine, and by fault on an engine that has it.

    Attributes:
        references: The implementations that say what is right, at most two.
        apart: How far the two are from one another, in deviations.
        results: The results.
    """

    references: list[str]
    apart: float | None
    results: dict[str, Result]


def try_file(name: str) -> Row:
    """Deploy a file on each engine, and on ONNX Runtime with each of its faults."""
    ways = references(name)
    apart = distance(name, *(known(name, way) for way in ways)) if len(ways) == 2 else None
    results = {engine: _try(name, engine, ways) for engine in ENGINES}
    results |= {fault: _try(name, "faulty", ways, fault) for fault in PLANTED.get(name, ())}
    return Row(references=ways, apart=apart, results=results)


def _try(name: str, engine: str, ways: list[str], fault: str = "") -> Result:
    arguments = (name, engine, ways, fault)
    try:
        result = call(f"{__name__}:deploy", *arguments, timeout=SECONDS, result_type=Result)
    except IsolationError as err:
        result = Result(verdict="crashed", said=_line(str(err)))
    if result.verdict in ("verified", "told") or engine not in ("onnxruntime", "openvino"):
        return result
    return msgspec.structs.replace(result, alone=can_run(engine, name))


def deploy(name: str, engine: str, ways: list[str], fault: str) -> Result:
    """Deploy a file in this process, and run the artifact for each seed."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ[FAULT] = fault
    source = "tests.shipped_files.faults"
    start, off = time.perf_counter(), None
    with (
        temporary_backend("faulty", source) if fault else nullcontext(),
        TemporaryDirectory(prefix="enginebay-shipped-") as folder,
    ):
        artifact = Path(folder) / "artifact"
        verdict, said = _verdict(name, engine, artifact)
        seconds = round(time.perf_counter() - start, 1)
        if artifact.exists():
            with eb.load(artifact) as wrapper:
                outputs = [dict(wrapper(draw(FILES[name].inputs, seed))) for seed in SEEDS]
            off = min(distance(name, outputs, known(name, way)) for way in ways)
    said = _line(said.replace(folder, "…").replace(str(local_path(name).parent), "…"))
    return Result(verdict=verdict, said=said, off=off, seconds=seconds)


def _verdict(name: str, engine: str, artifact: Path) -> tuple[str, str]:
    """Return the verdict, and what a user reads."""
    options: dict[str, Any] = {"backend": engine, "work_dir": artifact}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = eb.deploy(
                *(str(local_path(name)), draw(FILES[name].inputs, SEEDS[0])),
                **options,
                verify=eb.VerifyOptions(allow_mismatch=True, timeout=SECONDS / 2),
            ).verification
    except eb.NotVerifiedError as err:
        return err.verdict.verdict, str(err)
    except eb.EnginebayError as err:
        return "refused", str(err)
    except Exception as err:
        return "traceback", f"{type(err).__name__}: {err}"
    if found.verdict == "verified" and found.warnings:
        return "told", found.warnings[0]
    return found.verdict, "" if found.passed else found.summary()


def _line(text: str) -> str:
    """Return the first line of a text, without this machine's paths and numbers of memory."""
    line = text.strip().partition("\n")[0].replace(sys.prefix, "…")
    line = re.sub(r"0x[0-9a-f]+", "0x…", line)
    return line if len(line) <= 240 else f"{line[:239]}…"
