"""The source module of each node of an ONNX file, as torch's exporters write it down."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from enginebay.ir.summary import KEY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import onnx

#: The metadata of a node in which the default exporter lists its scopes, outermost first.
_SCOPES = "pkg.torch.onnx.name_scopes"


def source_modules(path: str | Path, *, with_outputs: bool = False) -> dict[str, str]:
    """The path of the module that each node of an ONNX file comes from.

    Args:
        path: The file. Its weights are not read.
        with_outputs: Also by the names of the model's outputs, for engines that call the nodes
            behind them so.

    Returns:
        By the node's name, the path as ``named_modules()`` gives it: ``body.0``; empty for the
        model itself. The TorchScript exporter numbers the further calls of a module: ``act_1``.
        Nodes of which the file does not say it are left out; a file from elsewhere than torch's
        exporters gives none.
    """
    import onnx

    proto = onnx.load(path, load_external_data=False)
    is_wrapped = any(entry.key == KEY for entry in proto.metadata_props)
    found = {}
    for node in proto.graph.node:
        scopes = _scopes(node)
        if scopes is not None and node.name:
            module = _module_path(scopes)
            # What Enginebay exports is wrapped in a module of its own, which holds the model.
            found[node.name] = module.partition(".")[2] if is_wrapped else module
    if with_outputs:
        outputs = {output.name for output in proto.graph.output}
        for node in proto.graph.node:
            for tensor in outputs.intersection(node.output):
                if node.name in found:
                    found.setdefault(tensor, found[node.name])
    return found


def _scopes(node: onnx.NodeProto) -> Sequence[str] | None:
    """The scopes of a node, outermost first; None where it has none."""
    listed = next((entry.value for entry in node.metadata_props if entry.key == _SCOPES), None)
    if listed is not None:
        return _listed_scopes(listed)
    if node.name.startswith("/"):  # the TorchScript exporter's names: /body/body.0/Conv
        parts: list[str] = node.name.split("/")
        return parts[1:-1]
    return None


def _listed_scopes(text: str) -> list[str] | None:
    """The default exporter's: ``['', 'model', 'model.body', 'conv2d']``, with the node at the end.

    Each is a whole path, so the last one before the node says everything.
    """
    try:
        scopes: Any = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        return None
    return scopes[-2].split(".") if len(scopes) > 1 and scopes[-2] else []


def _module_path(scopes: Sequence[str]) -> str:
    """Join scopes to a path.

    A module in an ``nn.Sequential`` that was called has the container's name in its own scope
    again: ``body``, ``body.0``.
    """
    parts: list[str] = []
    for scope in scopes:
        if parts and scope.startswith(f"{parts[-1]}."):
            parts.pop()
        parts.append(scope)
    return ".".join(parts)
