"""ONNX's translations of torch's operators, which torch parses anew for each export.

That is two thirds of the export of a small network. In the processes of tests they are parsed once,
and each export gets a copy of the table to add its own to.
"""

from __future__ import annotations

import copy
import sys
from functools import cache
from typing import Any

_EXPORTER = "torch.onnx._internal.exporter._registration"


def parse_once(*, now: bool = False) -> None:
    """Let exports share what is parsed, in a process that has imported the exporter.

    Args:
        now: Parse for the operator set that exports have by default, before there is one.
    """
    exporter = sys.modules.get(_EXPORTER)
    if exporter is None or hasattr(exporter.ONNXRegistry.from_torchlib, "parsed_once"):
        return
    original = cache(exporter.ONNXRegistry.from_torchlib)
    newest = exporter.ONNXRegistry().opset_version

    def from_torchlib(_cls: type, opset_version: int = newest) -> Any:
        table = copy.copy(original(opset_version))
        table.functions = {name: list(each) for name, each in table.functions.items()}
        return table

    from_torchlib.parsed_once = True  # type: ignore[attr-defined]
    exporter.ONNXRegistry.from_torchlib = classmethod(from_torchlib)
    if now:
        from torch.onnx import _constants

        original(_constants.ONNX_DEFAULT_OPSET)
