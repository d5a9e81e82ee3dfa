"""The time of each layer: ncnn's wheel has no profiler, but computes what it is asked for.

An extractor keeps what it has computed, so that the next layer's output takes that layer alone. The
second extraction of a blob computes nothing: it is what taking it out costs, and is subtracted.
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
    """Run the network layer by layer; of a batch that is run in pieces, its first piece.

    Raises:
        UsageError: It runs on Vulkan, where taking a blob out waits for the GPU.
        InferenceError: A layer failed.
    """
    with NcnnWrapper.from_request(request.load) as wrapper:
        if wrapper.receipt.provider != "CPU":
            raise UsageError("ncnn does not time layers on Vulkan")
        session, (feed, pieces) = wrapper.session, wrapper.first_piece(dict(request.inputs))
        layers = [layer for layer in session.net.layers() if layer.tops]
        runs = [_run(session.extractor(feed), layers) for _ in range(request.runs + 1)][1:]
        return [
            TimedLayer(
                name=layer.name,
                operator=layer.type,
                seconds=max(0.0, pieces * statistics.median(run[place] for run in runs)),
            )
            for place, layer in enumerate(layers)
            if layer.type != "Input"
        ]


def _run(extractor: ncnn.Extractor, layers: list[ncnn.Layer]) -> list[float]:
    extractor.set_light_mode(False)  # it would drop what later layers need
    seconds = []
    for layer in layers:
        blob = layer.tops[0]
        start = time.perf_counter()
        extractor.extract(blob)
        computed = time.perf_counter()
        extractor.extract(blob)
        seconds.append(2 * computed - start - time.perf_counter())
    return seconds
