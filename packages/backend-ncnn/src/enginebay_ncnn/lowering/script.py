"""A TorchScript graph run node by node."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from enginebay.errors import ConversionError
from enginebay_ncnn.lowering import arithmetic, casts, contraction, gather, layout, logic, norms  # noqa: F401 - they fill the table
from enginebay_ncnn.lowering.registry import LOWERINGS, UnsupportedError, constant, sizes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

#: What tells about a tensor without looking at its numbers.
_SHAPE_ONLY = frozenset(
    f"aten::{name}"
    for name in (
        *("size", "sym_size", "dim", "len", "numel", "is_floating_point", "stride", "device"),
        *("ones_like", "zeros_like", "empty_like", "full_like"),
        *("new_ones", "new_zeros", "new_empty", "new_full"),
    )
) | {"prim::dtype", "prim::device", "prim::layout", "prim::is_cuda"}

#: Casts, which need to know what a value stands for.
_CASTS = frozenset(("to", "type_as", "_to_copy", "_cast_Float", "float", "bool", "int", "long"))

#: Operators that leave an integer what it was, so that a table can still be looked up with it.
_HANDING_ON = frozenset(
    (
        *("view", "reshape", "flatten", "unsqueeze", "squeeze", "contiguous", "clone", "detach"),
        *("slice", "select", "expand", "permute", "transpose", "alias", "narrow"),
    )
)

#: What gives a piece of a tensor that shares its memory.
_PIECES = frozenset(
    f"aten::{name}"
    for name in (
        *("slice", "select", "view", "unsqueeze", "squeeze", "reshape"),
        *("transpose", "permute", "expand", "unbind", "chunk", "split", "narrow", "t"),
    )
)

#: Functions of single elements that ncnn has.
_UNARY = frozenset(
    (
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf"),
        *("exp", "expm1", "floor", "log", "log10", "log1p", "neg", "reciprocal", "round", "rsqrt"),
        *("sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "sigmoid", "relu", "relu6"),
        *("gelu", "silu", "elu", "selu", "celu", "leaky_relu", "softplus", "mish", "hardtanh"),
        *("hardswish", "hardsigmoid", "softsign", "logsigmoid", "log_sigmoid", "threshold"),
    )
)


@dataclass
class Script:
    """A frozen graph, and what its values are for one set of inputs.

    Attributes:
        module: The frozen module.
        examples: Its inputs.
        values: Every value by its name, as the module itself computes it.
        live: The names of those that depend on the inputs' numbers.
        initial: Constants that such numbers are written into later, as they were before.
    """

    module: Any
    examples: Sequence[Tensor]
    values: dict[str, Any] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    initial: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.graph = self.module.inlined_graph
        own, *inputs = [value.debugName() for value in self.graph.inputs()]
        self.input_names = inputs
        self.output_names = _output_names(self.graph)
        self.values[own] = self.module
        for name, tensor in zip(inputs, self.examples, strict=True):
            self.values[name] = tensor.clone()
            self.live.add(name)
        for node in self.graph.nodes():
            self._run(node)

    def _run(self, node: Any) -> None:
        names = [value.debugName() for value in node.inputs()]
        outputs = [value.debugName() for value in node.outputs()]
        if list(node.blocks()):
            raise UnsupportedError(f"control flow ({node.kind()})")
        if _assigns(node.kind()) and any(name in self.live for name in names):
            self._enliven(next(iter(node.inputs())))
        results = _evaluate(node, [self.values[name] for name in names])
        self.values.update(zip(outputs, results, strict=True))
        if node.kind() in _SHAPE_ONLY or not any(name in self.live for name in names):
            return
        for name, result in zip(outputs, results, strict=True):
            if _holds_tensor(result):
                self.live.add(name)
            elif node.kind() in ("aten::Int", "aten::Float", "aten::Bool", "aten::item"):
                raise UnsupportedError("a size or a branch that depends on the inputs' numbers")

    def _enliven(self, written: Any) -> None:
        """What is written into, and what it is a piece of, depend on the inputs from now on."""
        name = written.debugName()
        if name in self.live:
            return
        self.live.add(name)
        producer = written.node()
        if producer.kind() in _PIECES:
            self._enliven(next(iter(producer.inputs())))
        else:
            self.initial[name] = self.values[name].clone()


class Lowered(torch.nn.Module):
    """The same computation with lowerings in the operators' places.

    Its arguments are the inputs as floats, then those of ``tables`` once more as integers.
    Its results are all floats.
    """

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script
        dtypes = [tensor.dtype for tensor in script.examples]
        #: The inputs that are given a second time, as integers.
        self.integers = [p for p, dtype in enumerate(dtypes) if dtype in (torch.int64, torch.int32)]
        #: Those of them that some table was looked up with.
        self.tables: list[int] = []

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the live part of the graph."""
        script = self.script
        values = dict(script.values)
        for name, value in values.items():
            if name not in script.live:
                _mark(value)
        ints: dict[str, Tensor] = {}
        origin: dict[str, int] = {}
        names = script.input_names
        values.update(zip(names, tensors, strict=False))
        for place, tensor in zip(self.integers, tensors[len(names) :], strict=False):
            ints[names[place]] = tensor
            origin[names[place]] = place
        for node in script.graph.nodes():
            outputs = [value.debugName() for value in node.outputs()]
            if not any(name in script.live for name in outputs):
                continue
            self._step(node, outputs, values, ints, origin)
        return tuple(_leaf(values[name]) for name in script.output_names)

    def _step(
        self,
        node: Any,
        outputs: list[str],
        values: dict[str, Any],
        ints: dict[str, Tensor],
        origin: dict[str, int],
    ) -> None:
        if outputs[0] in self.script.initial:
            values[outputs[0]] = constant(self.script.initial[outputs[0]])
            return
        inputs = [value.debugName() for value in node.inputs()]
        arguments = [values[name] for name in inputs]
        kind = node.kind()
        if kind.startswith("prim::"):
            results = _evaluate(node, arguments)
            values.update(zip(outputs, results, strict=True))
            return
        name = kind.removeprefix("aten::")
        if name == "embedding" and inputs[1] in ints:
            arguments[1] = ints[inputs[1]]
            place = origin[inputs[1]]
            if place not in self.tables:
                self.tables.append(place)
        if name in _HANDING_ON and inputs[0] in ints:
            handed = self._call(node, name, [ints[inputs[0]], *arguments[1:]], inputs)
            ints[outputs[0]] = handed
            origin[outputs[0]] = origin[inputs[0]]
        if (
            name in ("to", "contiguous")
            and inputs[0] in ints
            and _is_int(self.script.values[outputs[0]])
        ):
            ints[outputs[0]], origin[outputs[0]] = ints[inputs[0]], origin[inputs[0]]
        if _assigns(kind):
            self._assign(node, name.rstrip("_"), inputs, outputs, arguments, values)
            return
        result = self._call(node, name, arguments, inputs)
        values.update(zip(outputs, result if len(outputs) > 1 else [result], strict=True))

    def _call(self, node: Any, name: str, arguments: list[Any], inputs: list[str]) -> Any:
        schema = torch._C.parse_schema(node.schema())
        overload = f"{name}.{schema.overload_name}"
        if name in _CASTS:
            return self._cast(node, arguments, inputs)
        positional, keywords = _split(schema, arguments)
        if name == "scaled_dot_product_attention":
            mask = self.script.values[inputs[3]]
            keywords["mask_is_bool"] = mask is not None and mask.dtype is torch.bool
        if name in ("logical_not", "bitwise_not", "logical_and", "logical_or", "logical_xor"):
            positional = [
                casts.cast(each, self._dtype(own), torch.bool)
                if isinstance(each, torch.Tensor)
                else each
                for each, own in zip(positional, inputs, strict=False)
            ]
        lowering = LOWERINGS.get(overload) or LOWERINGS.get(name)
        if lowering is not None:
            for key in (
                "dtype",
                "layout",
                "device",
                "pin_memory",
                "memory_format",
                "non_blocking",
                "generator",
            ):
                keywords.pop(key, None)
            return lowering(*positional, **keywords)
        if name in _UNARY:
            apply = getattr(torch.ops.aten, name)
            return arithmetic.flat(
                lambda x: apply(x, *positional[1:], **keywords), _as_floats(positional[0])
            )
        keywords = {k: v for k, v in keywords.items() if not (k == "dtype" and v is not None)}
        return getattr(torch.ops.aten, name)(
            *map(
                _as_floats,
                positional,
            ),
            **keywords,
        )

    def _dtype(self, name: str) -> Any:
        return getattr(self.script.values[name], "dtype", torch.float32)

    def _cast(self, node: Any, arguments: list[Any], inputs: list[str]) -> Tensor:
        (output,) = node.outputs()
        target = self.script.values[output.debugName()].dtype
        return casts.cast(arguments[0], self._dtype(inputs[0]), target)

    def _assign(
        self,
        node: Any,
        name: str,
        inputs: list[str],
        outputs: list[str],
        arguments: list[Any],
        values: dict[str, Any],
    ) -> None:
        """An operator that changes its first argument: its result goes by that name from now on."""
        target = arguments[0]
        if name == "copy":
            result = layout.lower_expand(arguments[1].float(), sizes_of(target))
        elif name in ("fill", "zero"):
            result = torch.full(sizes_of(target), float(arguments[1]) if name == "fill" else 0.0)
        else:
            result = self._call(node, name, arguments, inputs)
        values[outputs[0]] = result
        self._write_back(node, result, values)

    def _write_back(self, node: Any, result: Tensor, values: dict[str, Any]) -> None:
        """Put a changed piece back into the tensor that it is a piece of."""
        written = next(iter(node.inputs()))
        values[written.debugName()] = result
        producer = written.node()
        kind = producer.kind()
        inputs = [value.debugName() for value in producer.inputs()]
        if kind == "aten::slice":
            _, dim, start, end, step = (values[name] for name in inputs)
            whole = values[inputs[0]]
            self._write_back(
                producer, layout.lower_slice_scatter(whole, result, dim, start, end, step), values
            )
        elif kind == "aten::select":
            _, dim, index = (values[name] for name in inputs)
            whole = values[inputs[0]]
            self._write_back(
                producer, layout.lower_select_scatter(whole, result, dim, index), values
            )
        elif kind in ("aten::view", "aten::unsqueeze", "aten::squeeze", "aten::reshape"):
            whole = values[inputs[0]]
            self._write_back(producer, layout.reshape(result, sizes_of(whole)), values)
        elif kind in _PIECES:
            raise UnsupportedError(f"an assignment through {kind}")


def _assigns(kind: str) -> bool:
    """Whether an operator changes its first argument."""
    return kind.startswith("aten::") and kind.endswith("_") and not kind.endswith("__")


def _split(schema: Any, arguments: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    positional, keywords = [], {}
    for declared, value in zip(schema.arguments, arguments, strict=True):
        if declared.kwarg_only:
            keywords[declared.name] = value
        else:
            positional.append(value)
    return positional, keywords


def _as_floats(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and not value.dtype.is_floating_point:
        return value.float()
    return value


def _evaluate(node: Any, arguments: list[Any]) -> list[Any]:
    """What a node computes, as a list of its outputs."""
    kind = node.kind()
    if kind == "prim::Constant":
        output = node.output()
        return [None if output.type().kind() == "NoneType" else output.toIValue()]
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
    schema = torch._C.parse_schema(node.schema())
    positional, keywords = _split(schema, arguments)
    result = getattr(torch.ops.aten, kind.removeprefix("aten::"))(*positional, **keywords)
    count = len(list(node.outputs()))
    return list(result) if count > 1 else [result]


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_tensor, value))
    return isinstance(value, torch.Tensor)


def _mark(value: Any) -> None:
    if isinstance(value, list | tuple):
        for each in value:
            _mark(each)
    elif isinstance(value, torch.Tensor):
        constant(value)


def _output_names(graph: Any) -> list[str]:
    names = []
    for value in graph.outputs():
        node = value.node()
        if node.kind() in ("prim::TupleConstruct", "prim::ListConstruct"):
            names += [each.debugName() for each in node.inputs()]
        else:
            names.append(value.debugName())
    return names


def _leaf(value: Any) -> Tensor:
    if not isinstance(value, torch.Tensor):
        raise ConversionError("the model's outputs are nested deeper than one level")
    return value.float()


def _is_int(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.int64, torch.int32)
