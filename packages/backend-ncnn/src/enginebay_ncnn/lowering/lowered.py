"""A script run once more, with lowerings in its operators' places, for torch to trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from enginebay.authors import check_time_limit
from enginebay.errors import ConversionError
from enginebay_ncnn.lowering import assignment
from enginebay_ncnn.lowering.arithmetic import lower_add
from enginebay_ncnn.lowering.calls import Call, lower
from enginebay_ncnn.lowering.layout import narrow, reshape
from enginebay_ncnn.lowering.nodes import evaluate, split
from enginebay_ncnn.lowering.registry import as_float, constant, count_of
from enginebay_ncnn.lowering.script import RENAMED
from enginebay_ncnn.lowering.torch_internals import parse_schema

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay_ncnn.lowering.script import Script, Step

#: Operators that leave an integer what it was, so that a table can still be looked up with it.
_HANDING_ON = frozenset(
    (
        *("view", "reshape", "flatten", "unsqueeze", "squeeze", "contiguous", "clone", "detach"),
        *("slice", "select", "expand", "permute", "transpose", "alias", "narrow"),
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
            check_time_limit()
            if any(name in script.live for name in step.outputs):
                self._step(step)
        return tuple(
            _leaf(values[name]) if name in script.live else _tied(_leaf(values[name]), tensors[0])
            for name in script.output_names
        )

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
        schema = parse_schema(step.node)
        positional, keywords = split(schema, arguments)
        originals, _ = split(schema, [self.script.values[each] for each in step.inputs])
        result = self.script.values[step.outputs[0]]
        return lower(Call(name, schema.overload_name, positional, keywords, originals, result))


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
    return as_float(value)


def _tied(fixed: Tensor, given: Tensor) -> Tensor:
    """Return an output that is the same for every input, as one that torch can trace."""
    first = narrow(reshape(given, (1, 1, count_of(given))), 2, 0, 1)
    zero = first.clamp(0.0, 0.0)  # of infinity and NaN as well, which 0 * first would spread
    return lower_add(fixed, reshape(zero, (1,) * max(fixed.ndim, 1)))


def _is_int(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.int64, torch.int32)
