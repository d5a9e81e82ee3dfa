"""SIGKILL during a deployment: no partial artifact, and the next run removes the leftovers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

#: Seconds for the whole loop, which continues until it has killed a process.
BUDGET = 12.0


def big_onnx(path: Path) -> None:
    """4 MiB of weights, so that writing takes a moment."""
    weight = numpy_helper.from_array(np.ones((1024, 1024), np.float32), "w")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 1024]) for n in "xy")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weight]
    )
    opsets = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def deployment(*more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "enginebay", "deploy", "big.onnx"),
            *("--backend", "onnxruntime", "--work-dir", "out", *more),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_killed_overwrite_leaves_a_whole_artifact(cli: Run, here: Path) -> None:
    big_onnx(here / "big.onnx")
    start = time.monotonic()
    assert deployment().wait() == 0
    whole = time.monotonic() - start
    assert cli("inspect", "out").code == 0
    moments = random.Random(0)
    outcomes = set()
    while time.monotonic() - start < BUDGET or -signal.SIGKILL not in outcomes:
        process = deployment("--overwrite")
        try:
            process.wait(moments.uniform(0.3, 1.05) * whole)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        outcomes.add(process.wait())
        assert cli("inspect", "out").code == 0, "the old or the new artifact, whole"
    assert cli("deploy", "big.onnx", "--work-dir", "out", "--overwrite").code == 0
    left = {path.name for path in here.iterdir()} - {"__pycache__"}
    assert left == {"big.onnx", "models.py", "out"}


def test_killed_first_deployment_leaves_no_artifact(cli: Run, here: Path) -> None:
    big_onnx(here / "big.onnx")
    process = deployment()
    while not [path for path in here.iterdir() if path.name.startswith(".out.staging-")]:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (here / "out").exists()
    assert [path for path in here.iterdir() if path.name.startswith(".out.staging-")]
    assert cli("deploy", "big.onnx", "--work-dir", "out").code == 0
    left = {path.name for path in here.iterdir()} - {"__pycache__"}
    assert left == {"big.onnx", "models.py", "out"}


def test_two_deployments_of_one_work_dir_give_one_artifact(cli: Run, here: Path) -> None:
    big_onnx(here / "big.onnx")
    codes = sorted(process.wait() for process in [deployment(), deployment()])
    assert codes == [0, 2], "the second finds the name taken"
    assert cli("verify", "out").code == 0
    codes = sorted(
        process.wait() for process in [deployment("--overwrite"), deployment("--overwrite")]
    )
    assert codes == [0, 0]
    assert cli("verify", "out").code == 0
    left = {path.name for path in here.iterdir()} - {"__pycache__"}
    assert left == {"big.onnx", "models.py", "out"}
