"""Write a lowered graph as TorchScript for pnnx: the graph runs once, and torch traces it."""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from enginebay.authors import isolation
from enginebay.errors import ConversionError
from enginebay_ncnn.dialect.arithmetic import write_add
from enginebay_ncnn.dialect.layout import MAX_RANK, narrow, reshape
from enginebay_ncnn.dialect.operators import CONSTANTS, write_operator
from enginebay_ncnn.dialect.repeated_inputs import copy_repeated_inputs
from enginebay_ncnn.dialect.values import (
    Blob,
    Value,
    element_count,
    emit_call,
    trace_into,
)
from enginebay_ncnn.torchscript_files import (
    save_torchscript,
    silence_warnings,
    summarize_error,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.fx import Node

#: Operators that do not change integers: their results can still be indices of a table.
_INTEGER_PRESERVING = frozenset(
    f"aten::{name}"
    for name in (
        *("view", "_unsafe_view", "unsqueeze", "squeeze", "clone", "detach", "alias", "_to_copy"),
        *("slice", "select", "expand", "permute", "transpose"),
    )
)

#: Arguments about how torch stores a tensor.
_STORAGE_ARGUMENTS = (
    "layout",
    "device",
    "pin_memory",
    "memory_format",
    "non_blocking",
    "generator",
)

#: Operators that pnnx may recognise as part of an attention.
_ATTENTION = frozenset(("softmax", "_softmax", "scaled_dot_product_attention"))

_INTEGER_DTYPES = (torch.int64, torch.int32)


def write_program(
    program: ExportedProgram,
    examples: Sequence[Tensor],
    target: Path,
    *,
    split_attention: bool = False,
) -> list[int]:
    """Write a graph as TorchScript for pnnx.

    All inputs and outputs of the file are floats. For each input that indexes an embedding table,
    the file has an additional integer input at the end.

    Args:
        program: The graph, which contains only operators in :data:`OPERATORS`.
        examples: The example inputs of the graph.
        target: The file to write.
        split_attention: Whether to prevent pnnx from fusing an attention into one layer.

    Returns:
        The positions of the inputs that index an embedding table.

    Raises:
        ConversionError: ncnn's operators cannot express the graph, or torch cannot trace it.
    """
    graph = DialectModule(program, split_attention)
    inputs = (
        *(tensor.float() for tensor in examples),
        *(examples[index].long() for index in graph.tables),
    )
    try:
        with torch.no_grad(), silence_warnings():
            trace: Any = torch.jit.trace
            # check_trace would run the graph twice more, only to compare the traces.
            traced = trace(graph, inputs, check_trace=False).eval()
            isolation.check_time_limit()
            result: Any = torch.jit.freeze(traced, optimize_numerics=False)
            copy_repeated_inputs(result.graph)
    except (RuntimeError, TypeError, IndexError, ValueError) as err:
        raise ConversionError(summarize_error(err)) from err
    save_torchscript(result, target)
    return graph.tables


class DialectModule(torch.nn.Module):
    """A module that torch can trace: it runs a lowered graph by calls that pnnx converts.

    The arguments of the module are all inputs as floats, then the inputs in ``tables`` again as
    integers. The results of the module are floats.

    Attributes:
        tables: The positions of the inputs that index an embedding table.
    """

    def __init__(self, program: ExportedProgram, split_attention: bool = False) -> None:
        super().__init__()
        self._split_attention = split_attention
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
            index
            for index, spec in enumerate(signature.output_specs)
            if spec.kind is OutputKind.USER_OUTPUT
        ]
        self._nodes = list(program.graph.nodes)
        self.tables = sorted(
            {
                self._inputs.index(source.name)
                for node in self._nodes
                if _operator_name(node) == "aten::embedding"
                and (source := _integer_source(node.args[1])) is not None
                and source.name in self._inputs
            }
        )

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the graph, so that torch can trace it."""
        trace = torch._C._get_tracing_state()
        # Only calls with blobs are recorded: operators on constants are computed now.
        with trace_into(None):
            run = _GraphRun(self._split_attention)
            names = self._inputs
            integers = {
                names[index]: Blob(tensor, trace, torch.int64)
                for index, tensor in zip(self.tables, tensors[len(names) :], strict=True)
            }
            floats = dict(zip(names, tensors[: len(names)], strict=True))
            for node in self._nodes:
                isolation.check_time_limit()
                if node.name in floats:
                    blob = Blob(floats[node.name], trace, node.meta["val"].dtype)
                    run.values[node] = blob
                    if node.name in integers:
                        run.integers[node] = integers[node.name]
                elif node.op == "placeholder":
                    run.values[node] = _load_constant(self._constants.get(node.name))
                elif node.op == "call_function":
                    run.run_node(node)
            results = [
                map_arg(self._nodes[-1].args[0][index], run.values.__getitem__)
                for index in self._outputs
            ]
            blobs = [_finish_output(value, Blob(tensors[0], trace)) for value in results]
        return tuple(blob.tensor for blob in blobs)


class _GraphRun:
    """Runs a graph once: computes one node after the other.

    Attributes:
        split_attention: Whether to prevent pnnx from fusing an attention into one layer.
        values: The values of the computed nodes.
        integers: The values, as int64, of the nodes that return an input's integers unchanged.
    """

    def __init__(self, split_attention: bool) -> None:
        self.split_attention = split_attention
        self.values: dict[Node, Any] = {}
        self.integers: dict[Node, Blob] = {}

    def run_node(self, node: Node) -> None:
        """Compute the value of one node and store it in ``values``."""
        arguments: Any = map_arg((node.args, node.kwargs), self.values.__getitem__)
        args, kwargs = list(arguments[0]), arguments[1]
        if node.target is operator.getitem:
            self.values[node] = args[0][args[1]]
            return
        target: Any = node.target
        if not any(isinstance(leaf, Blob) for leaf in pytree.tree_leaves((args, kwargs))):
            self.values[node] = target(*args, **kwargs)
            return
        name = _operator_name(node).removeprefix("aten::")
        if name in CONSTANTS:
            like = (torch.empty(args[0].shape, dtype=args[0].dtype), *args[1:])
            self.values[node] = target(*like, **kwargs)
            return
        args = [list(arg) if isinstance(arg, tuple) else arg for arg in args]
        if name == "embedding":
            args[1] = self._find_integers(node.args[1]) or args[1]
        dropped = _STORAGE_ARGUMENTS if name == "_to_copy" else ("dtype", *_STORAGE_ARGUMENTS)
        kwargs = {key: value for key, value in kwargs.items() if key not in dropped}
        if self.split_attention and name in _ATTENTION:
            kwargs["split_attention"] = True
        result = write_operator(name, target, args, kwargs)
        self.values[node] = _restore_dtype(result, node.meta["val"])

    def _find_integers(self, node: Any) -> Blob | None:
        """Return a node's value as int64 if the node returns an input's integers, else None."""
        if node in self.integers or _operator_name(node) not in _INTEGER_PRESERVING:
            return self.integers.get(node)
        first, *rest = node.args
        source = self._find_integers(first)
        if source is None or node.meta["val"].dtype not in _INTEGER_DTYPES:
            return None
        if _operator_name(node) != "aten::_to_copy":
            name = _operator_name(node).removeprefix("aten::")
            rest = [list(arg) if isinstance(arg, tuple | list) else arg for arg in rest]
            source = write_operator(name, node.target, [source, *rest], {})
        self.integers[node] = source
        return source


def _operator_name(node: object) -> str:
    schema = getattr(getattr(node, "target", None), "_schema", None)
    return schema.name if schema is not None else ""


def _integer_source(node: Any) -> Node | None:
    """Return the input whose integers a node returns unchanged; None if there is no such input."""
    while _operator_name(node) in _INTEGER_PRESERVING and node.meta["val"].dtype in _INTEGER_DTYPES:
        node = node.args[0]
    is_input = (
        getattr(node, "op", "") == "placeholder" and node.meta["val"].dtype in _INTEGER_DTYPES
    )
    return node if is_input else None


def _load_constant(value: object) -> object:
    """Return a constant of the program; convert floats of any precision to float32."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        return value.float() if value.dtype.is_floating_point else value
    return value


def _restore_dtype(value: object, example: Any) -> object:
    """Return a blob with the dtype of ``example``; a blob without elements becomes a constant."""
    if isinstance(value, list | tuple):
        return [_restore_dtype(*pair) for pair in zip(value, example, strict=True)]
    if not isinstance(value, Blob):
        return value
    return replace(value, dtype=example.dtype) if element_count(value) else torch.empty(value.shape)


def _finish_output(value: object, model_input: Blob) -> Blob:
    """Return an output of the graph as a blob of at most four dimensions.

    A constant output becomes a blob by adding 0 · ``model_input``.
    """
    if not isinstance(value, Value):
        raise ConversionError("the model's outputs are nested deeper than one level")
    if not element_count(value):
        raise ConversionError("an output is empty, and ncnn does not support empty tensors")
    if not isinstance(value, Blob):
        return _tie_to_input(value.float(), model_input)
    if value.ndim <= MAX_RANK or value.reshape_source is None:
        return value
    # The plan has the shape, which the wrapper restores.
    merged = reshape(value, (1, math.prod(value.shape[:-2]), *value.shape[-2:]))
    assert isinstance(merged, Blob)
    return merged


def _tie_to_input(constant: Tensor, model_input: Blob) -> Blob:
    """Return a constant output plus 0 · input, since a trace returns only results of operators."""
    first = narrow(reshape(model_input, (1, 1, element_count(model_input))), 2, 0, 1)
    zero = emit_call(lambda x: x.clamp(0.0, 0.0), first)  # a product with 0 would spread NaN
    tied = write_add(constant, reshape(zero, (1,) * max(constant.ndim, 1)))
    assert isinstance(tied, Blob)
    return tied
