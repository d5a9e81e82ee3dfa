"""Measures the time of each layer by the performance counters of OpenVINO."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import UsageError
from enginebay.hooks import TimedLayer
from enginebay_openvino.wrapper import OpenvinoWrapper

if TYPE_CHECKING:
    from collections.abc import Mapping

    import openvino as ov

    from enginebay.hooks import LayersRequest
    from enginebay_openvino.params import OpenvinoParams


def time_layers(request: LayersRequest[OpenvinoParams]) -> list[TimedLayer]:
    """Return the median time of each layer over several runs.

    Raises:
        ConversionError: OpenVINO cannot compile the network.
        UsageError: The device has no performance counters.
    """
    params = request.load.params
    with_counters = params.replace(properties={**params.properties, "PERF_COUNT": "YES"})
    runs = []
    with OpenvinoWrapper.from_request(
        msgspec.structs.replace(request.load, params=with_counters)
    ) as wrapper:
        nodes = _original_nodes(wrapper.compiled)
        for _ in range(request.runs + 1):  # the first run is a warm-up
            wrapper(request.inputs)
            runs.append(_read_counters(wrapper.last_request()))
        device = wrapper.receipt.device
    names = {name: operator for run in runs[1:] for name, (operator, _) in run.items()}
    if not names:
        raise UsageError(f"OpenVINO cannot time layers on device '{device}'")
    return [
        TimedLayer(
            name=name,
            operator=operator,
            seconds=statistics.median(run[name][1] if name in run else 0.0 for run in runs[1:]),
            nodes=nodes.get(name, ()),
        )
        for name, operator in names.items()
    ]


def _read_counters(request: ov.InferRequest) -> dict[str, tuple[str, float]]:
    """Return operator and seconds by layer name, without layers that are fused into others."""
    import openvino as ov

    executed = ov.ProfilingInfo.Status.EXECUTED
    counters: dict[str, tuple[str, float]] = {}
    for info in request.get_profiling_info():
        if info.status == executed:
            total = counters.get(info.node_name, ("", 0.0))[1]
            seconds = info.real_time.total_seconds()
            counters[info.node_name] = (info.node_type, total + seconds)
    return counters


def _original_nodes(compiled: ov.CompiledModel) -> Mapping[str, tuple[str, ...]]:
    """Return, for each layer's name, the names of the network's nodes that the layer computes."""
    nodes = {}
    for node in compiled.get_runtime_model().get_ops():
        info = node.get_rt_info()
        if "originalLayersNames" in info:
            names = info["originalLayersNames"].value.split(",")
            # OpenVINO splits the bias from a convolution, and adds this suffix to the rest.
            originals = dict.fromkeys(name.removesuffix("/WithoutBiases") for name in names if name)
            nodes[node.get_friendly_name()] = tuple(originals)
    return nodes
