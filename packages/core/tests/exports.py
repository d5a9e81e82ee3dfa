"""Exporting without an engine's rewriters, for the tests of several packages."""

from __future__ import annotations

from typing import Any

from enginebay.exporters import write_ir
from enginebay.ir import IRModel
from enginebay.models import bind
from enginebay.sources import find_model


def export(
    model: Any,
    args: Any = None,
    *,
    ir: Any = "onnx",
    path: Any,
    exporter: Any = None,
    opset: int | None = None,
    patch: Any = None,
    **names: Any,
) -> IRModel:
    """Bind the model's inputs and write the IR."""
    source = find_model(model.path if isinstance(model, IRModel) else model)
    bound = bind(source, args, **names)
    return write_ir(bound, ir, path, exporter=exporter, opset=opset, patch=patch)
