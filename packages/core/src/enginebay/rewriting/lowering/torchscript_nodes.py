"""Evaluation of single TorchScript nodes by ATen operators and Python functions.

An evaluator takes a node and the values of its inputs, and returns the list of its outputs.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Node, Tensor

_NUMBER_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "aten::Int": int,
    "aten::Float": float,
    "aten::Bool": bool,
    "aten::IntImplicit": int,
    "aten::FloatImplicit": float,
    "aten::ScalarImplicit": lambda value: value,
    "aten::item": lambda value: value,
}

#: Operators on lists. Python can call them only if torch knows the type of the elements.
_LIST_OPERATORS: dict[str, Callable[..., Any]] = {
    "aten::add": operator.add,
    "aten::list": list,
    "aten::slice": lambda values, *bounds: values[slice(*bounds)],
}

#: Operators whose overload ``vec`` torch.export always decomposes.
_UPSAMPLING = ("aten::upsample_bilinear2d", "aten::upsample_bicubic2d")


def evaluate_node(node: Node, arguments: list[Any]) -> list[object]:
    """Compute a node and return its outputs; ``arguments`` are the values of its inputs.

    Raises:
        ConversionError: ATen does not have the node's operator, or a number that the node reads
            depends on the model's inputs.
    """
    import torch

    kind = node.kind()
    if kind in _NUMBER_CONVERSIONS:
        return [_NUMBER_CONVERSIONS[kind](_read_number(arguments[0]))]
    if kind in _STRUCTURES:
        return _STRUCTURES[kind](node, arguments)
    if kind in _LIST_OPERATORS and isinstance(arguments[0], list):
        return [_LIST_OPERATORS[kind](*arguments)]
    if not kind.startswith("aten::"):
        raise ConversionError(f"ATen has no operator for the TorchScript operator {kind}")
    schema: Any = torch.parse_schema(node.schema())
    positional, keywords = [], {}
    for declared, value in zip(schema.arguments, arguments, strict=True):
        if declared.kwarg_only:
            keywords[declared.name] = value
        else:
            positional.append(value)
    if kind in _UPSAMPLING and positional[3:] == [None, None]:
        # As for a captured Python model. The node's own overload is decomposed only for an engine
        # that lacks it.
        overload = getattr(torch.ops.aten, kind.removeprefix("aten::")).vec
        return [overload(*positional[:3], None)]
    if kind == "aten::repeat_interleave" and len(positional) > 1 and _has_data(positional[1]):
        return [_repeat_by_index(*positional)]
    operators = getattr(torch.ops.aten, _safe_name(kind.removeprefix("aten::")))
    # The overload by its name: torch's own choice makes float64 of a where() of two numbers.
    result = getattr(operators, schema.overload_name or "default")(*positional, **keywords)
    return list(result) if len(list(node.outputs())) > 1 else [result]


def _has_data(value: object) -> bool:
    """Return True for a tensor whose values do not depend on the model's inputs."""
    import torch

    return isinstance(value, torch.Tensor) and not torch_private.is_fake(value)


def _repeat_by_index(x: Tensor, repeats: Tensor, dim: int | None = None) -> Tensor:
    """Compute ``repeat_interleave`` by an index lookup, so that the result has a fixed size."""
    import torch

    x, dim = (x.flatten(), 0) if dim is None else (x, dim)
    count = x.shape[dim]
    with torch_private.without_modes():
        index = torch.repeat_interleave(repeats.expand(count))
    return x.index_select(dim, index)


def _safe_name(name: str) -> str:
    """Return the name of an operator's safe variant, such as ``split`` for ``unsafe_split``.

    Any other name is returned as it is. The schemas of unsafe variants do not declare that their
    outputs share memory.
    """
    safe = name.removeprefix("unsafe_")
    return safe if safe in ("chunk", "split", "split_with_sizes") else name


def _read_constant(node: Node, _: object) -> list[object]:
    import torch
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    output = node.output()
    value: Any = None if output.type().kind() == "NoneType" else output.toIValue()
    if isinstance(value, torch.Tensor) and value.dtype is torch.float64 and value.ndim == 0:
        # A Python number in the model: as a tensor it would promote other operands to float64.
        return [value.item()]
    if not isinstance(value, torch.Tensor):
        return [value]
    # If the model writes to it, a copy is recorded: every call starts from the same values.
    return [value.detach() if get_proxy_mode() is None else value.clone()]


def _read_size(_: object, arguments: list[Any]) -> list[object]:
    shape = list(arguments[0].shape)
    return [shape[arguments[1]] if len(arguments) > 1 else shape]


def _make_tensor(_: object, arguments: list[Any]) -> list[object]:
    import torch

    number, dtype = (*arguments, None)[:2]
    tensor = torch.tensor(number)
    # TorchScript's dtypes are integers. Operators accept them, Python's functions do not.
    return [tensor if dtype is None else torch.ops.aten.to.dtype(tensor, dtype)]


#: Nodes that are not operators on tensors.
_STRUCTURES: dict[str, Callable[[Node, list[Any]], list[object]]] = {
    "prim::Constant": _read_constant,
    "prim::ListConstruct": lambda _, arguments: [list(arguments)],
    "prim::TupleConstruct": lambda _, arguments: [tuple(arguments)],
    "prim::DictConstruct": lambda _, pairs: [dict(zip(pairs[::2], pairs[1::2], strict=True))],
    "prim::ListUnpack": lambda _, arguments: list(arguments[0]),
    "prim::TupleUnpack": lambda _, arguments: list(arguments[0]),
    "prim::TupleIndex": lambda _, arguments: [arguments[0][arguments[1]]],
    "prim::NumToTensor": _make_tensor,
    "prim::tolist": lambda _, arguments: [_check_has_data(arguments[0]).tolist()],
    "prim::GetAttr": lambda node, arguments: [getattr(arguments[0], node.s("name"))],
    "prim::dtype": lambda _, arguments: [arguments[0].dtype],
    "prim::device": lambda _, arguments: [arguments[0].device],
    "prim::layout": lambda _, arguments: [arguments[0].layout],
    "prim::is_cuda": lambda _, arguments: [arguments[0].is_cuda],
    "prim::max": lambda _, arguments: [max(*arguments)],
    "prim::min": lambda _, arguments: [min(*arguments)],
    "aten::tensor": _make_tensor,
    "aten::size": _read_size,
    "aten::dim": lambda _, arguments: [arguments[0].dim()],
    "aten::len": lambda _, arguments: [len(arguments[0])],
    "aten::__getitem__": lambda _, arguments: [operator.getitem(*arguments)],
}


def _read_number(value: object) -> object:
    import torch

    return _check_has_data(value).item() if isinstance(value, torch.Tensor) else value


def _check_has_data(tensor: Tensor) -> Tensor:
    if not _has_data(tensor):
        raise ConversionError("a size or a branch depends on the inputs' values")
    return tensor
