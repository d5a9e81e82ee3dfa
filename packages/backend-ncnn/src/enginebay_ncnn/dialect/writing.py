"""From a lowered graph to TorchScript: the graph is run once, and torch traces what is written."""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from enginebay.authors import check_time_limit
from enginebay.errors import ConversionError
from enginebay_ncnn.dialect.arithmetic import flat, write_add
from enginebay_ncnn.dialect.images import write_channelwise
from enginebay_ncnn.dialect.layout import MAX_RANK, narrow, reshape
from enginebay_ncnn.dialect.operators import CHANNELWISE, CONSTANTS, LAYERS, POOLS, ROOMS, UNARY
from enginebay_ncnn.dialect.pools import write_pool
from enginebay_ncnn.dialect.values import (
    Blob,
    UnsupportedError,
    Value,
    as_float,
    count_of,
    emit,
    tracing,
)
from enginebay_ncnn.torchscript import first_line, quiet, save

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.fx import Node

#: Operators that leave an integer what it was, so that a table can still be looked up with it.
_HANDING_ON = frozenset(
    f"aten::{name}"
    for name in (
        *("view", "_unsafe_view", "unsqueeze", "squeeze", "clone", "detach", "alias", "_to_copy"),
        *("slice", "select", "expand", "permute", "transpose"),
    )
)

#: Arguments about how a tensor is stored.
_STORAGE = ("layout", "device", "pin_memory", "memory_format", "non_blocking", "generator")

#: Operators that may make an attention.
_ATTENTION = frozenset(("softmax", "_softmax", "scaled_dot_product_attention"))

_INTEGERS = (torch.int64, torch.int32)


def write(
    program: ExportedProgram,
    examples: Sequence[Tensor],
    target: Path,
    *,
    attention_apart: bool = False,
) -> list[int]:
    """Write a graph of the operators listed as TorchScript for pnnx.

    Args:
        program: The graph.
        examples: Its inputs.
        target: The file to write.
        attention_apart: Keep pnnx from making one layer of each attention.

    Returns:
        Which inputs the file takes a second time, behind all others: as integers, for tables. In
        their own places all inputs are floats, and all outputs are too.

    Raises:
        ConversionError: An operator cannot be written.
    """
    graph = Writing(program, attention_apart)
    inputs = (
        *(tensor.float() for tensor in examples),
        *(examples[place].long() for place in graph.tables),
    )
    try:
        with torch.no_grad(), quiet():
            trace: Any = torch.jit.trace
            traced = trace(graph, inputs, check_trace=False).eval()
            check_time_limit()
            result: Any = torch.jit.freeze(traced, optimize_numerics=False)
            _copy_repeated(result.graph)
    except (RuntimeError, TypeError, IndexError, ValueError) as err:
        raise ConversionError(first_line(err)) from err
    save(result, target)
    return graph.tables


class Writing(torch.nn.Module):
    """The same computation in pnnx's dialect.

    Its arguments are the inputs as floats, then those of ``tables`` once more as integers. Its
    results are all floats.

    Attributes:
        tables: The inputs that some table is looked up with.
    """

    def __init__(self, program: ExportedProgram, attention_apart: bool = False) -> None:
        super().__init__()
        self._apart = attention_apart
        known = {**program.state_dict, **program.constants}
        signature = program.graph_signature
        self._constants = {
            spec.arg.name: known[spec.target]
            for spec in signature.input_specs
            if spec.target in known
        }
        self._inputs = [
            spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT
        ]
        self._outputs = [
            place
            for place, spec in enumerate(signature.output_specs)
            if spec.kind is OutputKind.USER_OUTPUT
        ]
        self._nodes = list(program.graph.nodes)
        self.tables = sorted(
            {
                self._inputs.index(source.name)
                for node in self._nodes
                if _name(node) == "aten::embedding"
                and (source := _source(node.args[1])) is not None
                and source.name in self._inputs
            }
        )

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the graph."""
        trace = torch._C._get_tracing_state()
        with tracing(None):
            run = _Run(self._apart)
            names = self._inputs
            whole = {
                names[place]: Blob(tensor, trace, torch.int64)
                for place, tensor in zip(self.tables, tensors[len(names) :], strict=True)
            }
            given = dict(zip(names, tensors[: len(names)], strict=True))
            for node in self._nodes:
                check_time_limit()
                if node.name in given:
                    blob = Blob(given[node.name], trace, node.meta["val"].dtype)
                    run.values[node] = blob
                    if node.name in whole:
                        run.integers[node] = whole[node.name]
                elif node.op == "placeholder":
                    run.values[node] = _stored(self._constants.get(node.name))
                elif node.op == "call_function":
                    run.step(node)
            results = [
                map_arg(self._nodes[-1].args[0][place], run.values.__getitem__)
                for place in self._outputs
            ]
            blobs = [_output(value, Blob(tensors[0], trace)) for value in results]
        return tuple(blob.tensor for blob in blobs)


class _Run:
    """One run of a graph.

    Attributes:
        apart: True if pnnx is kept from making one layer of each attention.
        values: Every value so far.
        integers: Those that are an input's integers still, as integers.
    """

    def __init__(self, apart: bool) -> None:
        self.apart = apart
        self.values: dict[Node, Any] = {}
        self.integers: dict[Node, Blob] = {}

    def step(self, node: Node) -> None:
        """Compute one node."""
        given: Any = map_arg((node.args, node.kwargs), self.values.__getitem__)
        args, kwargs = list(given[0]), given[1]
        if node.target is operator.getitem:
            self.values[node] = args[0][args[1]]
            return
        target: Any = node.target
        if not any(isinstance(each, Blob) for each in pytree.tree_leaves((args, kwargs))):
            self.values[node] = target(*args, **kwargs)
            return
        name = _name(node).removeprefix("aten::")
        if name in CONSTANTS:
            like = (torch.empty(args[0].shape, dtype=args[0].dtype), *args[1:])
            self.values[node] = target(*like, **kwargs)
            return
        args = [list(each) if isinstance(each, tuple) else each for each in args]
        if name == "embedding":
            args[1] = self._whole(node.args[1]) or args[1]
        dropped = _STORAGE if name == "_to_copy" else ("dtype", *_STORAGE)
        kwargs = {key: value for key, value in kwargs.items() if key not in dropped}
        if self.apart and name in _ATTENTION:
            kwargs["apart"] = True
        found = write_operator(name, target, args, kwargs)
        self.values[node] = _as_in(found, node.meta["val"])

    def _whole(self, node: Any) -> Blob | None:
        """An input's integers, or what moves them about, as integers."""
        if node in self.integers or _name(node) not in _HANDING_ON:
            return self.integers.get(node)
        first, *rest = node.args
        source = self._whole(first)
        if source is None or node.meta["val"].dtype not in _INTEGERS:
            return None
        if _name(node) != "aten::_to_copy":
            name = _name(node).removeprefix("aten::")
            rest = [list(each) if isinstance(each, tuple | list) else each for each in rest]
            source = write_operator(name, node.target, [source, *rest], {})
        self.integers[node] = source
        return source


def write_operator(name: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Write one operator."""
    whole = (each for each in args if isinstance(each, Blob) and each.dtype is not torch.bool)
    if name.startswith("bitwise_") and any(whole):
        raise UnsupportedError(f"{name} of integers that depend on the inputs")
    if name in UNARY:
        first, *rest = args
        return flat(lambda x: target(x, *rest, **kwargs), first)
    if name in CHANNELWISE:
        return write_channelwise(target, *args)
    if name in POOLS:
        return write_pool(name, *args)
    if name in LAYERS:
        return emit(lambda x: target(x, *args[1:]), args[0])
    return writers()[name](*args, **kwargs)


@cache
def writers() -> dict[str, Callable[..., Any]]:
    """What writes each operator of the rooms."""
    return {
        name: getattr(import_module(f"enginebay_ncnn.dialect.{room}"), f"write_{name.lstrip('_')}")
        for room, names in ROOMS.items()
        for name in names
    }


def _name(node: Any) -> str:
    schema = getattr(getattr(node, "target", None), "_schema", None)
    return schema.name if schema is not None else ""


def _source(node: Any) -> Node | None:
    """The input that a node hands on the integers of; None for none."""
    while _name(node) in _HANDING_ON and node.meta["val"].dtype in _INTEGERS:
        node = node.args[0]
    is_input = getattr(node, "op", "") == "placeholder" and node.meta["val"].dtype in _INTEGERS
    return node if is_input else None


def _stored(value: Any) -> Any:
    """A constant of the program: floats of any width as float32."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        return value.float() if value.dtype.is_floating_point else value
    return value


def _as_in(found: Any, wanted: Any) -> Any:
    """Give a value the dtype that it has in the model; one without elements is a constant."""
    if isinstance(found, list | tuple):
        return [_as_in(*pair) for pair in zip(found, wanted, strict=True)]
    if not isinstance(found, Blob):
        return found
    return replace(found, dtype=wanted.dtype) if count_of(found) else torch.empty(found.shape)


def _output(value: Any, given: Blob) -> Blob:
    if not isinstance(value, Value):
        raise ConversionError("the model's outputs are nested deeper than one level")
    if not count_of(value):
        raise ConversionError("an output is empty: ncnn holds no empty tensor")
    if not isinstance(value, Blob):
        return _tied(as_float(value), given)
    if value.ndim <= MAX_RANK or value.reshape_of is None:
        return value
    found = reshape(value, (1, math.prod(value.shape[:-2]), *value.shape[-2:]))
    assert isinstance(found, Blob)
    return found  # the plan has the shape


def _tied(fixed: Tensor, given: Blob) -> Blob:
    """Return an output that is the same for every input, as one that torch can trace."""
    first = narrow(reshape(given, (1, 1, count_of(given))), 2, 0, 1)
    zero = emit(lambda x: x.clamp(0.0, 0.0), first)  # infinity and NaN, which 0 * would spread
    found = write_add(fixed, reshape(zero, (1,) * max(fixed.ndim, 1)))
    assert isinstance(found, Blob)
    return found


def _copy_repeated(graph: Any) -> None:
    """Replace a tensor that one operator takes a second time, or a second list, by a copy.

    Where another operator takes such a tensor too, pnnx loses count of who reads it and writes
    outside of its memory. Of a list that two operators take, it makes a layer that ncnn lacks.
    """
    for node in [*graph.nodes()]:
        if node.kind() == "prim::ListConstruct":
            for use in [*node.output().uses()][1:]:
                again = graph.createClone(node, lambda value: value)
                again.insertBefore(node)
                again.replaceInput(0, _copy(graph, node.inputsAt(0), again))
                use.user.replaceInput(use.offset, again.output())
    for node in [*graph.nodes()]:
        found = set()
        for place, value in enumerate([*node.inputs()]):
            if value.debugName() in found and isinstance(value.type(), torch.TensorType):
                node.replaceInput(place, _copy(graph, value, node))
            found.add(value.debugName())


def _copy(graph: Any, value: Any, before: Any) -> Any:
    """Negate twice, which neither torch nor pnnx folds, and which keeps NaN and -0."""
    for _ in range(2):
        node = graph.create("aten::neg", [value])
        node.insertBefore(before)
        value = node.output()
    return value
