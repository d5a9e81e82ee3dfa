"""ONNX's reference evaluator computes what the operators define."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from enginebay.reference.onnx_evaluator import reference_outputs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("length", [3, 63, 64, 200])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_are_gathered_on_an_axis_of_any_length(
    length: int, axis: int, tmp_path: Path
) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 17]> g (float[n, k] x, int64[n, k] i) =>
        (float[n, k] y) {{ y = GatherElements<axis = {axis}>(x, i) }}"""
    onnx.save(parse_model(text), tmp_path / "gather.onnx")
    x = np.arange(3.0 * length, dtype=np.float32).reshape(length, 3)
    indices = np.random.default_rng(0).integers(-x.shape[axis], x.shape[axis], x.shape)
    found = reference_outputs(tmp_path / "gather.onnx", {"x": x, "i": indices})["y"]
    rows, columns = np.indices(x.shape)
    expected = x[indices, columns] if axis == 0 else x[rows, indices]
    assert np.array_equal(found, expected)
