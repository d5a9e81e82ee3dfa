"""Conversion of TorchScript or ONNX to an ncnn network that has loaded and run once."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
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
    ParamsError,
)
from enginebay_ncnn import pnnx
from enginebay_ncnn.blobs import match_blobs, resolve_outputs
from enginebay_ncnn.candidates import candidates
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.integers import onnx_integers, refuse_large_integers, torchscript_integers
from enginebay_ncnn.layers import check_layers
from enginebay_ncnn.shapes import input_shapes
from enginebay_ncnn.torchscript import Frozen
from enginebay_ncnn.trial_inputs import trial_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.authors import NumpyArray
    from enginebay.hooks import ConvertRequest
    from enginebay_ncnn.candidates import Candidate
    from enginebay_ncnn.params import NcnnParams
    from enginebay_ncnn.plan import Plan


#: The error up to which no further candidate is tried: some of ncnn's layers round more than
#: others. It is about the tolerance that an fp32 artifact is verified with.
_GOOD_ENOUGH = 1e-4


#: More than what is left of a disk that pnnx has filled up.
_SOME_BYTES = 2**16


@dataclass(frozen=True)
class _Attempt:
    """A network that loads, runs, and gives the TorchScript's numbers up to rounding.

    Attributes:
        converted: The files that pnnx wrote.
        plan: The plan for them.
        error: The largest difference, relative to the largest number of its output.
    """

    converted: pnnx.Converted
    plan: Plan
    error: float


def convert(request: ConvertRequest[NcnnParams]) -> list[Path]:
    """Write the network, its weights and its plan into the work folder.

    Returns:
        The three files, the network first.

    Raises:
        ConversionError: pnnx or ncnn failed, or the network does not give the IR's numbers.
    """
    with _converted(request) as attempt:
        param, weights, plan = _publish(attempt, request.params, request.work_dir)
    if request.params.precision == "int8":
        from enginebay_ncnn.quantize import quantize

        assert request.calibration is not None  # core has checked
        request.progress(f"calibrating on {len(request.calibration)} items")
        quantize(param, weights, plan, request.params, request.calibration, request.keep)
    return [param, weights, plan]


def quantizable_nodes(request: ConvertRequest[NcnnParams]) -> dict[str, str]:
    """Return the layers that int8 computes in 8 bits: their types by name.

    Raises:
        ConversionError: pnnx or ncnn failed, or the network does not give the IR's numbers.
    """
    from enginebay_ncnn.quantize import quantizable_layers

    with _converted(request) as attempt:
        return quantizable_layers(Graph.read(attempt.converted.param))


@contextmanager
def _converted(request: ConvertRequest[NcnnParams]) -> Iterator[_Attempt]:
    """Yield the best network, not in 8 bits yet, in a folder that is removed."""
    params = request.params
    if params.precision == "int8" and params.custom_layers:
        raise ParamsError(
            "int8 wants each layer's weights, and nothing tells those of custom layers apart",
            hint="--precision fp16, or leave custom_layers out",
        )
    scratch = Path(mkdtemp(prefix=".ncnn-", dir=request.work_dir))
    try:
        yield _best(request, params, scratch)
    finally:
        shutil.rmtree(scratch)


def _best(request: ConvertRequest[NcnnParams], params: NcnnParams, scratch: Path) -> _Attempt:
    shapes = input_shapes(request)
    trials = trial_inputs(request.samples, shapes)
    examples: Mapping[str, NumpyArray] = trials[0]
    frozen = None
    if request.ir.kind == "onnx":
        refuse_large_integers(onnx_integers(request.ir.path))
    else:
        frozen = Frozen.read(request.ir.path, trials, scratch, params.pnnx_timeout)
        examples = frozen.named
        refuse_large_integers(torchscript_integers(frozen.module.graph, frozen.examples))
    failures: dict[str, ConversionError] = {}
    attempts: list[_Attempt] = []
    half = params.precision == "fp16" or params.fp16_arithmetic
    for name, prepare in candidates(request, frozen, shapes, scratch):
        request.progress(f"pnnx, {name}")
        try:
            attempts.append(_attempt(prepare(), request, params, scratch / name, examples))
        except ConversionError as err:
            _raise_if_full(scratch)
            failures[name] = err
            if request.ir.kind == "onnx":
                err.hint = _ONLY_TORCHSCRIPT
        else:
            # In half precision the rounding hides which candidate is better.
            if attempts[-1].error <= _GOOD_ENOUGH or half:
                break
    if not attempts:
        raise _combined(failures)
    return min(attempts, key=lambda each: each.error)


def _raise_if_full(folder: Path) -> None:
    """Raise the disk's own error where it is full: pnnx writes half a file and exits with 0."""
    place = folder / "disk.probe"
    place.write_bytes(bytes(_SOME_BYTES))
    place.unlink()


def _distinct(failures: dict[str, ConversionError]) -> dict[str, ConversionError]:
    """Leave out failures with the same reason as an earlier one."""
    found: dict[str, ConversionError] = {}
    for name, err in failures.items():
        if str(err) not in map(str, found.values()):
            found[name] = err
    return found


#: The hint for a failure of an ONNX file.
_ONLY_TORCHSCRIPT = (
    "operators are lowered on the way through TorchScript only: give the model itself, or a "
    "TorchScript file, and do not cut it into parts"
)


def _combined(failures: dict[str, ConversionError]) -> ConversionError:
    """Return one error with the reason of every attempt."""
    failures = _distinct(failures)
    if len(failures) == 1:
        return next(iter(failures.values()))
    message = "; ".join(f"{name}: {err}" for name, err in failures.items())
    error = ConversionError(message, hint=next(iter(failures.values())).hint)
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
    graph.keep_returned()
    graph.write(converted.param)
    check_layers(graph, converted.ignored, params, candidate.places)
    plan = match_blobs(request.ir, candidate, converted, graph)
    request.progress("first run")
    found = _first_run(plan, params, folder, examples)
    plan, error = resolve_outputs(
        plan, request.ir.outputs, found, candidate.reference, request.unordered
    )
    return _Attempt(converted, plan, error)


def _first_run(
    plan: Plan, params: NcnnParams, folder: Path, examples: Mapping[str, NumpyArray]
) -> list[NumpyArray]:
    plan_file = folder / "plan.json"
    plan.write(plan_file)
    inputs, outputs = folder / "inputs.npz", folder / "outputs.npz"
    np.savez(inputs, *(examples[port.name] for port in plan.inputs))
    try:
        call(
            "enginebay_ncnn.child_process:run_once",
            folder,
            plan_file,
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


def _publish(attempt: _Attempt, params: NcnnParams, work_dir: Path) -> tuple[Path, Path, Path]:
    name = params.file_name
    param = work_dir / name
    weights, plan = (work_dir / name.sibling(suffix) for suffix in (".bin", ".plan.json"))
    shutil.move(attempt.converted.param, param)
    shutil.move(attempt.converted.weights, weights)
    if not weights.stat().st_size:  # no weights: core refuses empty files in an artifact
        weights.write_bytes(bytes(4))
    attempt.plan.write(plan)
    return param, weights, plan
