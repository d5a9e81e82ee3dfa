"""Time each layer of a network by extracting the layers' outputs one after the other.

ncnn's wheel has no profiler. But an extractor caches all computed blobs, so that extracting the
next layer's output runs only that layer. A second extraction of the same blob computes nothing: its
time is the cost of an extraction, which is subtracted.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from enginebay.errors import UsageError
from enginebay.hooks import TimedLayer
from enginebay_ncnn.wrapper import NcnnWrapper

if TYPE_CHECKING:
    import ncnn

    from enginebay.hooks import LayersRequest
    from enginebay_ncnn.params import NcnnParams


def time_layers(request: LayersRequest[NcnnParams]) -> list[TimedLayer]:
    """Return the time of each layer.

    If the network runs once for each item of the batch, only the first item is timed, and the times
    are multiplied by the number of items.

    Raises:
        UsageError: The network runs on Vulkan, where extracting a blob waits for the GPU.
        InferenceError: A layer failed.
    """
    with NcnnWrapper.from_request(request.load) as wrapper:
        if wrapper.receipt.provider != "CPU":
            raise UsageError("ncnn cannot time layers on Vulkan")
        session, (feed, pieces) = wrapper.session, wrapper.first_piece(dict(request.inputs))
        layers = [layer for layer in session.net.layers() if layer.tops]
        # The first run is a warm-up.
        runs = [_time_run(session.extractor(feed), layers) for _ in range(request.runs + 1)][1:]
        return [
            TimedLayer(
                name=layer.name,
                operator=layer.type,
                # The difference of two measured times may be negative for a very fast layer.
                seconds=max(0.0, pieces * statistics.median(run[index] for run in runs)),
            )
            for index, layer in enumerate(layers)
            if layer.type != "Input"
        ]


def _time_run(extractor: ncnn.Extractor, layers: list[ncnn.Layer]) -> list[float]:
    extractor.set_light_mode(False)  # light mode frees blobs that later layers need
    seconds = []
    for layer in layers:
        blob = layer.tops[0]
        start = time.perf_counter()
        extractor.extract(blob)
        computed = time.perf_counter()
        extractor.extract(blob)
        seconds.append(2 * computed - start - time.perf_counter())
    return seconds
