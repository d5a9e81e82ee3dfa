"""Finds attention that OpenVINO's CPU plugin would compute wrongly.

OpenVINO 2026.4 fuses an attention and the transpositions around it into one kernel ("Subgraph").
If query and output have the same shape, the kernel may write the output over the query. With as
many heads as tokens the shapes are the same, but one is laid out by head and the other by token,
and the result is silently wrong: 4 frames and 4 heads are enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov

#: The property that turns off such kernels; no other layer changes.
SEPARATE_KERNELS = {"SNIPPETS_MODE": "DISABLE"}


def may_overwrite_its_query(compiled: ov.CompiledModel) -> bool:
    """Return True if a kernel could be an attention that writes its output over its query.

    An element-wise kernel of the same shapes counts too: the two cannot be told apart, and it
    gives the same numbers without fusion. Dynamic shapes are never written in place.
    """
    return any(
        _layer(node) == "Subgraph" and _in_place(node)
        for node in compiled.get_runtime_model().get_ops()
    )


def _layer(node: ov.Node) -> str:
    info = node.get_rt_info()
    return str(info["layerType"].value) if "layerType" in info else ""


def _in_place(node: ov.Node) -> bool:
    """Return True for a kernel of query, key and value with as many heads as tokens."""
    output = node.get_output_partial_shape(0)
    if node.get_input_size() < 3 or output.is_dynamic or len(output) < 4:
        return False
    return bool(node.get_input_partial_shape(0) == output and output[-2] == output[-3])
