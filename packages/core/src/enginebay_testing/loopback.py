"""A minimal backend that runs ONNX files with onnx's reference evaluator.

It needs no engine, so core's tests deploy with it. It is also a short example for authors of
backends, with nothing but the hooks.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay.environment import Tier, check_import

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import CheckEnvRequest, ConvertRequest, WrapperRequest


class LoopbackParams(eb.BackendParams):
    """Parameters of the loopback backend.

    Args:
        gain (float): Factor of every floating-point output; a value other than 1 simulates a
            broken engine.
    """

    file_name: eb.FileName = eb.FileName("model", suffix=".onnx")
    gain: float = 1.0

    @property
    def run_time_fields(self) -> tuple[str, ...]:
        """The gain, which only the wrapper reads."""
        return ("gain",)


@eb.hookimpl
def backend_info() -> eb.BackendInfo:
    """Return the backend's name and capabilities."""
    return eb.BackendInfo(
        name="loopback",
        irs=("onnx",),
        params=LoopbackParams,
        api_version=1,
        dtypes=("float16", "float32", "float64", "int32", "int64", "bool"),
        runtime_distributions=("onnx>=1.21",),
    )


@eb.hookimpl
def check_env(request: CheckEnvRequest[LoopbackParams]) -> eb.EnvReport:
    """Report whether onnx's evaluator can be imported; core checks the other stages."""
    if request.tier is Tier.IMPORT:
        return check_import("onnx.reference", fix="pip install 'onnx>=1.21'")
    return eb.EnvReport()


@eb.hookimpl
def to_backend(request: ConvertRequest[LoopbackParams]) -> list[Path]:
    """Copy the model's files and return the copies; files of external data keep their names."""
    paths = []
    for file in request.ir.files:
        is_main = file == request.ir.path
        target = request.work_dir / (request.params.file_name if is_main else file.name)
        shutil.copyfile(file, target)
        paths.append(target)
    return paths


@eb.hookimpl
def unsupported_operators(request: ConvertRequest[LoopbackParams]) -> dict[str, str]:
    """Return the nodes outside ONNX's domain: the evaluator does not support these nodes."""
    import onnx

    model = onnx.load(request.ir.path, load_external_data=False)
    defined = {(function.domain, function.name) for function in model.functions}
    return {
        node.name: f"the evaluator has no domain {node.domain}"
        for node in model.graph.node
        if node.domain and (node.domain, node.op_type) not in defined
    }


@eb.hookimpl
def build_wrapper(request: WrapperRequest[LoopbackParams]) -> eb.Wrapper:
    """Return a wrapper that runs the model in onnx's reference evaluator."""
    return LoopbackWrapper(request)


class LoopbackWrapper(eb.Wrapper):
    """Runs a model in onnx's reference evaluator, one call at a time."""

    def __init__(self, request: WrapperRequest[LoopbackParams]) -> None:
        from onnx.reference import ReferenceEvaluator

        from enginebay.authors.files import read_onnx

        path = request.directory / request.files[0]
        model = read_onnx(path)
        super().__init__(
            inputs=request.inputs or model.inputs, outputs=request.outputs or model.outputs
        )
        self._evaluator: Any = ReferenceEvaluator(str(path))
        self._gain = request.params.gain

    @property
    def receipt(self) -> eb.Receipt:
        """The receipt: the evaluator with its version, on the CPU."""
        import onnx

        return eb.Receipt(engine=f"onnx.reference {onnx.__version__}", device="cpu")

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Evaluate the graph node by node; return its outputs, floats multiplied by ``gain``."""
        import numpy as np

        # np.array copies: the evaluator may return an input itself.
        outputs = [np.array(value) for value in self._evaluator.run(None, feed)]
        # A factor of the output's dtype: NumPy 1 computes a scalar times a Python float in float64.
        return [y * y.dtype.type(self._gain) if y.dtype.kind == "f" else y for y in outputs]

    def release(self) -> None:
        """Release the model's memory."""
        self._evaluator = None
