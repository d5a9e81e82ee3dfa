"""Convert TorchScript or ONNX to an ncnn network, and run the network once to check it."""

from __future__ import annotations

import logging
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import numpy as np

from enginebay.authors import isolation
from enginebay.errors import (
    ConversionError,
    InferenceError,
    IsolationError,
    ParamsError,
    first_line,
)
from enginebay_ncnn import pnnx
from enginebay_ncnn.blobs import match_blobs, resolve_outputs
from enginebay_ncnn.candidates import iterate_candidates
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.integers import (
    find_onnx_integers,
    find_torchscript_integers,
    refuse_large_integers,
)
from enginebay_ncnn.layers import check_layers
from enginebay_ncnn.shapes import resolve_input_shapes
from enginebay_ncnn.torchscript import Frozen
from enginebay_ncnn.trial_inputs import make_trial_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import ConvertRequest
    from enginebay_ncnn.candidates import Candidate
    from enginebay_ncnn.params import NcnnParams
    from enginebay_ncnn.plan import Plan

_log = logging.getLogger("enginebay.ncnn")

#: The error up to which no further candidate is tried: some of ncnn's layers round more than
#: others. It is about the tolerance for verifying fp32 artifacts.
_GOOD_ERROR = 1e-4


#: More bytes than remain free on a disk that pnnx has filled.
_PROBE_BYTES = 2**16


@dataclass(frozen=True)
class _Attempt:
    """A converted network whose outputs match the expected outputs up to rounding.

    Attributes:
        converted: The files that pnnx wrote.
        plan: The mapping between the model's tensors and the network's blobs.
        error: The largest relative error of the outputs: an output's largest absolute error
            divided by the largest magnitude of the expected output.
    """

    converted: pnnx.Converted
    plan: Plan
    error: float


def convert(request: ConvertRequest[NcnnParams]) -> list[Path]:
    """Write the network, the weights, and the plan that maps tensors to blobs.

    Returns:
        The paths of the network, the weights and the plan.

    Raises:
        ConversionError: pnnx or ncnn failed, or the network's outputs differ from the IR's.
    """
    with _build_network(request) as attempt:
        param, weights, plan = _publish_files(attempt, request.params, request.work_dir)
    if request.params.precision == "int8":
        from enginebay_ncnn.quantize import quantize

        assert request.calibration is not None  # core checks this
        request.progress(f"calibrating on {len(request.calibration)} items")
        quantize(param, weights, plan, request.params, request.calibration, request.keep)
    return [param, weights, plan]


def quantizable_nodes(request: ConvertRequest[NcnnParams]) -> dict[str, str]:
    """Return the types, by layer name, of the layers that precision int8 computes in 8 bits.

    Raises:
        ConversionError: pnnx or ncnn failed, or the network's outputs differ from the IR's.
    """
    from enginebay_ncnn.quantize import quantizable_layers

    with _build_network(request) as attempt:
        return quantizable_layers(Graph.read(attempt.converted.param))


@contextmanager
def _build_network(request: ConvertRequest[NcnnParams]) -> Iterator[_Attempt]:
    """Yield the first network whose outputs are exact enough, or else the most exact network.

    In half precision, yield the first network that can be converted. The files of all networks are
    deleted after the ``with`` block.
    """
    params = request.params
    if params.precision == "int8" and params.custom_layers:
        raise ParamsError(
            "precision int8 and custom_layers cannot be combined: ncnn's files do not record which "
            "weights belong to a custom layer",
            hint="--precision fp16, or remove custom_layers",
        )
    # In the work folder, so that the files are renamed and not copied when they are published.
    scratch = Path(mkdtemp(prefix=".ncnn-", dir=request.work_dir))
    try:
        yield _find_best(request, params, scratch)
    finally:
        shutil.rmtree(scratch)


def _find_best(request: ConvertRequest[NcnnParams], params: NcnnParams, scratch: Path) -> _Attempt:
    shapes = resolve_input_shapes(request)
    trials = make_trial_inputs(request.samples, shapes)
    examples: Mapping[str, NumpyArray] = trials[0]
    frozen = None
    if request.ir.kind == "onnx":
        refuse_large_integers(find_onnx_integers(request.ir.path))
    else:
        frozen = Frozen.read(request.ir.path, trials, scratch, params.pnnx_timeout)
        examples = frozen.named
        refuse_large_integers(find_torchscript_integers(frozen.module.graph, frozen.examples))
    failures: dict[str, ConversionError] = {}
    attempts: list[_Attempt] = []
    half = params.precision == "fp16" or params.fp16_arithmetic
    for name, prepare in iterate_candidates(request, frozen, shapes, scratch):
        request.progress(f"pnnx converts {name}")
        try:
            attempts.append(_run_attempt(prepare(), request, params, scratch / name, examples))
        except ConversionError as err:
            _raise_if_full(scratch)
            failures[name] = err
            _log.debug("%s is refused: %s", name, first_line(err))
            if request.ir.kind == "onnx":
                way = _WAY_OF_FILES if request.ir.exporter == "file" else _WAY_OF_MODELS
                err.hint = f"{err.hint}; or {way}" if err.hint else way
        else:
            _log.debug("%s has an error of %.2g", name, attempts[-1].error)
            # In half precision, rounding hides which candidate is better.
            if attempts[-1].error <= _GOOD_ERROR or half:
                break
    if not attempts:
        raise _combine_failures(failures)
    return min(attempts, key=lambda attempt: attempt.error)


def _raise_if_full(folder: Path) -> None:
    # On a full disk pnnx writes half a file and exits with 0.
    probe = folder / "disk.probe"
    probe.write_bytes(bytes(_PROBE_BYTES))
    probe.unlink()


def _drop_repeated(failures: dict[str, ConversionError]) -> dict[str, ConversionError]:
    distinct: dict[str, ConversionError] = {}
    for name, err in failures.items():
        if str(err) not in map(str, distinct.values()):
            distinct[name] = err
    return distinct


#: The hints for a failure of ONNX: for a file that another tool wrote, and for an export.
_WAY_OF_FILES = (
    "deploy the PyTorch model or a TorchScript file of it, which are lowered to ncnn's operators"
)
_WAY_OF_MODELS = "--ir torchscript without cuts, which is lowered to ncnn's operators"


def _combine_failures(failures: dict[str, ConversionError]) -> ConversionError:
    failures = _drop_repeated(failures)
    if len(failures) == 1:
        return next(iter(failures.values()))
    message = "; ".join(f"{name}: {err}" for name, err in failures.items())
    error = ConversionError(message, hint=next(iter(failures.values())).hint)
    error.__cause__ = ExceptionGroup("every attempt failed", list(failures.values()))
    return error


def _run_attempt(
    candidate: Candidate,
    request: ConvertRequest[NcnnParams],
    params: NcnnParams,
    folder: Path,
    examples: Mapping[str, NumpyArray],
) -> _Attempt:
    folder.mkdir()
    converted = pnnx.run_pnnx(candidate, folder, params)
    graph = Graph.read(converted.param)
    graph.separate_returned_inputs()
    graph.write(converted.param)
    check_layers(graph, converted.ignored, params, candidate.source_lines)
    plan = match_blobs(request.ir, candidate, converted, graph)
    request.progress("first run")
    outputs = _first_run(plan, params, folder, examples)
    plan, error = resolve_outputs(
        plan, request.ir.outputs, outputs, candidate.reference, request.unordered
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
        isolation.call(
            "enginebay_ncnn.child_process:run_once",
            folder,
            plan_file,
            params.replace(work_dir=None).to_mapping(),  # the child writes no artifact
            inputs,
            outputs,
            timeout=params.pnnx_timeout,
            result_type=str,
        )
    except (IsolationError, InferenceError) as err:
        error = ConversionError(f"ncnn cannot run pnnx's network: {err}")
        for note in getattr(err, "__notes__", ()):
            error.add_note(note)
        raise error from err
    with np.load(outputs, allow_pickle=False) as file:
        return [file[key] for key in file.files]


def _publish_files(
    attempt: _Attempt, params: NcnnParams, work_dir: Path
) -> tuple[Path, Path, Path]:
    name = params.file_name
    param = work_dir / name
    weights, plan = (work_dir / name.sibling(suffix) for suffix in (".bin", ".plan.json"))
    shutil.move(attempt.converted.param, param)
    shutil.move(attempt.converted.weights, weights)
    if not weights.stat().st_size:  # core refuses empty files in an artifact
        weights.write_bytes(bytes(4))
    attempt.plan.write(plan)
    return param, weights, plan
