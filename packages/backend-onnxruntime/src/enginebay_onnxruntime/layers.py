"""Times each node of a session's graph with ONNX Runtime's profiler.

The session also writes its optimised graph, in which nodes are fused. A fused node
replaces the nodes of the model that lie between the fused node's inputs and outputs.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from enginebay.errors import ConversionError
from enginebay.hooks import TimedLayer
from enginebay_onnxruntime.session import import_onnxruntime, load_session, make_session_options
from enginebay_onnxruntime.wrapper import wrap_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from enginebay.hooks import LayersRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: Suffix of a node's name in the profile.
_SUFFIX = "_kernel_time"
#: Suffix of the tensors that nodes in blocked layout compute (nchwc_transformer.cc).
_BLOCKED = "_nchwc"


#: Operators whose time includes the time of the nodes in their subgraphs.
_CONTROL = ("Loop", "If", "Scan")


class _Node(NamedTuple):
    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def time_layers(request: LayersRequest[OnnxruntimeParams]) -> list[TimedLayer]:
    """Return the time of each node of the session's graph, from ONNX Runtime's profiler.

    Raises:
        MissingDependencyError: ONNX Runtime does not import.
        ConversionError: ONNX Runtime cannot load the model.
    """
    import_onnxruntime()
    load = request.load
    model = load.directory / load.files[0]
    with TemporaryDirectory(prefix="enginebay-layers-") as name:
        folder = Path(name)
        optimized = folder / "optimized.onnx"
        try:
            profile = _run_profiled(request, model, folder, optimized)
        except ConversionError:  # a graph with parts compiled by a provider cannot be written
            profile = _run_profiled(request, model, folder, None)
        computed = _match_nodes(_read_nodes(model), _read_nodes(optimized))
    runs = _parse_runs(json.loads(profile))[1:]  # without the warm-up run
    operators = {name: operator for run in runs for name, (operator, _) in run.items()}
    return [
        TimedLayer(
            name=name,
            operator=operator,
            seconds=statistics.median(run[name][1] if name in run else 0.0 for run in runs),
            nodes=computed.get(name, ()),
        )
        for name, operator in operators.items()
    ]


def _run_profiled(
    request: LayersRequest[OnnxruntimeParams], model: Path, folder: Path, optimized: Path | None
) -> bytes:
    """Run a separate session with profiling, and return the contents of the profile.

    The session also writes its optimised graph to ``optimized``, unless this is None.
    """
    # The profile has no nodes of a graph that is replayed.
    params = request.load.params.replace(cuda_graph=False)
    load = msgspec.structs.replace(request.load, params=params)
    options = make_session_options(load)
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
        for key, value in (
            ("external_initializers_file_name", "weights.bin"),  # required above 2 GB
            ("external_initializers_min_size_in_bytes", "1024"),
        ):
            options.add_session_config_entry(f"session.optimized_model_{key}", value)
    session = load_session(model, load, options)
    with wrap_session(session, load) as wrapper:
        for _ in range(request.runs + 1):
            wrapper(request.inputs)
        return Path(session.end_profiling()).read_bytes()


def _parse_runs(events: Sequence[Mapping[str, Any]]) -> list[dict[str, tuple[str, float]]]:
    """Return each run in a profile as a dict from node name to operator and seconds."""
    starts = sorted(event["ts"] for event in events if event["name"] == "model_run")
    runs: list[dict[str, tuple[str, float]]] = [{} for _ in starts]
    kernels = [event for event in events if event["name"].endswith(_SUFFIX)]
    control = [event for event in kernels if event["args"]["op_name"] in _CONTROL]
    for event in sorted(kernels, key=lambda event: event["ts"]):
        if any(
            outer["ts"] <= event["ts"] < outer["ts"] + outer["dur"]
            for outer in control
            if outer is not event
        ):
            continue  # its time is included in the outer operator's
        number = sum(start <= event["ts"] for start in starts) - 1
        name = event["name"].removesuffix(_SUFFIX)
        total = runs[number].get(name, ("", 0.0))[1]
        runs[number][name] = (event["args"]["op_name"], total + event["dur"] * 1e-6)
    return runs


def _read_nodes(path: Path) -> list[_Node]:
    """Return an ONNX file's nodes in order; no nodes if the file or the package onnx is missing."""
    try:
        import onnx
    except ImportError:
        return []
    if not path.is_file():
        return []
    graph = onnx.load(path, load_external_data=False).graph
    return [_Node(n.name, n.op_type, tuple(n.input), tuple(n.output)) for n in graph.node]


def _match_nodes(model: Sequence[_Node], optimized: Sequence[_Node]) -> dict[str, tuple[str, ...]]:
    """Return, for each optimised node's name, the names of the model's nodes that it replaces."""
    producers = {tensor: node for node in model for tensor in node.outputs}
    tensors = producers.keys() | {tensor for node in model for tensor in node.inputs}
    positions = {node.name: position for position, node in enumerate(model)}
    same: dict[str, str] = {}  # the model's tensors by the same tensors in blocked layout
    assigned: set[str] = set()
    matches: dict[str, tuple[str, ...]] = {}
    for node in optimized:
        base = node.name.removesuffix(_BLOCKED)
        if base in producers and node.outputs[0] not in tensors:
            same[node.outputs[0]] = base
        ends = {same.get(tensor, tensor) for tensor in node.inputs} & tensors
        outputs = [same.get(tensor, tensor) for tensor in node.outputs]
        names = {part.name for part in _walk_back(producers, ends, outputs) if part.name} - assigned
        assigned |= names
        matches[node.name] = tuple(sorted(names, key=positions.__getitem__))
    return matches


def _walk_back(
    producers: Mapping[str, _Node], ends: set[str], outputs: Sequence[str]
) -> Iterator[_Node]:
    """Yield the nodes that are needed to compute ``outputs`` from the tensors ``ends``."""
    queue, seen = [tensor for tensor in outputs if tensor not in ends], set(ends)
    while queue:
        tensor = queue.pop()
        if tensor in seen or tensor not in producers:
            continue
        node = producers[tensor]
        seen.update(node.outputs)
        queue += node.inputs
        if node.operator != "Constant":
            yield node
