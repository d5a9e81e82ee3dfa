"""Symbolics in torch's default exporter.

It has no symbolics, but takes a table of translations for operators. Each symbolic becomes one,
with a graph ``g`` that speaks as the TorchScript exporter's does. The table reaches the exporter
through ``torch.onnx.export`` itself, which is rewritten for the time of the context.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting import internals, names
from enginebay.rewriting.torchscript_symbolics import qualified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import ExitStack

    import onnx_ir
    from torch._ops import OpOverload

    from enginebay.rewriting.declaration import Rewriter
    from enginebay.rewriting.python_functions import Patch

    Translations = Mapping[OpOverload, Callable[..., Any]]


class Value:
    """A tensor of the graph, with the questions that symbolics ask one.

    Attributes:
        value: The exporter's own, an ``onnx_ir.Value``.
    """

    def __init__(self, value: onnx_ir.Value) -> None:
        self.value = value

    def type(self) -> Value:
        """The value's type, which answers itself: ``x.type().sizes()`` reads as elsewhere."""
        return self

    def setType(self, like: Value) -> None:  # noqa: N802  # the TorchScript exporter calls it so
        """Give the value the dtype and the shape of another."""
        self.value.type, self.value.shape = like.value.type, like.value.shape

    def sizes(self) -> list[int | None] | None:
        """The size of each dimension, None where it is open; None where the rank is unknown."""
        shape = self.value.shape
        return None if shape is None else [d if isinstance(d, int) else None for d in shape]

    def dim(self) -> int | None:
        """The rank; None where it is unknown."""
        return None if self.value.shape is None else len(self.value.shape)

    def scalarType(self) -> str | None:  # noqa: N802  # the TorchScript exporter calls it so
        """The dtype by TorchScript's name, such as ``Float``; None where it is unknown."""
        from torch.onnx._internal.torchscript_exporter._type_utils import JitScalarType

        if self.value.dtype is None:
            return None
        name: str = JitScalarType.from_onnx_type(int(self.value.dtype)).scalar_name()
        return name


class Graph:
    """What a symbolic gets as ``g``: adds nodes to the graph that the default exporter builds.

    Attributes:
        opset: The opset that the exporter writes.
        original: The exporter's own translation of the operator; None where it has none.
    """

    def __init__(self, name: str, original: Callable[..., Any] | None = None) -> None:
        from onnxscript import evaluator

        self._name = name
        self._recorder: Any = evaluator.default()
        self.opset: int = self._recorder.opset.version
        self.original = original

    def op(self, name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node.

        Args:
            name: The operator, ``Squeeze`` or ``my_domain::Op``.
            *inputs: Values of the graph, None for one left out, or constants.
            outputs: How many outputs the node has.
            **attributes: By name and a suffix for the type: ``axis_i``, ``sizes_i``, ``mode_s``,
                ``alpha_f``, ``value_t``.

        Returns:
            The output, or a tuple of several.

        Raises:
            RewriterError: An attribute is not a constant.
        """
        import onnx_ir

        domain, _, op_type = name.rpartition("::")
        node = onnx_ir.Node(
            "" if domain == "onnx" else domain,
            op_type,
            [self._input(each) for each in inputs],
            [self._attribute(op_type, key, value) for key, value in attributes.items()],
            num_outputs=outputs,
        )
        self._recorder.nodes.append(node)
        results = tuple(Value(each) for each in node.outputs)
        return results[0] if outputs == 1 else results

    def _input(self, given: Any) -> onnx_ir.Value | None:
        import torch

        if given is None:
            return None
        if isinstance(given, Value):
            return given.value
        constant: Value = self.op("Constant", value_t=torch.as_tensor(given))
        return constant.value

    def _attribute(self, op_type: str, key: str, given: Any) -> onnx_ir.Attr:
        import onnx_ir
        import torch

        name = key.rpartition("_")[0]
        if any(isinstance(each, Value) for each in (given if isinstance(given, list) else [given])):
            raise RewriterError(
                f'the symbolic of "{self._name}" gives a tensor of the graph as the attribute '
                f'"{name}" of {op_type}, which must be a constant'
            )
        if isinstance(given, torch.Tensor):
            given = onnx_ir.tensor(given.detach().cpu().numpy())
        elif isinstance(given, tuple):
            given = list(given)
        (attribute,) = onnx_ir.convenience.convert_attributes({name: given})
        return attribute


def overloads(operator: str) -> list[OpOverload]:
    """The overloads of an operator, without those that write to an argument; by the short name."""
    import torch

    namespace, _, name = qualified(operator).partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if packet is None:
        return []
    every = [getattr(packet, each) for each in packet.overloads()]
    return [each for each in every if not each._schema.is_mutable]


def serve(undo: ExitStack, symbolics: Iterable[tuple[Rewriter, Patch]]) -> None:
    """Have every export inside the context use the symbolics.

    Args:
        undo: Left by the caller on every path.
        symbolics: Each rewriter, with the patch to call for it.
    """
    table: dict[OpOverload, Callable[..., Any]] = {}
    functions: dict[type, tuple[str, Patch]] = {}
    for rewriter, patch in symbolics:
        if rewriter.is_pytorch:
            for overload in overloads(rewriter.name):
                table[overload] = _translation(rewriter.name, overload, patch)
        else:
            functions[names.find(rewriter.name).value] = (rewriter.name, patch)
    replacements: dict[str, Callable[..., Any]] = {}
    if functions:
        from enginebay.rewriting.autograd_functions import Captured

        captured = Captured(functions)
        undo.callback(captured.close)
        table.update(captured.translations)
        replacements["torch.autograd.Function.apply"] = captured.apply
    replacements["torch.onnx.export"] = functools.partial(_export, table)
    internals.replace(undo, replacements)


def _export(table: Translations, original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """``torch.onnx.export`` with the symbolics; what the caller translates stays the caller's."""
    own = kwargs.pop("custom_translation_table", None) or {}
    return original(*args, custom_translation_table={**table, **own}, **kwargs)


def _translation(name: str, overload: OpOverload, patch: Patch) -> Callable[..., Any]:
    def translation(*args: Any, **kwargs: Any) -> Any:
        graph = Graph(name, functools.partial(_own_translation, overload))
        return call(patch, graph, _every_argument(overload, args, kwargs))

    return nameless(translation)


def nameless(translation: Callable[..., Any]) -> Callable[..., Any]:
    """The function without annotations: the exporter would read these as types of ONNX."""
    translation.__annotations__ = {}
    return translation


def call(patch: Patch, graph: Graph, args: Sequence[Any]) -> Any:
    """Call a symbolic with the exporter's arguments, and answer in the exporter's values."""
    return _unwrapped(patch.call(graph, *_wrapped(list(args))))


def _every_argument(
    overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    """All arguments in order, defaults too, as the TorchScript exporter hands them over."""
    schema = overload._schema.arguments
    given = dict(zip((each.name for each in schema), args, strict=False)) | kwargs
    return [given.get(each.name, each.default_value) for each in schema]


def _own_translation(overload: OpOverload, graph: Graph, *args: Any) -> Any:
    """What the exporter itself would do with an operator."""
    own = _own(overload, graph.opset)
    if own is None:
        raise RewriterError(
            f'ctx.origin_func was called for "{overload}", '
            "which the dynamo exporter cannot translate"
        )
    positional, keywords = [], {}
    for value, each in zip(_unwrapped(list(args)), overload._schema.arguments, strict=False):
        if not each.kwarg_only:
            positional.append(value)
        elif value != each.default_value:
            keywords[each.name] = value
    return _wrapped(own(*positional, **keywords))


@functools.cache
def _own(overload: OpOverload, opset: int) -> Callable[..., Any] | None:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    found = ONNXRegistry.from_torchlib(opset).get_decomps(overload)
    return next((each.onnx_function for each in found if not each.is_complex), None)


def _wrapped(given: Any) -> Any:
    import onnx_ir

    if isinstance(given, list | tuple):
        return type(given)(map(_wrapped, given))
    return Value(given) if isinstance(given, onnx_ir.Value) else given


def _unwrapped(given: Any) -> Any:
    if isinstance(given, list | tuple):
        return type(given)(map(_unwrapped, given))
    return given.value if isinstance(given, Value) else given
