"""Shared fixtures: models written as text, and loaded as users load them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a model in ONNX's text format, without its header, to a file of its own.

    ``write("(float[n] x) => (float[n] y) { y = Relu(x) }")``
    """
    import onnx

    def write(text: str, *, imports: str = '"": 21') -> Path:
        header = f"<ir_version: 10, opset_import: [{imports}]> graph "
        path = tmp_path_factory.mktemp("model") / "model.onnx"
        model = onnx.parser.parse_model(header + text)
        for value in (*model.graph.input, *model.graph.output):
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.shape.SetInParent()  # float[] is a scalar here
        onnx.save(model, path)
        return path

    return write


@pytest.fixture
def load(write: Callable[..., Path], tmp_path: Path) -> Iterator[Callable[..., eb.Wrapper]]:
    """Convert a model in ONNX's text format, and load the artifact."""
    wrappers: list[eb.Wrapper] = []
    numbers = count()

    def load(text: str, *, strict: bool = False, **params: Any) -> Any:
        folder = tmp_path / f"artifact_{next(numbers)}"
        eb.convert(write(text), backend="openvino", work_dir=folder, params=params)
        wrappers.append(eb.load(folder, strict=strict))
        return wrappers[-1]

    yield load
    for wrapper in wrappers:
        wrapper.close()


@pytest.fixture
def run_with(tmp_path: Path) -> Callable[..., Any]:
    """Run an artifact with an instruction set; returns its receipt and its outputs.

    AVX2 is without VNNI, AMX and float16, and DEFAULT all that the processor has. OpenVINO and its
    oneDNN read their limits once in a process; so it gets one of its own. On x86 alone.
    """

    def run_with(instructions: str, artifact: Path, **inputs: Any) -> Any:
        given, found = tmp_path / "given.npz", tmp_path / "found.npz"
        np.savez(given, **inputs)
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "enginebay", "run", str(artifact), "--json"),
                *("--input", str(given), "--output", str(found)),
            ],
            env={
                **os.environ,
                **dict.fromkeys(("OV_CPU_MAX_ISA", "ONEDNN_MAX_CPU_ISA"), instructions),
            },
            check=True,
            capture_output=True,
            text=True,
        )
        with np.load(found) as outputs:
            return json.loads(ran.stdout)["receipt"], dict(outputs)

    return run_with


@pytest.fixture
def as_model() -> Callable[[Callable[[Any], Any]], Any]:
    """Return a class that makes a function of one tensor a model."""
    from torch import nn

    class Applied(nn.Module):
        def __init__(self, function: Callable[[Any], Any]) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: Any) -> Any:
            return self.function(x)

    return Applied


@pytest.fixture
def backend() -> eb.Backend:
    """The backend as callers of core hold it."""
    return eb.get_backend("openvino")
