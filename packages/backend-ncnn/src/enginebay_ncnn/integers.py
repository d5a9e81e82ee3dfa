"""Find a model's integers that float32 cannot represent; ncnn computes in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import torch
    from torch import Tensor

    from enginebay.authors.arrays import NumpyArray

#: Operators whose integer constants are values; other operators take sizes, axes and slice bounds.
_TORCHSCRIPT_OPERATORS = frozenset(
    f"aten::{name}"
    for name in ("add", "sub", "rsub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "where")
)
_ONNX_OPERATORS = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Where", "Gather", "GatherElements"),
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    )
)


def refuse_large_integers(integers: Iterable[int]) -> None:
    """Raise an error if one of ``integers``, constants of a model, is not exact in float32.

    Raises:
        ConversionError: An integer is not exact in float32.
    """
    for value in integers:
        if int(np.float32(value)) != value:
            raise ConversionError(
                f"the model contains the integer {value}; ncnn computes in float32, which is exact "
                "only for integers up to 16777216",
                hint=f"if the model computes with floats, write {value}.0",
            )


def find_torchscript_integers(graph: Any, examples: Sequence[Tensor]) -> Iterator[int]:
    """Yield a TorchScript graph's integer constants that may be too large for float32.

    Args:
        graph: A TorchScript graph.
        examples: Example inputs. If all example inputs are floats, the Python integers of the
            graph are not yielded, since torch itself converts them to float32.
    """
    import torch

    has_integers = any(not tensor.is_floating_point() for tensor in examples)
    for node in graph.findAllNodes("prim::Constant", recurse=True):
        value = node.output().toIValue()
        if isinstance(value, torch.Tensor) and value.dtype in (torch.int32, torch.int64):
            yield from _find_large(value.numpy())
        elif type(value) is int and has_integers and _is_computed_with(node):
            yield value


def _is_computed_with(node: torch.Node) -> bool:
    return any(use.user.kind() in _TORCHSCRIPT_OPERATORS for use in node.output().uses())


def find_onnx_integers(path: Path) -> Iterator[int]:
    """Yield an ONNX file's integer constants that are too large for float32."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    used = {name for node in graph.node if node.op_type in _ONNX_OPERATORS for name in node.input}
    for name in used & constants.keys():
        tensor = constants[name]
        if tensor.data_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
            yield from _find_large(onnx.numpy_helper.to_array(tensor, base_dir=str(path.parent)))


def _find_large(array: NumpyArray) -> list[int]:
    limits = np.iinfo(array.dtype)  # models use them as infinity
    is_large = (array > 2**24) | (array < -(2**24))
    integers: list[int] = array[is_large & (array != limits.max) & (array != limits.min)].tolist()
    return integers
