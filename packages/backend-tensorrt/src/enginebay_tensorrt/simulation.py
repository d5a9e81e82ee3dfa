"""The graph that an engine is built from, run by ONNX Runtime where there is no GPU for the engine.

Its figures say whether the graph is right: rewritten, typed, quantised as the builder gets it. They
say nothing about TensorRT's kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay.authors import quiet
from enginebay.errors import ConversionError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from enginebay.authors import NumpyArray
    from enginebay.hooks import WrapperRequest
    from enginebay_tensorrt.params import Params

GRAPH = "model.onnx"


def keep_graph(source: Path, folder: Path) -> None:
    """Let :class:`GraphWrapper` find the graph that was built.

    Args:
        source: The ``.onnx`` file, which stays as long as the folder.
        folder: The folder of ``ConvertRequest.simulation``.
    """
    link = folder / GRAPH
    if source != link:
        link.symlink_to(source.resolve())


class GraphWrapper(eb.Wrapper):
    """Runs the graph on ONNX Runtime, operator by operator as it is written.

    Args:
        request: The request to load the engine that was built from it.
        folder: The folder of ``WrapperRequest.simulation``.

    Raises:
        MissingDependencyError: ONNX Runtime is not installed.
        ConversionError: It lacks an operator in this precision, bf16 above all.
    """

    def __init__(self, request: WrapperRequest[Params], folder: Path) -> None:
        super().__init__(inputs=request.inputs, outputs=request.outputs)
        try:
            import onnxruntime
        except ImportError as err:
            raise MissingDependencyError(
                f"the graph is run by ONNX Runtime: {err}",
                hint="pip install 'enginebay-tensorrt[rtx]'",
            ) from err
        # Behind a link ONNX Runtime would look for the weights' file in the wrong folder.
        graph = (folder / GRAPH).resolve()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Fused, Q/DQ nodes would become 8-bit operators, and those of fp8 have no kernel.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            with quiet():
                self._session: Any = onnxruntime.InferenceSession(
                    graph, options, providers=["CPUExecutionProvider"]
                )
        except Exception as err:
            reason = str(err).splitlines()[0].rpartition(" : ")[2]
            raise ConversionError(f"ONNX Runtime cannot run the graph: {reason}") from err
        self._receipt = eb.Receipt(
            engine=f"onnxruntime {onnxruntime.__version__}",
            device="cpu",
            precision=request.params.precision,
        )

    @property
    def receipt(self) -> eb.Receipt:
        """Return what runs the graph."""
        return self._receipt

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the graph."""
        known = {value.name for value in self._session.get_inputs()}
        given = {name: array for name, array in feed.items() if name in known}
        outputs: Sequence[NumpyArray] = self._session.run(list(self.output_names), given)
        return outputs

    def release(self) -> None:
        """Free the session."""
        del self._session
