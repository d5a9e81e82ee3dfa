"""Copy tensors that one operator reads twice: pnnx counts the readers of such tensors wrongly."""

from __future__ import annotations

from typing import Any

import torch


def copy_repeated_inputs(graph: Any) -> None:
    """Change a TorchScript graph in place: copy each tensor that one operator reads twice."""
    for node in [*graph.nodes()]:
        # For a list that two operators read, pnnx writes a layer that ncnn does not have.
        if node.kind() == "prim::ListConstruct":
            for use in [*node.output().uses()][1:]:
                clone = graph.createClone(node, lambda value: value)
                clone.insertBefore(node)
                clone.replaceInput(0, _insert_copy(graph, node.inputsAt(0), clone))
                use.user.replaceInput(use.offset, clone.output())
    # If one operator reads a tensor twice, and others read it too, pnnx counts the readers wrongly
    # and writes outside of its memory.
    for node in [*graph.nodes()]:
        names = set()
        for index, value in enumerate([*node.inputs()]):
            if value.debugName() in names and isinstance(value.type(), torch.TensorType):
                node.replaceInput(index, _insert_copy(graph, value, node))
            names.add(value.debugName())


def _insert_copy(graph: Any, value: torch.Value, before: torch.Node) -> torch.Value:
    # Two negations: neither torch nor pnnx removes them, and they preserve NaN and -0.
    for _ in range(2):
        node = graph.create("aten::neg", [value])
        node.insertBefore(before)
        value = node.output()
    return value
