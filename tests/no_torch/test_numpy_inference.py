"""Convert, load, run and verify in an environment without torch."""

from __future__ import annotations

import importlib.util
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import enginebay as eb
from enginebay.environment import install_command

if TYPE_CHECKING:
    from pathlib import Path


def test_torch_is_not_installed() -> None:
    assert importlib.util.find_spec("torch") is None


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    """Y = x · [[1, 2], [3, 4]] + 1 for float32[n, 2]."""
    weight = numpy_helper.from_array(np.array([[1, 2], [3, 4]], np.float32), "w")
    bias = numpy_helper.from_array(np.ones(2, np.float32), "b")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", 1, ["n", 2])],
        [helper.make_tensor_value_info("y", 1, ["n", 2])],
        [weight, bias],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "linear.onnx"
    )
    return tmp_path / "linear.onnx"


def test_model_file_that_imports_torch_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import torch.nn\n\n\ndef build(): ...\n")
    command = ["enginebay", "deploy", "net.py:build", "--backend", "onnxruntime"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 3
    assert ran.stderr == (
        "error: importing 'net.py' needs the package 'torch', which is not installed\n"
        f"hint: {install_command('enginebay[export]')}\n"
    )


def test_onnx_file_is_converted_loaded_and_run(linear: Path, tmp_path: Path) -> None:
    artifact = eb.convert(linear, backend="onnxruntime", work_dir=tmp_path / "out")
    with eb.load(artifact) as wrapper:
        y = wrapper({"x": np.array([[1, 1]], np.float32)})["y"]
    assert type(y) is np.ndarray
    np.testing.assert_array_equal(y, [[5, 7]])


def test_onnx_file_is_verified_without_torch(linear: Path, tmp_path: Path) -> None:
    inputs = {"x": np.ones((3, 2), np.float32)}
    deployment = eb.deploy(linear, inputs, backend="onnxruntime", work_dir=tmp_path / "out")
    assert deployment.verdict == "verified"
    assert deployment.artifact.manifest.torch_version is None
    assert eb.verify(deployment.artifact).verdict == "verified"


def test_every_command_runs_without_torch(linear: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for command in (
        f"enginebay deploy {linear} --backend onnxruntime --input x=2x2 --work-dir {out}",
        f"enginebay run {out} --input x=4x2",
        f"enginebay verify {out}",
        f"enginebay inspect {out}",
        "enginebay check-env onnxruntime",
    ):
        run = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{command}\n{run.stderr}"


def test_python_model_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def build():\n    return None\n")
    run = subprocess.run(
        ["enginebay", "deploy", f"{tmp_path}/net.py:build", "--backend", "onnxruntime"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert run.returncode == 3
    assert "enginebay[export]" in run.stderr
