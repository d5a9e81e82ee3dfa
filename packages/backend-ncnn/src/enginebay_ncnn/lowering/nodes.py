"""Evaluation of one node of a TorchScript graph."""

from __future__ import annotations

import operator
from typing import Any

import torch

from enginebay_ncnn.lowering.registry import UnsupportedError
from enginebay_ncnn.lowering.torch_internals import parse_schema


def evaluate(node: Any, arguments: list[Any]) -> list[Any]:
    """Compute the outputs of a node."""
    kind = node.kind()
    if kind == "prim::Constant":
        output = node.output()
        value = None if output.type().kind() == "NoneType" else output.toIValue()
        if isinstance(value, torch.Tensor) and value.dtype is torch.float64 and value.ndim == 0:
            # A number of the model's: as a tensor it would make float64 of what it meets.
            return [value.item()]
        return [value]
    if kind in ("prim::ListConstruct", "prim::TupleConstruct"):
        return [list(arguments) if kind == "prim::ListConstruct" else tuple(arguments)]
    if kind == "prim::DictConstruct":
        return [dict(zip(arguments[::2], arguments[1::2], strict=True))]
    if kind in ("prim::ListUnpack", "prim::TupleUnpack"):
        return list(arguments[0])
    if kind == "prim::NumToTensor":
        return [torch.tensor(arguments[0])]
    if kind == "prim::GetAttr":
        return [getattr(arguments[0], node.s("name"))]
    if kind in (
        "aten::Int",
        "aten::Float",
        "aten::Bool",
        "aten::ScalarImplicit",
        "aten::IntImplicit",
        "aten::FloatImplicit",
    ):
        value = arguments[0].item() if isinstance(arguments[0], torch.Tensor) else arguments[0]
        return [
            {"aten::Float": float, "aten::Bool": bool, "aten::Int": int}.get(kind, lambda v: v)(
                value
            )
        ]
    if kind == "prim::dtype":
        return [arguments[0].dtype]
    if kind == "prim::device":
        return [arguments[0].device]
    if kind == "aten::size":
        shape = list(arguments[0].shape)
        return [shape[arguments[1]] if len(arguments) > 1 else shape]
    if kind == "aten::__getitem__":
        return [operator.getitem(*arguments)]
    if kind in ("prim::max", "prim::min"):
        return [max(*arguments) if kind == "prim::max" else min(*arguments)]
    if kind == "aten::len":
        return [len(arguments[0])]
    if not kind.startswith("aten::"):
        raise UnsupportedError(f"the operator {kind}")
    schema = parse_schema(node)
    positional, keywords = split(schema, arguments)
    operators = getattr(torch.ops.aten, kind.removeprefix("aten::"))
    # By its overload: torch's own choice makes float64 of a choice between two numbers.
    result = getattr(operators, schema.overload_name or "default")(*positional, **keywords)
    count = len(list(node.outputs()))
    return list(result) if count > 1 else [result]


def split(schema: Any, arguments: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by position, and those that go by name only."""
    positional, keywords = [], {}
    for declared, value in zip(schema.arguments, arguments, strict=True):
        if declared.kwarg_only:
            keywords[declared.name] = value
        else:
            positional.append(value)
    return positional, keywords
