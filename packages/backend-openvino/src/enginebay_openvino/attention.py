"""Finds attention that OpenVINO's CPU plugin would compute wrongly.

OpenVINO 2026.4 makes one kernel ("Subgraph") of an attention, and takes the transpositions around
it in. The kernel may write where it reads the query, if query and output have one shape. With as
many heads as tokens they have, though one is laid out by head and the other by token, and the
result is wrong without a word: 4 frames and 4 heads are enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov

#: The property, and the value that leaves such kernels out. Its other layers stay as they are.
SEPARATE_KERNELS = {"SNIPPETS_MODE": "DISABLE"}


def may_overwrite_its_query(compiled: ov.CompiledModel) -> bool:
    """Whether a kernel could be an attention whose output takes the place of its query.

    An element-wise kernel of the same shapes counts too: nothing tells the two apart, and it is as
    right by itself. Sizes that are open when the model is compiled are never written in place.
    """
    return any(
        _layer(node) == "Subgraph" and _in_place(node)
        for node in compiled.get_runtime_model().get_ops()
    )


def _layer(node: ov.Node) -> str:
    info = node.get_rt_info()
    return str(info["layerType"].value) if "layerType" in info else ""


def _in_place(node: ov.Node) -> bool:
    """It takes query, key and value, and heads and tokens are as many."""
    output = node.get_output_partial_shape(0)
    if node.get_input_size() < 3 or output.is_dynamic or len(output) < 4:
        return False
    return bool(node.get_input_partial_shape(0) == output and output[-2] == output[-3])
