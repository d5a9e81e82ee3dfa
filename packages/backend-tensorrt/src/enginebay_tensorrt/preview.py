"""Which nodes of a model TensorRT's parser refuses; nothing is built."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import ConversionError
from enginebay_tensorrt.library import library_of
from enginebay_tensorrt.parser import parser_errors
from enginebay_tensorrt.plugin_libraries import load_plugins

if TYPE_CHECKING:
    from enginebay.hooks import ConvertRequest
    from enginebay_tensorrt.params import Params


def unsupported_operators(request: ConvertRequest[Params]) -> dict[str, str]:
    """Return the nodes that the parser has errors about.

    Raises:
        ConversionError: It cannot read the file at all.
    """
    library = library_of(request.params)
    load_plugins(library, map(Path, request.params.plugins))
    found: dict[str, str] = {}
    for node, text in parser_errors(request.ir.path, request.params):
        if not node:
            raise ConversionError(
                f"{library.product.title} cannot parse '{request.ir.path.name}': {text}"
            )
        found.setdefault(node, text)
    return found
