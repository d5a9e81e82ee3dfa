"""Find a model's operators that pnnx or ncnn does not support, not even after lowering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import isolation
from enginebay.errors import ConversionError, LackingOperatorsError
from enginebay_ncnn import pnnx
from enginebay_ncnn.candidates import iterate_candidates
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.shapes import resolve_input_shapes
from enginebay_ncnn.torchscript import Frozen, find_foreign_operators
from enginebay_ncnn.trial_inputs import make_trial_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.hooks import ConvertRequest
    from enginebay_ncnn.candidates import Candidate
    from enginebay_ncnn.params import NcnnParams


def unsupported_operators(request: ConvertRequest[NcnnParams]) -> dict[str, str]:
    """Return the reason for each unsupported operator of a model, by operator name.

    pnnx converts the unchanged model and, if possible, the model lowered for ncnn. The result is
    for the version of the model with the fewest unsupported operators.

    Raises:
        ConversionError: pnnx can convert no version of the model.
    """
    params = request.params
    shapes = resolve_input_shapes(request)
    frozen = None
    if request.ir.kind == "torchscript":
        trials = make_trial_inputs(request.samples, shapes)
        frozen = Frozen.read(request.ir.path, trials, request.work_dir, params.pnnx_timeout)
        # Not found out by trying: pnnx crashes on operators of other namespaces.
        if foreign := find_foreign_operators(frozen.module):
            return dict.fromkeys(foreign, "pnnx reads only torch's own operators")
    best: dict[str, str] | None = None
    failure: ConversionError | None = None
    for name, prepare in iterate_candidates(request, frozen, shapes, request.work_dir):
        try:
            unsupported = _find_unsupported(prepare(), params, request.work_dir / name)
        except LackingOperatorsError as err:
            names = (operator.replace(".", "::", 1) for operator in err.operators)
            unsupported = dict.fromkeys(
                names, "ncnn has no such layer, and Enginebay has no lowering"
            )
        except ConversionError as err:
            failure = failure or err
            continue
        if best is None or len(unsupported) < len(best):
            best = unsupported
        if not best:
            break
    if best is None:
        assert failure is not None
        raise failure
    return best


def _find_unsupported(candidate: Candidate, params: NcnnParams, folder: Path) -> dict[str, str]:
    folder.mkdir()
    converted = pnnx.run_pnnx(candidate, folder, params)
    layers = Graph.read(converted.param).layers
    custom = {*params.custom_layers, *params.module_ops}
    types = sorted({layer.type for layer in layers} - custom)
    unknown = isolation.call(
        "enginebay_ncnn.child_process:find_unknown_layers",
        types,
        timeout=params.pnnx_timeout,
        result_type=list[str],
    )
    reasons = {_operator_name(kind): "ncnn has no such layer" for kind in unknown}
    for layer in layers:
        if layer.name in converted.ignored and layer.type not in custom:
            reason = f"ncnn's {layer.type} has no parameter {converted.ignored[layer.name]}"
            reasons.setdefault(_operator_name(layer.type), reason)
    return reasons


def _operator_name(kind: str) -> str:
    """Convert an operator's name in pnnx, such as torch.fft.rfft, to its name in TorchScript."""
    if "::" in kind:
        return kind
    _, dot, name = kind.partition(".")
    return f"aten::{name.replace('.', '_')}" if dot else kind
