"""Fourier transforms run along the axis that the graph names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

TRANSFORMS = {
    "two axes": lambda x: torch.fft.fftn(x, dim=(1, 2)).real,
    "the first axis": lambda x: torch.fft.fft(x, dim=0).imag,
    "the last axis": lambda x: torch.fft.fft(x, dim=-1).imag,
    "there and back": lambda x: torch.fft.ifft(torch.fft.fft(x, dim=2), dim=2).real,
    "real to half": lambda x: torch.view_as_real(torch.fft.rfft(x, dim=2)),
    "real to half in the middle": lambda x: torch.view_as_real(torch.fft.rfft(x, dim=1)),
    "half to real": lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=2), n=8, dim=2),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.one_in(2)
def test_a_transform_of_torch_is_verified_through_onnx(
    name: str, as_model: Any, tmp_path: Path
) -> None:
    deployment = eb.deploy(
        as_model(TRANSFORMS[name]),
        torch.randn(3, 6, 8),
        backend="openvino",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(ir="onnx", exporter="dynamo"),
    )
    assert deployment.verdict == "verified"


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    ("opset", "inputs", "attributes"),
    [
        (17, ["x"], {}),
        (17, ["x"], {"axis": 2}),
        (17, ["x", "size"], {"axis": 2, "inverse": 1}),
        (20, ["x"], {}),
        (20, ["x", "", "axis"], {}),
        (20, ["x", "size", "axis"], {"inverse": 1}),
    ],
    ids=str,
)
@pytest.mark.one_in(3)
def test_every_form_of_the_dft_node_is_verified(
    opset: int, inputs: list[str], attributes: dict[str, int], parts: int, tmp_path: Path
) -> None:
    node = helper.make_node("DFT", inputs, ["y"], **attributes)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4, parts])
    found = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [
        helper.make_tensor("size", TensorProto.INT64, [], [4]),
        helper.make_tensor("axis", TensorProto.INT64, [], [2]),
    ]
    graph = helper.make_graph([node], "dft", [given], [found], constants)
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "dft.onnx")
    deployment = eb.deploy(tmp_path / "dft.onnx", backend="openvino", work_dir=tmp_path / "out")
    assert deployment.verdict == "verified"


def test_a_computed_dft_axis_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"])
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 2]),
        helper.make_tensor_value_info("axis", TensorProto.INT64, []),
    ]
    found = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "dft", given, [found])
    opsets = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "dft.onnx")
    with pytest.raises(
        eb.EnginebayError, match="input 2 of a DFT is computed: expected a constant"
    ):
        eb.convert(tmp_path / "dft.onnx", backend="openvino", work_dir=tmp_path / "out")
