"""Convert, save, load and run: the real parser and builder, and a stand-in for the engine."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx_models import agree, built, expected, linear, rows

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path


def test_the_receipt_has_the_properties_of_the_device(stand_ins: Any, tmp_path: Path) -> None:
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    with eb.load(artifact) as wrapper:
        assert wrapper.receipt.device == "cuda:0"
        assert wrapper.receipt.device_name == "NVIDIA Fake 1"
        assert wrapper.receipt.driver == "CUDA 13.0"
        assert wrapper.receipt.engine == f"tensorrt-rtx {stand_ins.trt.__version__}"
        assert wrapper.receipt.details["profiles"] == "1"


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_half_precision_is_in_the_graph(stand_ins: Any, tmp_path: Path, precision: str) -> None:
    source = linear(tmp_path / "m.onnx")
    artifact = eb.convert(
        source, backend="tensorrt-rtx", work_dir=tmp_path / "a", params={"precision": precision}
    )
    _, graph = stand_ins.graph_of((artifact.path / "model.engine").read_bytes())
    kind = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}[precision]
    assert kind in {tensor.data_type for tensor in graph.graph.initializer}
    assert not list(artifact.path.glob("typed-*"))
    with eb.load(artifact) as wrapper:
        x = rows(2)
        agree(wrapper({"x": x}), expected(x), tolerance=0.05)
        assert wrapper.receipt.precision == precision


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_int8_is_calibrated(stand_ins: Any, tmp_path: Path, precision: str) -> None:
    np.savez(tmp_path / "c.npz", x=np.stack([rows(2) for _ in range(16)]))
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"),
        backend="tensorrt-rtx",
        work_dir=tmp_path / "a",
        params={"precision": precision},
        data=tmp_path / "c.npz",
    )
    _, graph = stand_ins.graph_of((artifact.path / "model.engine").read_bytes())
    operators = {node.op_type for node in graph.graph.node}
    assert "QuantizeLinear" in operators
    with eb.load(artifact) as wrapper:
        x = rows(2)
        agree(wrapper({"x": x}), expected(x), tolerance=0.4)


def test_the_console_tool_converts(stand_ins: Any, tmp_path: Path) -> None:
    from enginebay_tensorrt import api

    source, target = linear(tmp_path / "m.onnx", "n"), tmp_path / "a"
    flags = ["--min-shapes", "x:1x3", "--input-shapes", "x:4x3", "--max-shapes", "x:8x3"]
    command = [sys.executable, "-W", "ignore", "-m", "enginebay_tensorrt", "convert", source]
    ran = subprocess.run(
        [*command, "--work-dir", target, *flags], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    with api.load(target / "model.engine", output_names=("y", "s")) as wrapper:
        x = rows(8)
        agree(wrapper({"x": x}), expected(x))


def test_cuda_calls_have_the_right_order(stand_ins: Any, tmp_path: Path) -> None:
    source = linear(tmp_path / "m.onnx")
    artifact = built(source)
    assert [
        ("create_network", 0),  # strongly typed without a flag
        ("parse_from_file", str(source)),
        ("build_serialized_network_to_stream", 0),
    ] == stand_ins.LOG
    stand_ins.LOG.clear()
    with eb.load(artifact, device="cuda:0") as wrapper:
        wrapper({"x": rows(2)})
    stream = stand_ins.LOG[-1][1]
    assert [
        ("deserialize_cuda_engine", 0),
        "create_execution_context",
        ("execute_async_v3", stream, 0),
    ] == stand_ins.LOG
    assert stream != 0  # the default stream makes TensorRT wait


def test_one_call_copies_enqueues_and_waits_once(machine: Any, tmp_path: Path) -> None:
    artifact = eb.convert(
        linear(tmp_path / "m.onnx"), backend="tensorrt-rtx", work_dir=tmp_path / "a"
    )
    with eb.load(artifact) as wrapper:
        wrapper({"x": rows(2)})
        machine.log.clear()
        wrapper({"x": rows(2)})
    stream = machine.log[0][2]
    assert machine.log == [  # no memory is taken for a shape that was seen
        ("cudaMemcpyHostToDevice", 24, stream),
        ("cudaMemcpyDeviceToHost", 8, stream),  # in the engine's order
        ("cudaMemcpyDeviceToHost", 32, stream),
        ("cudaStreamSynchronize", stream),
    ]
