"""The bare engines, called as their own documentation calls them, and our way to the same."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def onnxruntime(model: Path) -> Callable[[dict[str, Any]], list[Any]]:
    """A session, one thread."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda inputs: list(session.run(None, inputs))


def openvino(model: Path) -> Callable[[dict[str, Any]], list[Any]]:
    """A compiled model that computes in float32, fed by position."""
    import openvino as ov

    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"}
    compiled = ov.Core().compile_model(model, "CPU", config)
    return lambda inputs: list(compiled(list(inputs.values())).to_tuple())


#: A model file → what runs it: inputs by name → outputs in order.
BARE = {"onnxruntime": onnxruntime, "openvino": openvino}
#: One thread, in the parameters of our backends.
THREADS = {"onnxruntime": {"intra_op_threads": 1}, "openvino": {"threads": 1}}


def wrapped(
    backend: str, model: Path, inputs: list[dict[str, Any]], params: dict[str, Any]
) -> list[list[Any]]:
    """Convert, load, and call with each of the inputs."""
    folder = model.with_suffix(".artifact")
    try:
        eb.convert(model, backend=backend, work_dir=folder, params=params)
        with eb.load(folder) as wrapper:
            return [wrapper.output_to_list(wrapper(each)) for each in inputs]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
