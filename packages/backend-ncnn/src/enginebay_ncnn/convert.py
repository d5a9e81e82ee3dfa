"""TorchScript or ONNX in, ncnn's network out, proven to load and to run."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import numpy as np

from enginebay.authors import call
from enginebay.errors import (
    ConversionError,
    InferenceError,
    IsolationError,
    MissingDependencyError,
)
from enginebay_ncnn import pnnx
from enginebay_ncnn.candidates import candidates
from enginebay_ncnn.examples import trials
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.layers import check_layers
from enginebay_ncnn.planning import draw_up, settle
from enginebay_ncnn.shapes import input_shapes
from enginebay_ncnn.torchscript import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.authors import NumpyArray
    from enginebay.hooks import ConvertRequest
    from enginebay_ncnn.candidates import Candidate
    from enginebay_ncnn.params import NcnnParams
    from enginebay_ncnn.plan import Plan


#: How far the network may be from the TorchScript, as a part of its largest number, before a
#: further candidate is tried too: some of ncnn's layers round more than others. An fp32 artifact
#: is verified with a tolerance of about as much.
_CLOSE = 1e-4


@dataclass(frozen=True)
class _Attempt:
    """A network that loads, runs, and gives the TorchScript's numbers but for rounding."""

    converted: pnnx.Converted
    plan: Plan
    off: float


def convert(request: ConvertRequest[NcnnParams]) -> list[Path]:
    """Write the network, its weights and its plan into the work folder.

    Returns:
        The three files, the network first.

    Raises:
        ConversionError: pnnx or ncnn failed, or the network does not give the IR's numbers.
    """
    params = request.params
    _refuse_int8(params)
    scratch = Path(mkdtemp(prefix=".ncnn-", dir=request.work_dir))
    try:
        return _convert(request, params, scratch)
    finally:
        shutil.rmtree(scratch)


def _refuse_int8(params: NcnnParams) -> None:
    if params.precision == "int8":
        raise MissingDependencyError(
            "precision int8 needs ncnn's programs ncnn2table and ncnn2int8, which are in no "
            "package for Python: they have to be built from ncnn's sources",
            hint="--precision fp16 halves the weights",
        )


def _convert(request: ConvertRequest[NcnnParams], params: NcnnParams, scratch: Path) -> list[Path]:
    shapes = input_shapes(request.ir.inputs, params)
    to_try = trials(request.samples, shapes)
    examples: Mapping[str, NumpyArray] = to_try[0]
    frozen = None
    if request.ir.kind != "onnx":
        frozen = Frozen.read(request.ir.path, to_try)
        examples = frozen.named
    failures: dict[str, ConversionError] = {}
    attempts: list[_Attempt] = []
    rounds = params.precision != "fp32" or params.fp16_arithmetic
    for name, prepare in candidates(request.ir, frozen, shapes, scratch, params):
        request.progress(f"pnnx, {name}")
        try:
            attempts.append(_attempt(prepare(), request, params, scratch / name, examples))
        except ConversionError as err:
            failures[name] = err
            if request.ir.kind == "onnx":
                err.hint = _LOWERED_ELSEWHERE
        else:
            if attempts[-1].off <= _CLOSE or rounds:
                break
    if not attempts:
        raise _failed(failures)
    return _publish(min(attempts, key=lambda each: each.off), params, request.work_dir)


def _unlike(failures: dict[str, ConversionError]) -> dict[str, ConversionError]:
    """The failures, those with the same reason as an earlier one left out."""
    told: dict[str, ConversionError] = {}
    for name, err in failures.items():
        if str(err) not in map(str, told.values()):
            told[name] = err
    return told


#: What to do about a failure on the way through ONNX.
_LOWERED_ELSEWHERE = (
    "operators are lowered on the way through TorchScript only: give the model itself, or a "
    "TorchScript file, and do not cut it into parts"
)


def _failed(failures: dict[str, ConversionError]) -> ConversionError:
    failures = _unlike(failures)
    if len(failures) == 1:
        return next(iter(failures.values()))
    told = "; ".join(f"{name}: {err}" for name, err in failures.items())
    error = ConversionError(told, hint=next(iter(failures.values())).hint)
    error.__cause__ = ExceptionGroup("every attempt failed", list(failures.values()))
    return error


def _attempt(
    candidate: Candidate,
    request: ConvertRequest[NcnnParams],
    params: NcnnParams,
    folder: Path,
    examples: Mapping[str, NumpyArray],
) -> _Attempt:
    folder.mkdir()
    converted = pnnx.convert(candidate, folder, params)
    graph = Graph.read(converted.param)
    check_layers(graph, converted.ignored, params, candidate.places)
    plan = draw_up(request.ir, candidate, converted, graph)
    request.progress("first run")
    found = _first_run(plan, params, folder, examples)
    return _Attempt(converted, *settle(plan, request.ir.outputs, found, candidate.reference))


def _first_run(
    plan: Plan, params: NcnnParams, folder: Path, examples: Mapping[str, NumpyArray]
) -> list[NumpyArray]:
    where = folder / "plan.json"
    plan.write(where)
    inputs, outputs = folder / "inputs.npz", folder / "outputs.npz"
    np.savez(inputs, *(examples[port.name] for port in plan.inputs))
    try:
        call(
            "enginebay_ncnn.proof:prove",
            folder,
            where,
            params.replace(work_dir=None).to_mapping(),
            inputs,
            outputs,
            timeout=params.pnnx_timeout,
            result_type=str,
        )
    except (IsolationError, InferenceError) as err:
        error = ConversionError(f"ncnn cannot run what pnnx wrote: {err}")
        for note in getattr(err, "__notes__", ()):
            error.add_note(note)
        raise error from err
    with np.load(outputs, allow_pickle=False) as file:
        return [file[key] for key in file.files]


def _publish(attempt: _Attempt, params: NcnnParams, work_dir: Path) -> list[Path]:
    name = params.file_name
    targets = [work_dir / file for file in (name, name.sibling(".bin"), name.sibling(".plan.json"))]
    shutil.move(attempt.converted.param, targets[0])
    shutil.move(attempt.converted.weights, targets[1])
    if not targets[1].stat().st_size:  # no weights at all: an artifact has no empty files
        targets[1].write_bytes(bytes(4))
    attempt.plan.write(targets[2])
    return targets
