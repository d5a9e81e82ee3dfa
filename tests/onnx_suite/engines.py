"""The bare engines, called as in their documentation, and the same through Enginebay."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def onnxruntime(model: Path) -> Callable[[dict[str, Any]], list[Any]]:
    """Return a session with a single thread."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda inputs: list(session.run(None, inputs))


def openvino(model: Path) -> Callable[[dict[str, Any]], list[Any]]:
    """Return a compiled model that computes in float32, with inputs by position."""
    import openvino as ov

    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"}
    compiled = ov.Core().compile_model(model, "CPU", config)
    return lambda inputs: list(compiled(list(inputs.values())).to_tuple())


#: From a model file to a function from inputs by name to outputs in order.
BARE = {"onnxruntime": onnxruntime, "openvino": openvino}
#: A single thread, in the parameters of Enginebay's backends.
THREADS = {"onnxruntime": {"intra_op_threads": 1}, "openvino": {"threads": 1}}


def wrapped(
    backend: str, model: Path, inputs: list[dict[str, Any]], params: dict[str, Any]
) -> list[list[Any]]:
    """Convert and load a model, and call it with each of the inputs."""
    folder = model.with_suffix(".artifact")
    try:
        eb.convert(model, backend=backend, work_dir=folder, params=params)
        with eb.load(folder) as wrapper:
            return [wrapper.output_to_list(wrapper(each)) for each in inputs]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
