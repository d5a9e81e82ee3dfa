"""Finds the graph optimisations that crash or compute wrong results for a model."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.hooks import WrapperRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: The session configuration entry that disables optimisations, whose names semicolons separate.
KEY = "optimization.disable_specified_optimizers"


def find_wrong_optimizers(request: WrapperRequest[OnnxruntimeParams]) -> str:
    """Return the names of the optimisations to disable for an artifact, separated by semicolons."""
    wrong = []
    if _is_half_precision(request):
        # Since 1.24 this fusion of a Transpose and a MatMul in float16 crashes the process when
        # NCHWc layouts are chosen next: microsoft/onnxruntime#28392.
        wrong.append("MatmulTransposeFusion")
    if has_operators(request.directory / request.files[0], "Pad", "MaxPool"):
        # It turns a Pad with zeros into the padding of the following MaxPool, which is minus
        # infinity: microsoft/onnxruntime#24737, fixed in 1.32. Only for graphs with both operators,
        # because it is right for Conv.
        wrong.append("Pad_Fusion")
    model = request.directory / request.files[0]
    if request.params.precision != "int8" and has_operators(model, "DequantizeLinear"):
        # Where a layer lies between the steps of a fake quantisation, it rounds the layer's weights
        # to 8 bits, too.
        wrong.append("WeightBiasQuantization")
    return ";".join(wrong)


def _is_half_precision(request: WrapperRequest[OnnxruntimeParams]) -> bool:
    params = request.params
    specs = (*request.inputs, *request.outputs)
    return params.precision == "fp16" or any(spec.dtype == "float16" for spec in specs)


def has_operators(model: Path, *names: str) -> bool:
    """Return True if a model may contain all of these operators.

    Loading an artifact does not require the package onnx, so the file is searched for the bytes of
    a node's field ``op_type`` in protobuf: field number 4 and wire type 2, the length, the text.
    """
    if not model.is_file() or not model.stat().st_size:
        return False  # the session reports the error
    fields = [bytes((4 << 3 | 2, len(name))) + name.encode() for name in names]
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return all(content.find(field) >= 0 for field in fields)
