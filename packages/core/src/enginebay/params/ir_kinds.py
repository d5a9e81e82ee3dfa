"""The kinds of intermediate representation (IR) that a model can be exported to."""

from __future__ import annotations

from typing import Literal

IRKind = Literal["onnx", "torchscript", "exported_program"]
