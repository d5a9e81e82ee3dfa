"""Which operators of a model neither pnnx, nor ncnn, nor the lowering knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import call
from enginebay.errors import ConversionError, LackingOperatorsError
from enginebay_ncnn import pnnx
from enginebay_ncnn.candidates import candidates
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.shapes import input_shapes
from enginebay_ncnn.torchscript import Frozen, foreign_operators
from enginebay_ncnn.trial_inputs import trial_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.hooks import ConvertRequest
    from enginebay_ncnn.candidates import Candidate
    from enginebay_ncnn.params import NcnnParams


def unsupported_operators(request: ConvertRequest[NcnnParams]) -> dict[str, str]:
    """Return the operators that are left of the file that goes furthest.

    Raises:
        ConversionError: pnnx fails on all of them.
    """
    params = request.params
    shapes = input_shapes(request)
    frozen = None
    if request.ir.kind == "torchscript":
        trials = trial_inputs(request.samples, shapes)
        frozen = Frozen.read(request.ir.path, trials, request.work_dir, params.pnnx_timeout)
        if foreign := foreign_operators(frozen.module):
            return dict.fromkeys(foreign, "pnnx knows no operators of others")
    best: dict[str, str] | None = None
    failure: ConversionError | None = None
    for name, prepare in candidates(request, frozen, shapes, request.work_dir):
        try:
            left = _left(prepare(), params, request.work_dir / name)
        except LackingOperatorsError as err:
            names = (operator.replace(".", "::", 1) for operator in err.operators)
            left = dict.fromkeys(names, "nothing lowers it to what ncnn has")
        except ConversionError as err:
            failure = failure or err
            continue
        if best is None or len(left) < len(best):
            best = left
        if not best:
            break
    if best is None:
        assert failure is not None
        raise failure
    return best


def _left(candidate: Candidate, params: NcnnParams, folder: Path) -> dict[str, str]:
    """The operators of a candidate that ncnn has no layer for, or none with these parameters."""
    folder.mkdir()
    converted = pnnx.convert(candidate, folder, params)
    layers = Graph.read(converted.param).layers
    own = {*params.custom_layers, *params.module_ops}
    types = sorted({layer.type for layer in layers} - own)
    unknown = call(
        "enginebay_ncnn.child_process:unknown_layers",
        types,
        timeout=params.pnnx_timeout,
        result_type=list[str],
    )
    found = {_operator(kind): "ncnn has no layer for it" for kind in unknown}
    for layer in layers:
        if layer.name in converted.ignored and layer.type not in own:
            reason = f"ncnn's {layer.type} has no {converted.ignored[layer.name]}"
            found.setdefault(_operator(layer.type), reason)
    return found


def _operator(kind: str) -> str:
    """TorchScript's name of an operator that pnnx leaves: torch.fft.rfft is aten::fft_rfft."""
    if "::" in kind:
        return kind
    _, dot, name = kind.partition(".")
    return f"aten::{name.replace('.', '_')}" if dot else kind
