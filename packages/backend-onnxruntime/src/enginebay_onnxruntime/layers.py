"""The time of each node of a session's graph, by ONNX Runtime's own profile.

The session also writes down the graph that it has made of the model, in which nodes are fused. What
a fused node computes is between its own inputs and outputs in the model as it was.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay.errors import ConversionError
from enginebay.hooks import TimedLayer
from enginebay_onnxruntime.session import import_onnxruntime, load_session, session_options
from enginebay_onnxruntime.wrapper import wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from enginebay.hooks import LayersRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

_SUFFIX = "_kernel_time"
#: Behind the name of the tensor that a node in blocked layout computes (nchwc_transformer.cc).
_BLOCKED = "_nchwc"


#: Operators whose time has that of the nodes inside them.
_CONTROL = ("Loop", "If", "Scan")


class _Node(NamedTuple):
    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def time_layers(request: LayersRequest[OnnxruntimeParams]) -> list[TimedLayer]:
    """Run the model under ONNX Runtime's profiler.

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
            profile = _profile(request, model, folder, optimized)
        except ConversionError:  # of a part that a provider compiled no graph can be written
            profile = _profile(request, model, folder, None)
        computed = _computed(_nodes(model), _nodes(optimized))
    runs = _runs(json.loads(profile))[1:]
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


def _profile(
    request: LayersRequest[OnnxruntimeParams], model: Path, folder: Path, optimized: Path | None
) -> bytes:
    """Run a session of its own, and return what its profiler wrote."""
    options = session_options(request.load)
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
        for key, value in (
            ("external_initializers_file_name", "weights.bin"),  # above 2 GB there is no other way
            ("external_initializers_min_size_in_bytes", "1024"),
        ):
            options.add_session_config_entry(f"session.optimized_model_{key}", value)
    session = load_session(model, request.load, options)
    with wrap(session, request.load) as wrapper:
        for _ in range(request.runs + 1):
            wrapper(request.inputs)
        return Path(session.end_profiling()).read_bytes()


def _runs(events: Sequence[Mapping[str, Any]]) -> list[dict[str, tuple[str, float]]]:
    """The operator and the seconds of each node, run by run, in the order of the first run."""
    starts = sorted(event["ts"] for event in events if event["name"] == "model_run")
    runs: list[dict[str, tuple[str, float]]] = [{} for _ in starts]
    kernels = [event for event in events if event["name"].endswith(_SUFFIX)]
    around = [event for event in kernels if event["args"]["op_name"] in _CONTROL]
    for event in sorted(kernels, key=lambda event: event["ts"]):
        if any(
            one["ts"] <= event["ts"] < one["ts"] + one["dur"] for one in around if one is not event
        ):
            continue  # its time is in the loop's own
        number = sum(start <= event["ts"] for start in starts) - 1
        name = event["name"].removesuffix(_SUFFIX)
        before = runs[number].get(name, ("", 0.0))[1]
        runs[number][name] = (event["args"]["op_name"], before + event["dur"] * 1e-6)
    return runs


def _nodes(path: Path) -> list[_Node]:
    """The nodes of a file, in order; none where there is no file, or no onnx to read it."""
    try:
        import onnx
    except ImportError:
        return []
    if not path.is_file():
        return []
    graph = onnx.load(path, load_external_data=False).graph
    return [_Node(n.name, n.op_type, tuple(n.input), tuple(n.output)) for n in graph.node]


def _computed(model: Sequence[_Node], optimized: Sequence[_Node]) -> dict[str, tuple[str, ...]]:
    """The nodes of the model that each node of the optimised graph computes."""
    makers = {tensor: node for node in model for tensor in node.outputs}
    tensors = makers.keys() | {tensor for node in model for tensor in node.inputs}
    places = {node.name: place for place, node in enumerate(model)}
    same: dict[str, str] = {}  # tensors in blocked layout, by the tensors that they stand for
    taken: set[str] = set()
    found: dict[str, tuple[str, ...]] = {}
    for node in optimized:
        base = node.name.removesuffix(_BLOCKED)
        if base in makers and node.outputs[0] not in tensors:
            same[node.outputs[0]] = base
        ends = {same.get(tensor, tensor) for tensor in node.inputs} & tensors
        wanted = [same.get(tensor, tensor) for tensor in node.outputs]
        names = {each.name for each in _between(makers, ends, wanted) if each.name} - taken
        taken |= names
        found[node.name] = tuple(sorted(names, key=places.__getitem__))
    return found


def _between(makers: Mapping[str, _Node], ends: set[str], wanted: Sequence[str]) -> Iterator[_Node]:
    """Walk back from tensors to others, and yield the nodes on the way."""
    left, seen = [tensor for tensor in wanted if tensor not in ends], set(ends)
    while left:
        tensor = left.pop()
        if tensor in seen or tensor not in makers:
            continue
        node = makers[tensor]
        seen.update(node.outputs)
        left += node.inputs
        if node.operator != "Constant":
            yield node
