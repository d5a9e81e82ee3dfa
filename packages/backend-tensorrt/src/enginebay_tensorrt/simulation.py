"""Run an engine's graph on ONNX Runtime, on a machine without a GPU that can run the engine.

The results show whether the graph is correct after all rewriting, conversion and quantisation. They
do not test TensorRT's kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay.authors.files import quiet
from enginebay.environment import install_command
from enginebay.errors import ConversionError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import WrapperRequest
    from enginebay_tensorrt.params import Params

GRAPH = "model.onnx"


def link_graph(source: Path, folder: Path) -> None:
    """Create a link to an engine's graph, which :class:`GraphWrapper` runs.

    Args:
        source: The ``.onnx`` file of the graph, which must exist as long as the folder.
        folder: The folder of the link: ``ConvertRequest.simulation``.
    """
    link = folder / GRAPH
    if source != link:
        link.symlink_to(source.resolve())


class GraphWrapper(eb.Wrapper):
    """Runs an engine's graph on ONNX Runtime, operator by operator, without optimisations.

    Args:
        request: The request to load the engine that was built from the graph.
        folder: The folder with the graph, ``WrapperRequest.simulation``.

    Raises:
        MissingDependencyError: ONNX Runtime is not installed.
        ConversionError: ONNX Runtime does not support an operator in this precision, most often in
            bf16.
    """

    def __init__(self, request: WrapperRequest[Params], folder: Path) -> None:
        super().__init__(inputs=request.inputs, outputs=request.outputs)
        try:
            import onnxruntime
        except ImportError as err:
            raise MissingDependencyError(
                f"running the graph requires ONNX Runtime: {err}",
                hint=install_command("enginebay-tensorrt[rtx]"),
            ) from err
        # Resolved: ONNX Runtime looks for external weights in the folder of the link.
        graph = (folder / GRAPH).resolve()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only
        # Fusion turns Q/DQ nodes into 8-bit operators, which have no kernel in fp8.
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
        """The version of ONNX Runtime, and the precision of the graph."""
        return self._receipt

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Run the graph."""
        # ONNX Runtime rejects inputs that the graph does not have.
        known = {value.name for value in self._session.get_inputs()}
        used = {name: array for name, array in feed.items() if name in known}
        outputs: Sequence[NumpyArray] = self._session.run(list(self.output_names), used)
        return outputs

    def release(self) -> None:
        """Free the session."""
        del self._session
