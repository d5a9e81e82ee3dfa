"""An ONNX file is read without its weights; damaged files are refused as by onnx."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

from enginebay.authors.files import read_onnx
from enginebay.errors import ModelSourceError
from enginebay.ir.onnx_outline import read_outline

#: Prints the growth of the peak memory in kB. ``ru_maxrss`` would include the parent process.
_READ = """
import re, sys
from pathlib import Path
import onnx
from enginebay.authors.files import read_onnx
def most():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = most()
read_onnx(sys.argv[1])
print(most() - before)
"""


def linear(rows: int) -> onnx.ModelProto:
    weights = np.ones((rows, 256), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 256])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_the_weights_are_not_read(tmp_path) -> None:
    onnx.save(linear(20_000), tmp_path / "m.onnx")
    command = [sys.executable, "-c", _READ, str(tmp_path / "m.onnx")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(found.stdout) < 10_000  # kB, half of the weights


def test_zeros_after_a_message_are_refused_at_once(tmp_path) -> None:
    path = tmp_path / "zeros.onnx"
    message = linear(2).SerializeToString()
    path.write_bytes(message + bytes(64))
    with pytest.raises(ValueError, match=f"the field at byte {len(message)} has the number 0"):
        read_outline(path)
    with pytest.raises(ModelSourceError, match="damaged"):
        read_onnx(path)


def test_damaged_file_is_refused_or_read_like_onnx(tmp_path) -> None:
    data, path = linear(1).SerializeToString(), tmp_path / "m.onnx"
    rng = np.random.default_rng(0)
    for _ in range(300):
        changed = bytearray(data)
        changed[rng.integers(len(data))] = rng.integers(256)
        path.write_bytes(changed)
        try:
            proto = onnx.load(path)
        except DecodeError:
            with pytest.raises(ModelSourceError):
                read_onnx(path)
            continue
        if not (proto.ir_version and proto.graph.output and proto.opset_import):
            continue
        with suppress(ModelSourceError):  # no nodes, or a missing data file
            names = [each.name for each in read_onnx(path).outputs]
            assert names == [each.name for each in proto.graph.output]
