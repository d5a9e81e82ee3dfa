"""What a file means by two implementations that share no code, and how far others are from them."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.authors.isolation import call
from enginebay.errors import IsolationError
from enginebay.evaluator.onnx_evaluator import make_evaluator

from .files import FILES, local_path
from .inputs import draw
from .made import SEEDS

if TYPE_CHECKING:
    from pathlib import Path

#: Seconds and bytes that a child process may take.
SECONDS, MEMORY = 600, 14 << 30
#: The smallest size of an output that counts: scores below it may be noise.
SMALLEST = 1e-4


def references(name: str) -> list[str]:
    """Run two implementations, and return which; their outputs lie beside the file afterwards."""
    if name.endswith("jit"):
        return ["pytorch"] if can_run("pytorch", name) else []
    found = [] if FILES[name].package else ["sklearn"]  # it has spoken when it wrote the file
    for way in ("onnxruntime", "evaluator", "openvino"):
        if len(found) < 2 and can_run(way, name):
            found.append(way)
    return found


def can_run(way: str, name: str) -> bool:
    """Run a file with an implementation, and return whether it can."""
    try:
        call(f"{__name__}:run", way, name, timeout=SECONDS, result_type=type(None))
    except IsolationError:
        return False
    return True


def run(way: str, name: str) -> None:
    """Write the outputs of a file for each seed, in a child process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for seed in SEEDS:
        outputs = _RUNS[way](local_path(name), draw(FILES[name].inputs, seed))
        arrays = {key: y for key, y in outputs.items() if isinstance(y, np.ndarray)}
        plain = {key: y.astype(str) if y.dtype == object else y for key, y in arrays.items()}
        np.savez(_place(name, way, seed), **plain)


def known(name: str, way: str) -> list[dict[str, Any]]:
    """Return what an implementation returned, for each seed."""
    return [dict(np.load(_place(name, way, seed))) for seed in SEEDS]


def distance(name: str, found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> float:
    """Return the largest difference of any output for any seed, in its standard deviations.

    Of a file in 8 bits it is the root of the mean square, and of texts, integers and places of NaN
    the share of other elements.
    """
    keys = [key for key in wanted[0] if key in found[0]]
    worst = float("inf") if not keys else 0.0
    for key in keys:
        if any(np.size(x[key]) != np.size(y[key]) for x, y in zip(found, wanted, strict=True)):
            return float("inf")
        x, y = (np.concatenate([np.ravel(each[key]) for each in of]) for of in (found, wanted))
        if y.dtype.kind != "f":
            worst = max(worst, float(np.mean(x.astype(y.dtype) != y)))
            continue
        x, y = x.astype(np.float64), y.astype(np.float64)
        both = np.isfinite(x) & np.isfinite(y)
        worst = max(worst, float(np.mean(np.isfinite(x) != np.isfinite(y))))
        if both.any():
            error, y = np.abs(x - y)[both], y[both]
            size = np.sqrt((error**2).mean()) if FILES[name].eight_bits else error.max()
            # An output of one element hardly varies.
            worst = max(worst, float(size / max(y.std(), np.abs(y).mean() / 10, SMALLEST)))
    return float(f"{worst:.1e}")


def _place(name: str, way: str, seed: int) -> Path:
    return local_path(name).with_name(f"{way}-{seed}.npz")


def _onnxruntime(path: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def _evaluator(path: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    evaluator = make_evaluator(str(path))
    with np.errstate(all="ignore"):
        return dict(zip(evaluator.output_names, evaluator.run(None, inputs), strict=True))


def _openvino(path: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    import openvino

    model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return {key.any_name: np.array(y) for key, y in model(inputs).items()}


def _pytorch(path: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    import torch

    with torch.no_grad():
        outputs = torch.jit.load(path).eval()(*map(torch.as_tensor, inputs.values()))
    return {"output": outputs.numpy()}


_RUNS = {
    "onnxruntime": _onnxruntime,
    "evaluator": _evaluator,
    "openvino": _openvino,
    "pytorch": _pytorch,
}
