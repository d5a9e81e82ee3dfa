"""Time each layer of an engine with TensorRT's profiler."""

from __future__ import annotations

import re
import statistics
from typing import TYPE_CHECKING

import msgspec

from enginebay.hooks import TimedLayer
from enginebay_tensorrt.library import get_library
from enginebay_tensorrt.wrapper import TensorrtWrapper

if TYPE_CHECKING:
    from enginebay.hooks import LayersRequest
    from enginebay_tensorrt.params import Params

#: TensorRT's names for fused nodes: ``a + b``, ``PWN(a, b)`` and ``{ForeignNode[a...b]}``.
_SEPARATORS = re.compile(r" \+ |, |\.\.\.")
_BRACKETS = re.compile(r"^(?:PWN\(|\{ForeignNode\[)|\)$|\]\}$")
#: The first words in the names of layers that TensorRT adds to change a tensor's layout or type.
_ADDED = ("Reformatting CopyNode", "__mye", "[trainStation")


class Profiler:
    """Collects the times of the layers in one run.

    Attributes:
        seconds: The times by layer name, in seconds and in the order in which the layers ran.
    """

    interface = "IProfiler"

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Add a layer's time; TensorRT calls this for each layer when a run has finished."""
        self.seconds[layer_name] = self.seconds.get(layer_name, 0.0) + ms * 1e-3


def time_layers(request: LayersRequest[Params]) -> list[TimedLayer]:
    """Return the time of each layer.

    The engine runs without a CUDA graph, since TensorRT cannot time the layers of a CUDA graph.

    Raises:
        ConversionError: TensorRT cannot load the engine.
        InputError: The engine has no optimisation profile for the inputs' shapes.
    """
    params = request.load.params.replace(cuda_graph=False)
    runs = []
    with TensorrtWrapper.from_request(
        msgspec.structs.replace(request.load, params=params)
    ) as wrapper:
        profiler = get_library(params).derive(Profiler)()
        wrapper.watch(profiler)
        for _ in range(request.runs + 1):
            profiler.seconds = {}
            wrapper(request.inputs)
            runs.append(profiler.seconds)
    # The first run is a warm-up.
    names = dict.fromkeys(name for run in runs[1:] for name in run)
    return [
        TimedLayer(
            name=name,
            seconds=statistics.median(run.get(name, 0.0) for run in runs[1:]),
            nodes=parse_fused_nodes(name),
        )
        for name in names
    ]


def parse_fused_nodes(layer: str) -> tuple[str, ...]:
    """Return the names of the ONNX nodes that a layer's name contains.

    Example:
        >>> parse_fused_nodes("node_conv2d + node_relu")
        ('node_conv2d', 'node_relu')
        >>> parse_fused_nodes("PWN(PWN(node_sigmoid), node_mul)")
        ('node_sigmoid', 'node_mul')
        >>> parse_fused_nodes("{ForeignNode[node_matmul...node_add]}")
        ('node_matmul', 'node_add')
        >>> parse_fused_nodes("Reformatting CopyNode for Input Tensor 0 to node_conv2d")
        ()
    """
    if layer.startswith(_ADDED):
        return ()
    nodes = []
    for piece in _SEPARATORS.split(layer):
        name, previous = piece, ""
        while name != previous:  # brackets may be nested
            previous, name = name, _BRACKETS.sub("", name)
        nodes.append(name)
    return tuple(dict.fromkeys(name for name in nodes if name))
