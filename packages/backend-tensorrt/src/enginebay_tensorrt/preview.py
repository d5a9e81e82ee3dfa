"""Find a model's nodes that TensorRT's parser rejects, without building an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import ConversionError
from enginebay_tensorrt.library import get_library
from enginebay_tensorrt.parser import list_parser_errors
from enginebay_tensorrt.plugin_libraries import load_plugins

if TYPE_CHECKING:
    from enginebay.hooks import ConvertRequest
    from enginebay_tensorrt.params import Params


def unsupported_operators(request: ConvertRequest[Params]) -> dict[str, str]:
    """Return the parser's error for each node that the parser rejects, by node name.

    Raises:
        ConversionError: The parser rejects the file with an error that names no node.
    """
    library = get_library(request.params)
    load_plugins(library, map(Path, request.params.plugins))
    errors: dict[str, str] = {}
    for node, text in list_parser_errors(request.ir.path, request.params):
        if not node:  # the error is about the whole file
            raise ConversionError(
                f"{library.product.title} cannot parse '{request.ir.path.name}': {text}"
            )
        errors.setdefault(node, text)
    return errors
