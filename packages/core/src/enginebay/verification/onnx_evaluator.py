"""Run an ONNX file with ONNX's own reference evaluator, which is slow and nobody's engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.environment import require
from enginebay.errors import ModelError, reason
from enginebay.ir import read_onnx

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np

    Arrays = dict[str, np.ndarray[Any, Any]]


def reference_outputs(onnx_path: str | Path, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
    """The outputs of an ONNX model, by name.

    Args:
        onnx_path: The model; its external data is checked before it is followed.
        inputs: Arrays by input name.

    Raises:
        ModelSourceError: The file cannot be read or trusted.
        ModelError: The evaluator does not know an operator, or failed.
        MissingDependencyError: onnx is not installed or too old.
    """
    require("onnx")
    from onnx.reference import ReferenceEvaluator

    model = read_onnx(onnx_path)
    try:
        values = ReferenceEvaluator(str(model.path)).run(None, dict(inputs))
    except Exception as err:
        message = f"onnx's reference evaluator cannot run '{model.path.name}': {reason(err)}"
        raise ModelError(message) from err
    return dict(zip([spec.name for spec in model.outputs], values, strict=True))
