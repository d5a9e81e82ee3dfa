"""ONNX's own reference evaluator: slow, but independent of every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.environment import require
from enginebay.errors import ModelError, reason
from enginebay.ir import read_onnx

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from onnx.reference.op_run import OpRun

    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]


def reference_outputs(onnx_path: str | Path, inputs: Mapping[str, NumpyArray]) -> Arrays:
    """Run an ONNX model and return its outputs by name.

    Args:
        onnx_path: The model. The paths of its external data are checked before the data are read.
        inputs: Arrays by input name.

    Raises:
        ModelSourceError: The file cannot be read or trusted.
        ModelError: The evaluator does not support an operator, or failed.
        MissingDependencyError: onnx is not installed or too old.
    """
    require("onnx")
    from onnx.reference import ReferenceEvaluator

    model = read_onnx(onnx_path)
    try:
        # By path, since onnx searches external data in the folder of the file.
        evaluator = ReferenceEvaluator(str(model.path), new_ops=[_gather_elements()])
        values = evaluator.run(None, dict(inputs))
    except Exception as err:
        message = f"onnx's reference evaluator cannot run '{model.path.name}': {reason(err)}"
        raise ModelError(message) from err
    return dict(zip([spec.name for spec in model.outputs], values, strict=True))


def _gather_elements() -> type[OpRun]:
    """Return the operator ``GatherElements``, which onnx 1.23.2 computes wrongly on long axes.

    From 64 elements on, it looks up each row of the indices in the same row of the data.
    """
    import numpy as np
    from onnx.reference.op_run import OpRun

    class GatherElements(OpRun):  # type: ignore[misc]  # onnx has no types
        op_domain = ""

        def _run(
            self, data: NumpyArray, indices: NumpyArray, axis: int = 0
        ) -> tuple[NumpyArray, ...]:
            return (np.take_along_axis(data, indices, axis),)

    return GatherElements
