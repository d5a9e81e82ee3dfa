"""A script run once more, with lowerings in its operators' places, for torch to trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from enginebay.errors import ConversionError
from enginebay_ncnn.lowering import (
    arithmetic,
    assignment,
    casts,
    fourier,
    gather,
    images,  # noqa: F401 - the table's rooms fill it
    norms,  # noqa: F401
    recurrent,  # noqa: F401
    scatter,
)
from enginebay_ncnn.lowering.nodes import evaluate, split
from enginebay_ncnn.lowering.registry import LOWERINGS, constant, count_of
from enginebay_ncnn.lowering.script import RENAMED
from enginebay_ncnn.lowering.torch_internals import parse_schema

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay_ncnn.lowering.script import Script, Step

#: Casts, which need to know what a value stands for.
_CASTS = frozenset(("to", "type_as", "_to_copy", "_cast_Float", "float", "bool", "int", "long"))

#: Operators that leave an integer what it was, so that a table can still be looked up with it.
_HANDING_ON = frozenset(
    (
        *("view", "reshape", "flatten", "unsqueeze", "squeeze", "contiguous", "clone", "detach"),
        *("slice", "select", "expand", "permute", "transpose", "alias", "narrow"),
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


#: Logical operators, which ask of numbers whether they are zero.
_OF_TRUTHS = frozenset(("logical_not", "bitwise_not", "logical_and", "logical_or", "logical_xor"))

#: Arguments about how a tensor is stored.
_STORAGE = frozenset(
    (
        *("dtype", "layout", "device", "pin_memory"),
        *("memory_format", "non_blocking", "generator"),
    )
)


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
        self._values, self._ints, self._inputs = values, ints, origin
        for step in script.steps:
            if any(name in script.live for name in step.outputs):
                self._step(step)
        return tuple(_leaf(values[name]) for name in script.output_names)

    def _step(self, step: Step) -> None:
        values, ints = self._values, self._ints
        first = step.outputs[0]
        if first in self.script.initial:
            values[first] = constant(self.script.initial[first])
            return
        arguments = [values[name] for name in step.inputs]
        if step.kind == RENAMED:
            values[first] = arguments[0]
            return
        if step.kind.startswith("prim::"):
            values.update(zip(step.outputs, evaluate(step.node, arguments), strict=True))
            return
        name = step.kind.removeprefix("aten::")
        if name == "embedding" and step.inputs[1] in ints:
            arguments[1] = ints[step.inputs[1]]
            place = self._inputs[step.inputs[1]]
            if place not in self.tables:
                self.tables.append(place)
        self._keep_integers(step, name, arguments)
        if not step.assigns:
            result = self._call(step, name, arguments)
            results = result if len(step.outputs) > 1 else [result]
            values.update(zip(step.outputs, results, strict=True))
            return
        result = assignment.filled(step, arguments)
        if result is None:
            result = self._call(step, name.rstrip("_"), arguments)
        values[first] = result
        assignment.write(self.script, step, result, values, self._step)

    def _keep_integers(self, step: Step, name: str, arguments: list[Any]) -> None:
        """Hand on the integers of an input, which a table may be looked up with."""
        source, result = step.inputs[0], step.outputs[0]
        if source not in self._ints:
            return
        given = self._ints[source]
        if name in _HANDING_ON:
            self._ints[result] = self._call(step, name, [given, *arguments[1:]])
        elif name in ("to", "contiguous") and _is_int(self.script.values[result]):
            self._ints[result] = given
        else:
            return
        self._inputs[result] = self._inputs[source]

    def _call(self, step: Step, name: str, arguments: list[Any]) -> Any:
        if name in _CASTS:
            return self._cast(step, arguments)
        schema = parse_schema(step.node)
        positional, keywords = split(schema, arguments)
        keywords = {key: value for key, value in keywords.items() if key not in _STORAGE}
        if any(map(_is_complex, positional)):
            return fourier.apply(name, positional, keywords)
        if name == "scaled_dot_product_attention":
            mask = self.script.values[step.inputs[3]]
            keywords["mask_is_bool"] = mask is not None and mask.dtype is torch.bool
        if name == "index_put" and self._dtype_in(step.inputs[1]) is torch.bool:
            return scatter.lower_masked_put(positional[0], positional[1][0], positional[2])
        if name == "as_strided":
            return gather.strided(
                positional[0], self.script.values[step.inputs[0]], *positional[1:]
            )
        if name in _OF_TRUTHS:
            positional = [
                casts.cast(each, self._dtype(own), torch.bool) if _is_tensor(each) else each
                for each, own in zip(positional, step.inputs, strict=False)
            ]
        lowering = LOWERINGS.get(f"{name}.{schema.overload_name}") or LOWERINGS.get(name)
        if lowering is not None:
            return lowering(*positional, **keywords)
        operator = getattr(torch.ops.aten, name)
        first, *rest = map(_as_floats, positional)
        if name in _UNARY:
            return arithmetic.flat(lambda x: operator(x, *rest, **keywords), first)
        return operator(first, *rest, **keywords)

    def _dtype_in(self, name: str) -> Any:
        """The dtype of the only tensor in a list."""
        tensors = [each for each in self.script.values[name] if each is not None]
        return tensors[0].dtype if len(tensors) == 1 else None

    def _dtype(self, name: str) -> Any:
        return getattr(self.script.values[name], "dtype", torch.float32)

    def _cast(self, step: Step, arguments: list[Any]) -> Any:
        if _is_complex(arguments[0]):
            return arguments[0]
        target = self.script.values[step.outputs[0]].dtype
        return casts.cast(arguments[0], self._dtype(step.inputs[0]), target)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_complex(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_complex, value))
    return isinstance(value, fourier.Complex) or (_is_tensor(value) and value.is_complex())


def _as_floats(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and not value.dtype.is_floating_point:
        return value.float()
    return value


def _mark(value: Any) -> None:
    if isinstance(value, list | tuple):
        for each in value:
            _mark(each)
    elif isinstance(value, torch.Tensor):
        constant(value)


def _leaf(value: Any) -> Tensor:
    if not isinstance(value, torch.Tensor):
        raise ConversionError("the model's outputs are nested deeper than one level")
    if not count_of(value):
        raise ConversionError("an output is empty: ncnn holds no empty tensor")
    return value.float()


def _is_int(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.int64, torch.int32)
