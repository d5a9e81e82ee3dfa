"""Which nodes of a model TensorRT's parser refuses; nothing is built."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import ConversionError
from enginebay_tensorrt.builder import parser_errors
from enginebay_tensorrt.plugin_libraries import load_plugins

if TYPE_CHECKING:
    from enginebay.hooks import ConvertRequest
    from enginebay_tensorrt.params import TensorrtParams


def unsupported_operators(request: ConvertRequest[TensorrtParams]) -> dict[str, str]:
    """Return the nodes that the parser has errors about.

    Raises:
        ConversionError: It cannot read the file at all.
    """
    load_plugins(map(Path, request.params.plugins))
    found: dict[str, str] = {}
    for error in parser_errors(request.ir.path, request.params):
        text = " ".join(error.desc().split())
        if not error.node_name():
            raise ConversionError(f"TensorRT cannot parse '{request.ir.path.name}': {text}")
        found.setdefault(error.node_name(), text)
    return found
